// What was pushed to a queue that is deleted now and then, and when it was deleted: by log time what must,
// may and must not be there.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ledger.h"
#include "story.h"

namespace queen::sim {

class RebornBook {
 public:
  explicit RebornBook(Story& story) : story_(story) {}

  // Log times around a call: its stamp is behind the first and not behind the second.
  struct Times {
    std::int64_t before_us = 0, after_us = 0;
  };
  // A push of it is on its way, possibly once more.
  void sending(const std::string& partition, const std::string& id);
  void stored(const std::string& partition, const std::string& id, std::uint64_t offset, bool repeat,
              Times times);
  void refused(const std::string& partition, const std::string& id);
  void deleting() { ++deletions_open_; }
  void deleted(bool existed, Times times);
  void not_deleted() { --deletions_open_; }
  void given(const std::string& partition, const std::string& group, const LogRecord& record, Times times);

  // The queue as it is in the end: its partitions, and what their groups were given of them.
  void check(const std::map<std::string, PartitionRead>& logs, const std::set<std::string>& groups);
  // A dead letter that is there.
  void check_letter(const std::string& transaction_id, std::int64_t failed_at);

 private:
  struct Push {
    std::uint64_t offset = 0;
    Times times;
  };
  struct Message {
    std::vector<Push> stored;
    int open = 0;  // pushes without an answer
  };
  using Place = std::pair<std::string, std::string>;  // partition and id

  bool surely_gone(std::int64_t stamp_us, std::int64_t by_us) const;
  bool may_be_deleted(Times first, Times second) const;
  void check_log(const std::string& partition, const PartitionRead& log, const std::set<std::string>& groups);
  void check_stored(const std::string& partition, const std::string& id, const Message& message,
                    const std::map<std::string, PartitionRead>& logs);
  void check_orders();

  Story& story_;
  std::map<Place, Message> messages_;
  std::vector<Times> deletions_;  // that found a queue
  int deletions_open_ = 0;
  std::map<std::pair<std::string, std::string>, std::set<std::pair<std::string, std::int64_t>>> given_;
};

}  // namespace queen::sim

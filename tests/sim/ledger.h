// What was pushed where, what was answered to it, and what therefore must, may and must not stand in the
// logs.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "node.h"
#include "story.h"

namespace queen::sim {

struct PartitionName {
  std::string queue, partition;
  auto operator<=>(const PartitionName&) const = default;
};

// The payload that goes with a transaction id, always the same: whoever reads one knows the other.
std::string payload_of(std::string_view transaction_id);

// One record as the node gives it back.
struct LogRecord {
  std::uint64_t offset = 0;
  std::int64_t ts_us = 0;
  std::string transaction_id, payload;
  bool stamp_known = true;
};
struct PartitionRead {
  std::uint64_t log_start = 0, end = 0;
  std::vector<LogRecord> records;
};

// What of its queue retention leaves alone.
enum class Kept : std::uint8_t { all, unread, nothing };

// How long a queue keeps what nobody consumed; 0 = for ever.
struct QueueRules {
  std::int64_t retention_us = 0;
  bool exists = false;  // as far as anybody was answered
  bool encrypted = false;
  Kept kept = Kept::all;
};

class Ledger {
 public:
  explicit Ledger(Story& story) : story_(story) {}

  void set_rules(const std::string& queue, QueueRules rules) { rules_[queue] = rules; }
  const QueueRules& rules(const std::string& queue) { return rules_[queue]; }
  // A push with it is on its way; from now on it may be there. Order within a partition does not matter.
  void sending(const PartitionName& where, const std::string& transaction_id);
  // One push of all of these: what goes to one partition takes place together, whatever is answered.
  void pushing_whole(const std::vector<std::pair<PartitionName, std::vector<std::string>>>& batches);
  // Answered as stored, or as a repeat of what is stored, at `offset`. Log times around the call; of a repeat
  // only the later one says something.
  void stored(const PartitionName& where, const std::string& transaction_id, std::uint64_t offset,
              std::optional<std::int64_t> before_us, std::int64_t after_us);
  // A message that a consumer or reader was given.
  void seen(const PartitionName& where, const LogRecord& record);

  // The transaction id of what was seen there.
  const std::string& transaction_at(const PartitionName& where, std::uint64_t offset) {
    return partitions_[where].at.at(offset);
  }

  // Reads every partition from its start to its end, and judges what is there. `drained`: nothing is on its
  // way.
  void check(SimNode& node);
  // What is known of the messages below `offset`, in their order. Of one that nobody ever read the stamp is
  // that of the next one that somebody did, and `stamp_known` is false.
  std::vector<LogRecord> gone(const PartitionName& where, std::uint64_t offset) const;
  // All of a partition. Nothing, and a violation, when it cannot be read.
  std::optional<PartitionRead> read(SimNode& node, const PartitionName& where,
                                    std::string_view tenant = kDefaultTenant);
  // What the last check() read.
  const std::map<PartitionName, PartitionRead>& logs() const { return logs_; }
  std::uint64_t messages() const { return messages_; }

 private:
  struct Sent {
    std::optional<std::uint64_t> offset;  // that was answered
    std::optional<std::int64_t> before_us;
    std::int64_t after_us = INT64_MAX;
  };
  struct Partition {
    std::map<std::string, Sent> sent;
    std::map<std::uint64_t, std::string> at;  // by offset, as answered or seen
    std::map<std::uint64_t, std::int64_t> stamps;
  };

  void check_partition(const PartitionName& where, const Partition& partition, const PartitionRead& log,
                       std::int64_t now_us);
  void check_records(const PartitionName& where, const Partition& partition, const PartitionRead& log);
  void check_strangers(SimNode& node);
  void check_whole_pushes();
  void place(const PartitionName& where, std::uint64_t offset, const std::string& transaction_id);

  Story& story_;
  std::map<PartitionName, Partition> partitions_;
  std::map<std::string, QueueRules> rules_;
  std::map<PartitionName, PartitionRead> logs_;
  std::vector<std::pair<PartitionName, std::vector<std::string>>> whole_;
  std::set<std::pair<PartitionName, std::string>> repeated_;  // sent by a later push as well
  std::uint64_t messages_ = 0;
};

}  // namespace queen::sim

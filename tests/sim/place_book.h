// Where a consumer group must read on, for a group with one user who knows the outcome of each of its calls.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "ledger.h"

namespace queen::sim {

// A place in a partition.
struct AtOffset {
  std::int64_t offset = 0;
};
struct SinceStamp {  // the first message stamped then or later
  std::int64_t us = 0;
};
struct AtMoment {  // the end of the partition, at a moment of log time in (before, after]
  std::int64_t before_us = 0, after_us = 0;
};
using Place = std::variant<AtOffset, SinceStamp, AtMoment>;

class PlaceBook {
 public:
  PlaceBook(Story& story, std::string queue) : story_(story), queue_(std::move(queue)) {}

  // Without a cursor in a partition a group starts where its registration says.
  void registered(const std::string& group, Place start);
  bool is_registered(const std::string& group) const {
    const auto found = groups_.find(group);
    return found != groups_.end() && found->second.start.has_value();
  }
  // A pop came that starts there where nothing else says. Of one `partition` alone it registers nothing, and
  // is noted there when it was given something, or stands at the end (F-5).
  void contact(const std::string& group, const std::optional<std::string>& partition, Place start,
               bool given);
  // A new policy; cursors stay.
  void subscribed(const std::string& group, std::int64_t from_us);
  void placed(const std::string& group, const std::string& partition, Place place);
  void forgotten(const std::string& group, const std::string& partition);
  void deleted(const std::string& group, bool registration_too);
  // A call whose outcome nobody knows: nothing is judged of the group any more.
  void lost(const std::string& group) { groups_.erase(group); }
  // It was given messages from `first` on. To be judged.
  void given(const std::string& group, const std::string& partition, std::int64_t first);

  // All that was given began where it had to, and the node's own word on where each group stands is right.
  void check(const std::map<PartitionName, PartitionRead>& logs, SimNode& node);

 private:
  struct Group {
    std::optional<Place> start;
    std::map<std::string, Place> places;  // by partition
  };
  struct Given {
    std::string group, partition;
    Place place;
    std::int64_t first;
  };
  bool fits(const Place& place, std::int64_t first, const std::vector<LogRecord>& records) const;

  Story& story_;
  const std::string queue_;
  std::map<std::string, Group> groups_;
  std::vector<Given> given_;
};

}  // namespace queen::sim

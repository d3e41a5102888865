// What was scheduled, cancelled and answered of timers, and what therefore must and must not have fired.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ledger.h"
#include "story.h"

namespace queen::sim {

struct TimerName {
  std::string queue, key;
  auto operator<=>(const TimerName&) const = default;
};
// A schedule that was answered. Its stamp, the log time of its entry, is `deliver_at` less the delay.
struct TimerSet {
  std::string transaction_id;  // of its message, never used twice
  std::string partition;
  std::int64_t stamp_us = 0, deliver_at = 0;
  bool again = false;  // it replaced a pending one
};
// Log times around a call.
struct CallTimes {
  std::int64_t before_us = 0, after_us = 0;
};

class TimerBook {
 public:
  explicit TimerBook(Story& story) : story_(story) {}

  // An operation on the timer is on its way; of a cancel without an id. From now on it may take place, until
  // it is answered by one of the others.
  void sending(const TimerName& name, const std::string& transaction_id);
  void scheduled(const TimerName& name, const TimerSet& set, CallTimes times);
  void cancelled(const TimerName& name, const std::string& transaction_id, CallTimes times);
  void absent(const TimerName& name, CallTimes times);
  // It did not take place and never will.
  void refused(const TimerName& name, const std::string& transaction_id);

  // All timers have come to their end: each fired once or there is a reason why not.
  void check(const std::map<PartitionName, PartitionRead>& logs);

 private:
  struct Fired {
    PartitionName where;
    std::int64_t ts_us = 0;
  };
  struct Cancel {
    std::string transaction_id;
    CallTimes times;
  };
  struct Timer {
    std::vector<TimerSet> sets;       // in the order of their answers
    std::vector<Cancel> cancels;      // that removed something
    std::vector<CallTimes> absences;  // cancels that found nothing
    std::set<std::string> sent, refused;
    int open = 0;  // operations without an answer
  };
  using FiredById = std::map<std::string, Fired, std::less<>>;

  void check_timer(const TimerName& name, const Timer& timer, const FiredById& fired);
  void check_set(const TimerName& name, const Timer& timer, const TimerSet& set, const FiredById& fired);
  void check_cancels(const TimerName& name, const Timer& timer, const FiredById& fired);
  bool may_replace(const Timer& timer, const TimerSet& set, const FiredById& fired) const;

  Story& story_;
  std::map<TimerName, Timer> timers_;
};

}  // namespace queen::sim

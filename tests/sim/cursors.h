// What consumer groups were given and what they said of it: the rules of leases and cursors as far as a
// client can judge them, whose answers may be lost.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ledger.h"
#include "story.h"

namespace queen::sim {

struct ClaimSeen {
  PartitionName where;
  std::string group, lease_id;
  std::uint64_t pid = 0;
  std::int64_t first = 0, last = 0;
  std::int64_t lease_us = 0;
  std::int64_t before_us = 0, after_us = 0;  // log times around the pop
  Kept kept = Kept::all;
};

class Cursors {
 public:
  explicit Cursors(Story& story) : story_(story) {}

  void claimed(const ClaimSeen& claim);
  // An ack is on its way that may move the cursor to `to`; `ends`: and end the lease.
  void acking(const ClaimSeen& claim, std::int64_t to, bool ends);
  // It did not take place and never will.
  void not_acked(const ClaimSeen& claim, std::int64_t to, bool ends);
  // It was taken: the cursor is at `to` or behind it.
  void acked(const ClaimSeen& claim, std::int64_t to, std::int64_t before_us, std::int64_t after_us);
  // All partitions that were claimed under that id.
  void renewing(const std::string& lease_id) { renewed_.insert(lease_id); }
  // Answered: it prolonged as many leases of that id as are there at all, to `us` from a moment behind
  // `before_us`.
  void renewed(const std::string& lease_id, std::size_t count, std::int64_t us, std::int64_t before_us,
               std::int64_t after_us);
  // A `failed` of the message at `offset` was taken, and the message not filed: it comes again, at most
  // `retry_limit` times.
  void failed(const ClaimSeen& claim, std::int64_t offset, std::int64_t retry_limit);
  // Commit on delivery: given out once and never again.
  void delivered_for_good(const PartitionName& where, const std::string& group, std::int64_t first,
                          std::int64_t last);
  // A call is on its way that sets all cursors of the group on the queue anywhere and ends its leases; until
  // it is answered nothing of them is sure.
  void moving(const std::string& queue, const std::string& group);
  void moved(const std::string& queue, const std::string& group, std::int64_t after_us);
  // It did not take place and never will.
  void not_moved(const std::string& queue, const std::string& group) { --moves_[{queue, group}].open; }
  // The cursors are back at the start, for good: everything has to be delivered once more.
  void deliver_again(const std::string& queue, const std::string& group);
  // Once everything is drained: every message of `logs` was given to each of `groups` of its queue.
  void check_all_delivered(const std::map<PartitionName, PartitionRead>& logs, const std::string& queue,
                           const std::set<std::string>& groups);

 private:
  struct Lease {
    std::string id;
    std::int64_t before_us = 0, after_us = 0, lease_us = 0;
    int settlings = 0;  // acks that may have settled all of it: a repeat of one is taken at any time
    bool may_have_ended() const { return settlings > 0; }
  };
  struct Floor {
    std::int64_t before_us = 0, by_us = 0;  // log times around the ack
    std::int64_t offset = 0;
  };
  struct Move {
    bool ever = false;
    int open = 0;  // without an answer
    std::int64_t sure_from =
        0;  // what was called when log time had passed this came behind all answered ones
  };
  struct Cursor {
    std::vector<Floor> floors;                 // `by_us` and `offset` ascending
    std::multiset<std::int64_t> ceilings{-1};  // the cursor is not beyond the greatest
    std::int64_t ceiling() const { return *ceilings.rbegin(); }
    std::vector<Lease> leases;
    std::set<std::int64_t> delivered;
    std::int64_t failing = -1;  // the message that failed last, and how often
    std::int64_t failures = 0;
  };
  Cursor& of(const PartitionName& where, const std::string& group) { return cursors_[{where, group}]; }
  void judge_lease(const ClaimSeen& claim, const Cursor& cursor, const Move& move);

  Story& story_;
  std::map<std::pair<std::string, std::string>, Move> moves_;  // by queue and group
  std::map<std::pair<PartitionName, std::string>, Cursor> cursors_;
  std::set<std::string> renewed_;  // leases that may last longer than their pop said
};

}  // namespace queen::sim

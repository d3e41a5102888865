// What the parts of a pop share: who pops where, what it has collected, and first contact of a group.
#pragma once

#include <optional>
#include <string_view>

#include "machine/detail/cycle.h"

namespace queen::machine::detail {

// One queue of a pop.
struct PopTarget {
  std::string_view tenant;
  const PopCommand& pop;
  std::string_view name;  // of the queue
  std::uint64_t queue_id = 0;
  std::optional<store::QueueRow> queue;
  std::optional<store::GroupRow> group;  // its registration
  std::optional<Pid> pinned;             // the partition of a pinned pop, when it exists
  bool conflation = false;               // the policy that counts here (C-2)
};

// Reads the queue, the group and the pinned partition; makes and registers what this pop makes and registers
// (F-1, F-2, F-5); decides the conflation policy (C-2, C-3). When it has to ask, it registered nothing.
void contact(Cycle& cycle, PopTarget& target, PopOutcome& out);

// The cursor of a group in a partition that it meets for the first time (F-3, F-4, F-5), not written yet.
// Nothing when only the log knows where it starts: `ask` says what to look up.
std::optional<store::CursorRow> first_cursor(const Cycle& cycle, const PopTarget& target, Pid pid,
                                             const store::PartitionRow& partition, ColdAsk& ask);

struct PartitionAt {
  Pid pid;
  std::uint64_t queue_id = 0;
  const store::PartitionRow& row;
};
// The first retained offset of a partition that is stamped at or after `since`; last_offset + 1 when none is.
// Nothing when only the log knows and `known` does not say: `ask` says what to look up.
std::optional<std::int64_t> first_stamped(const View& view, const ColdFacts& known, const PartitionAt& at,
                                          std::int64_t since, ColdAsk& ask);
// The row of a group that is registered now. The queue's own mode always starts at the oldest message (F-4).
store::GroupRow new_group(const Cycle& cycle, std::string_view group, const Uuid& uuid,
                          const Subscription& subscription);

// The cursor of a group that a client put elsewhere: no lease, no attempts, and the metadata of where it was
// is gone. The last released lease stays known: the repeat of an ack from before still gets its answer
//
store::CursorRow moved_to(std::optional<store::CursorRow> cursor, std::int64_t committed,
                          std::int64_t now_us);

// Frame bytes that one pop hands out, however large its batch: an answer is built in memory. The first
// message always goes.
constexpr std::uint64_t kPopBytesMax = 32ULL << 20;

// What a pop may still take, over all the queues that it walks.
struct PopBudget {
  std::uint64_t messages = 0;
  std::uint64_t bytes = kPopBytesMax;
  std::size_t passed = 0;  // partitions that would have been claimed, had the pop not had to ask
  bool cut_short = false;  // what it claimed goes out without waiting for the log
};

// A pop while it collects from one queue.
struct Collecting {
  Cycle& cycle;
  const PopTarget& target;
  PopOutcome& out;
  PopBudget& budget;

  bool full() const {
    return budget.cut_short || budget.messages == 0 || budget.bytes == 0 ||
           out.claims.size() + out.cold_asks.size() + budget.passed >= out.partitions_max;
  }
  // Only the log knows: with claims in hand the pop ends here, else it claims nothing and asks.
  void ask(const ColdAsk& about) {
    if (out.claims.empty())
      out.cold_asks.push_back(about);
    else
      budget.cut_short = true;
  }
  void look_again(std::int64_t at) {
    if (!out.look_again_at || *out.look_again_at > at) out.look_again_at = at;
  }
};

// Claims what the partition has for the group. The result is the time before which nothing of it can be
// claimed, where a lease, a delay or a window holds it back.
std::optional<std::int64_t> try_claim(Collecting& pop, Pid pid);

// Ends the lease of a cursor; nothing else moves.
void clear_lease(store::CursorRow& row);

}  // namespace queen::machine::detail

// What becomes of claims: given back when nobody received them, cut before a message that cannot be read, or
// settled once they were read (api-messaging.md L-9 to L-11).
#include "machine/detail/pop.h"

namespace queen::machine::detail {
namespace {

// The cursor that still has the lease of a claim, with its partition's queue.
struct Claimed {
  store::CursorRow cursor;
  std::uint64_t queue_id = 0;
};
std::optional<Claimed> claimed(Cycle& cycle, const Command& command, const HandBackCommand& back, Pid pid) {
  const auto partition = must(partition_row(cycle.view, pid));
  auto cursor = must(cursor_row(cycle.view, pid, back.group));
  if (!partition || partition->tenant != command.tenant || !cursor || cursor->worker != back.lease_id.str())
    return std::nullopt;
  return Claimed{std::move(*cursor), queue_id(partition->tenant, partition->queue)};
}

// Settles everything up to `last`.
void settle(store::CursorRow& row, std::int64_t last) {
  row.total_consumed += static_cast<std::uint64_t>(last - row.committed);
  row.committed = last;
  clear_lease(row);
  row.batch_retry_count = 0;
  row.attempt_offset.reset();
  row.attempt_count = 0;
}

void give_back(store::CursorRow& row) {
  clear_lease(row);
  if (row.attempt_count > 0) --row.attempt_count;
  if (row.attempt_count == 0) row.attempt_offset.reset();
}

}  // namespace

HandBackOutcome plan_hand_back(Cycle& cycle, const Command& command, const HandBackCommand& hand_back) {
  HandBackOutcome out;
  const auto change = [&](Pid pid, const auto& how) {
    auto claim = claimed(cycle, command, hand_back, pid);
    if (!claim || !how(claim->cursor)) return claim.has_value();
    cycle.emit(CursorSet{pid, hand_back.group, claim->cursor, 0, claim->queue_id});
    return true;
  };
  for (const auto& cut : hand_back.cuts)
    change(cut.pid, [&](store::CursorRow& row) {
      if (cut.delivered <= row.committed) return false;
      row.batch_end = cut.delivered;
      return true;
    });
  for (const auto& end : hand_back.settled) {
    const bool ours = change(end.pid, [&](store::CursorRow& row) {
      if (end.delivered > row.committed)
        settle(row, end.delivered);
      else
        give_back(row);
      return true;
    });
    if (!ours) out.lost.push_back(end.pid);
  }
  for (const Pid pid : hand_back.pids)
    change(pid, [](store::CursorRow& row) {
      give_back(row);
      return true;
    });
  return out;
}

}  // namespace queen::machine::detail

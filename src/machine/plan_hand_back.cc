// Claims whose answer nobody received, or received in part (api-messaging.md L-9, L-11).
#include <algorithm>

#include "machine/detail/pop.h"

namespace queen::machine::detail {
namespace {

// A claim ends before the message that cannot be read: under a lease its batch ends there; what was settled
// on delivery goes back, unless somebody else went on from it meanwhile. Nothing is skipped for good (CR-5).
void cut_claim(Cycle& cycle, const Command& command, const HandBackCommand& hand_back,
               const HandBackCommand::Cut& cut) {
  const auto partition = must(partition_row(cycle.view, cut.pid));
  auto cursor = must(cursor_row(cycle.view, cut.pid, hand_back.group));
  if (!partition || partition->tenant != command.tenant || !cursor) return;
  if (cursor->worker == hand_back.lease_id.str()) {
    if (cut.delivered <= cursor->committed) return;
    cursor->batch_end = cut.delivered;
  } else if (!cursor->worker && cursor->committed == cut.claimed) {
    cursor->total_consumed -= std::min<std::uint64_t>(
        cursor->total_consumed, static_cast<std::uint64_t>(cut.claimed - cut.delivered));
    cursor->committed = cut.delivered;
  } else {
    return;
  }
  cycle.emit(CursorSet{cut.pid, hand_back.group, *cursor, 0, queue_id(partition->tenant, partition->queue)});
}

}  // namespace

void plan_hand_back(Cycle& cycle, const Command& command, const HandBackCommand& hand_back) {
  const std::string lease_id = hand_back.lease_id.str();
  for (const HandBackCommand::Cut& cut : hand_back.cuts) cut_claim(cycle, command, hand_back, cut);
  for (const Pid pid : hand_back.pids) {
    const auto partition = must(partition_row(cycle.view, pid));
    auto cursor = must(cursor_row(cycle.view, pid, hand_back.group));
    if (!partition || partition->tenant != command.tenant || !cursor || cursor->worker != lease_id) continue;
    clear_lease(*cursor);
    if (cursor->attempt_count > 0) --cursor->attempt_count;
    if (cursor->attempt_count == 0) cursor->attempt_offset.reset();
    cycle.emit(CursorSet{pid, hand_back.group, *cursor, 0, queue_id(partition->tenant, partition->queue)});
  }
}

}  // namespace queen::machine::detail

// What the two halves of a pop share: who pops where, and first contact of a group.
#pragma once

#include <optional>
#include <string_view>

#include "machine/detail/cycle.h"

namespace queen::machine::detail {

struct PopTarget {
  std::string_view tenant;
  const PopCommand& pop;
  std::uint64_t queue_id = 0;
  std::optional<store::QueueRow> queue;
  std::optional<store::GroupRow> group;  // its registration
  std::optional<Pid> pinned;             // the partition of a pinned pop, when it exists
};

// Reads the queue, the group and the pinned partition; makes and registers what this pop makes and registers
// (F-1, F-2, F-5); decides the conflation policy (C-2, C-3). When it has to ask, it registered nothing.
void contact(Cycle& cycle, PopTarget& target, PopOutcome& out);

// The cursor of a group in a partition that it meets for the first time (F-3, F-4, F-5), not written yet.
// Nothing when only the log knows where it starts: `ask` says what to look up.
std::optional<store::CursorRow> first_cursor(const Cycle& cycle, const PopTarget& target, Pid pid,
                                             const store::PartitionRow& partition, ColdAsk& ask);

// The row of a group that is registered now. The queue's own mode always starts at the oldest message (F-4).
store::GroupRow new_group(const Cycle& cycle, std::string_view group, const Uuid& uuid,
                          const Subscription& subscription);

// Ends the lease of a cursor; nothing else moves.
void clear_lease(store::CursorRow& row);

}  // namespace queen::machine::detail

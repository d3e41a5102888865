// Positions: where a group reads on in a partition, set by a client (api-messaging.md 7.1).
#include "machine/detail/cycle.h"
#include "machine/detail/pop.h"

namespace queen::machine::detail {
namespace {

// What a position weighs beside its texts.
constexpr std::uint64_t kPositionBytes = 256;

void register_group(Cycle& cycle, const Command& command, const Position& position, std::size_t ordinal) {
  if (must(group_row(cycle.view, command.tenant, position.queue, position.group))) return;
  const Uuid uuid = derived_uuid(command.request_id, "position group", ordinal);
  cycle.emit(GroupUpsert{command.tenant, position.queue, position.group,
                         new_group(cycle, position.group, uuid, position.subscription)});
}

}  // namespace

store::CursorRow moved_to(std::optional<store::CursorRow> cursor, std::int64_t committed,
                          std::int64_t now_us) {
  store::CursorRow row = std::move(cursor).value_or(store::CursorRow{});
  if (row.created_at == 0) row.created_at = now_us;
  clear_lease(row);
  row.committed = committed;
  row.batch_retry_count = 0;
  row.attempt_offset.reset();
  row.attempt_count = 0;
  row.metadata.clear();
  return row;
}

std::uint64_t position_bytes(const Position& position) {
  return kPositionBytes + position.queue.size() + position.partition.size() + position.group.size() +
         position.metadata.size();
}

bool plan_position(Cycle& cycle, const Command& command, const Position& position, std::size_t ordinal) {
  if (!must(queue_row(cycle.view, command.tenant, position.queue))) return false;
  const std::uint64_t queue = queue_id(command.tenant, position.queue);
  auto pid = must(pid_of(cycle.view, command.tenant, position.queue, position.partition));
  auto cursor = pid ? must(cursor_row(cycle.view, *pid, position.group)) : std::nullopt;
  if (!position.offset) {
    if (cursor) cycle.emit(CursorDelete{*pid, position.group, queue});
    return true;
  }
  if (!pid) {
    pid = Pid{cycle.log.next_pid++};
    cycle.emit(PartitionCreate{*pid, derived_uuid(command.request_id, "position partition", ordinal),
                               command.tenant, position.queue, position.partition, cycle.now});
  }
  register_group(cycle, command, position, ordinal);
  store::CursorRow row = moved_to(std::move(cursor), *position.offset - 1, cycle.now);
  row.metadata = position.metadata;
  cycle.emit(CursorSet{*pid, position.group, std::move(row), 0, queue});
  return true;
}

}  // namespace queen::machine::detail

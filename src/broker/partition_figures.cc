#include "broker/partition_figures.h"

#include <algorithm>

#include "broker/store_steps.h"
#include "machine/apply.h"
#include "machine/commands.h"

namespace queen::broker {
namespace {

using store::Keyspace;

CursorState state_of(std::string group, const store::CursorRow& row, std::int64_t now_us) {
  CursorState out{std::move(group), row.committed, {}, -1, row.total_consumed, row.batch_retry_count};
  if (row.worker && row.batch_end && row.lease_expires.value_or(0) > now_us) {
    out.lease_expires = row.lease_expires;
    out.leased_to = *row.batch_end;
  }
  return out;
}

}  // namespace

bool CursorState::queue_mode() const {
  return group == machine::kQueueMode;
}

Figures& Figures::operator+=(const Figures& other) {
  total += other.total;
  unconsumed += other.unconsumed;
  processing += other.processing;
  dead_letter += other.dead_letter;
  retained_bytes += other.retained_bytes;
  return *this;
}

std::vector<CursorState> cursors_of(const store::Store& store, Pid pid, std::int64_t now_us) {
  std::vector<CursorState> out;
  store.scan(Keyspace::cursors, store::cursors_prefix(pid), {}, [&](BytesView key, BytesView value) {
    auto name = store::parse_cursor_key(key);
    INVARIANT(name.has_value(), "a cursor's key does not parse");
    out.push_back(state_of(std::move(name->group), decode_row<store::CursorRow>(value), now_us));
    return true;
  });
  return out;
}

std::optional<CursorState> cursor_of(const store::Store& store, Pid pid, std::string_view group,
                                     std::int64_t now_us) {
  const auto bytes = store.get(Keyspace::cursors, store::cursor_key(pid, group));
  if (!bytes) return std::nullopt;
  return state_of(std::string(group), decode_row<store::CursorRow>(*bytes), now_us);
}

void QueueSegments::add(LogId queue_id, Pid pid) {
  const LogId log = layout_.of_partition(queue_id, pid);
  if (std::find(counted_.begin(), counted_.end(), log) != counted_.end()) return;
  counted_.push_back(log);
  const auto found = files_.find(log);
  count_ += found == files_.end() ? 0 : found->second.size();
}

std::int64_t consumed_to(const std::vector<CursorState>& cursors) {
  std::optional<std::int64_t> named, queue_mode;
  for (const CursorState& cursor : cursors) {
    if (cursor.queue_mode())
      queue_mode = cursor.committed;
    else
      named = std::min(named.value_or(cursor.committed), cursor.committed);
  }
  return named.value_or(queue_mode.value_or(-1));
}

Figures message_figures(const store::PartitionRow& row, const std::vector<CursorState>& cursors) {
  Figures out;
  out.total = row.last_offset + 1 - row.log_start;
  // A position may be beyond the end.
  out.unconsumed =
      std::max<std::int64_t>(0, row.last_offset - std::max(consumed_to(cursors), row.log_start - 1));
  for (const CursorState& cursor : cursors)
    if (cursor.lease_expires)
      out.processing +=
          std::max<std::int64_t>(0, cursor.leased_to - std::max(cursor.committed, row.log_start - 1));
  out.processing = std::min(out.processing, out.unconsumed);
  return out;
}

std::int64_t dead_letters_of(const store::Store& store, Pid pid) {
  std::int64_t count = 0;
  store.scan(Keyspace::dlq_by_pos, store::dlq_by_pos_prefix(pid), {}, [&](BytesView, BytesView value) {
    const auto ids = store::decode_uuids_row(value);
    INVARIANT(ids.has_value(), "a dlq_by_pos row does not decode");
    count += static_cast<std::int64_t>(ids->size());
    return true;
  });
  return count;
}

std::int64_t counter_of(const store::Store& store, BytesView key) {
  const auto bytes = store.get(Keyspace::counters, key);
  if (!bytes) return 0;
  const auto value = store::decode_i64_row(*bytes);
  INVARIANT(value.has_value(), "a counter does not decode");
  return *value;
}

std::int64_t retained_bytes_of(const store::Store& store, Pid pid) {
  return counter_of(store, store::counter_key(store::CounterScope::partition, store::counter_id(pid),
                                              store::Counter::retained_bytes));
}

std::int64_t lease_now_us(const store::Store& store, Clock& clock) {
  return std::max(clock.wall_us(), machine::safe_time_us(store));
}

}  // namespace queen::broker

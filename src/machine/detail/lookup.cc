#include "machine/detail/lookup.h"

#include <algorithm>
#include <limits>

#include "base/hash.h"

namespace queen::machine {

std::int64_t first_wanted_us(const store::GroupRow& group) {
  switch (group.mode) {
    case store::GroupMode::from_now:
      return group.registered_at;
    case store::GroupMode::timestamp:
      return group.subscription_ts.value_or(group.registered_at);
    case store::GroupMode::all:
      break;
  }
  return std::numeric_limits<std::int64_t>::min();
}

}  // namespace queen::machine

namespace queen::machine::detail {

Result<std::optional<store::QueueRow>> queue_row(const View& view, std::string_view tenant,
                                                 std::string_view queue) {
  return read_row<store::QueueRow>(view, Keyspace::queues, store::queue_key(tenant, queue));
}
Result<std::optional<store::GroupRow>> group_row(const View& view, std::string_view tenant,
                                                 std::string_view queue, std::string_view group) {
  return read_row<store::GroupRow>(view, Keyspace::groups, store::group_key(tenant, queue, group));
}
Result<std::optional<store::PartitionRow>> partition_row(const View& view, Pid pid) {
  return read_row<store::PartitionRow>(view, Keyspace::partitions, store::partition_key(pid));
}
Result<std::optional<store::CursorRow>> cursor_row(const View& view, Pid pid, std::string_view group) {
  return read_row<store::CursorRow>(view, Keyspace::cursors, store::cursor_key(pid, group));
}

Result<std::optional<Pid>> pid_of(const View& view, std::string_view tenant, std::string_view queue,
                                  std::string_view partition) {
  const auto bytes = view.get(Keyspace::partitions_by_key, store::partition_by_key(tenant, queue, partition));
  if (!bytes) return std::optional<Pid>();
  const auto pid = store::decode_pid_row(*bytes);
  if (!pid) return pid.error();
  return std::optional<Pid>(*pid);
}

Result<std::optional<std::int64_t>> number_row(const View& view, Keyspace keyspace, BytesView key) {
  const auto bytes = view.get(keyspace, key);
  if (!bytes) return std::optional<std::int64_t>();
  const auto value = store::decode_i64_row(*bytes);
  if (!value) return value.error();
  return std::optional<std::int64_t>(*value);
}

std::optional<FoundAppend> append_at(const View& view, Pid pid, std::int64_t offset) {
  auto found = view.last_at_or_below(Keyspace::txns, store::txns_prefix(pid), store::txns_key(pid, offset));
  if (!found) return std::nullopt;
  const auto key = store::parse_txns_key(found->key);
  INVARIANT(key.has_value(), "an append row of partition {} has a broken key", pid.value);
  FoundAppend out{key->base_offset, std::move(found->value), {}};
  out.row = must(store::AppendRowView::decode(out.bytes));
  if (out.row.end < offset) return std::nullopt;
  return out;
}

std::int64_t first_stamped_at_or_after(const View& view, Pid pid, const store::PartitionRow& partition,
                                       std::int64_t oldest, std::int64_t since) {
  if (partition.last_offset < oldest || partition.last_created_at < since) return partition.last_offset + 1;
  if (partition.created_at >= since) return oldest;
  // Invariant: everything below `low` is too old, everything from `high` on is not.
  std::int64_t low = oldest;
  std::int64_t high = partition.last_offset + 1;
  while (low < high) {
    const auto append = append_at(view, pid, low + (high - low) / 2);
    INVARIANT(append.has_value(), "partition {} lacks the append row of offset {}", pid.value,
              low + (high - low) / 2);
    if (append->row.created_at >= since)
      high = std::max(append->base, low);
    else
      low = append->row.end + 1;
  }
  return low;
}

StampSearch search_stamp(const View& view, Pid pid, const store::PartitionRow& partition, std::int64_t oldest,
                         std::int64_t since) {
  if (partition.last_offset < oldest || partition.last_created_at < since)
    return {partition.last_offset + 1, false};
  if (partition.created_at >= since) return {oldest, false};
  const std::int64_t rows = std::max(oldest, partition.rows_start);
  const std::int64_t found = first_stamped_at_or_after(view, pid, partition, rows, since);
  return {found, found == rows && oldest < rows};
}

std::uint64_t queue_id(std::string_view tenant, std::string_view queue) {
  Bytes name;
  name.reserve(tenant.size() + 1 + queue.size());
  name.append(tenant).append(1, '\x1F').append(queue);
  return std::max<std::uint64_t>(xxh3_64(name), 1);
}

Result<std::uint64_t> meta_number(const View& view, std::string_view name, std::uint64_t otherwise) {
  const auto bytes = view.get(Keyspace::meta, name);
  if (!bytes) return otherwise;
  return store::decode_meta_u64(*bytes);
}

Result<LogState> LogState::load(const View& view) {
  LogState out;
  const auto pid = meta_number(view, store::kMetaNextPid, out.next_pid);
  const auto version = meta_number(view, store::kMetaKvVersionNext, out.kv_version_next);
  const auto now = meta_number(view, store::kMetaLastNowUs, 0);
  const auto created = meta_number(view, store::kMetaMaxCreatedAtUs, 0);
  for (const auto* value : {&pid, &version, &now, &created})
    if (!*value) return value->error();
  out.next_pid = *pid;
  out.kv_version_next = *version;
  out.last_now_us = static_cast<std::int64_t>(*now);
  out.max_created_at_us = static_cast<std::int64_t>(*created);
  return out;
}

void LogState::save(View& view) const {
  view.put(Keyspace::meta, store::kMetaNextPid, store::encode_meta_u64(next_pid));
  view.put(Keyspace::meta, store::kMetaKvVersionNext, store::encode_meta_u64(kv_version_next));
  view.put(Keyspace::meta, store::kMetaLastNowUs, store::encode_meta_i64(last_now_us));
  view.put(Keyspace::meta, store::kMetaMaxCreatedAtUs, store::encode_meta_i64(max_created_at_us));
}

}  // namespace queen::machine::detail

// What each effect does to the rows (storage.md 8.2). The planner runs it on its overlay and apply on the
// store, so both end with the same rows.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "machine/detail/run.h"
#include "machine/planner.h"

namespace queen::machine {
namespace {

using namespace detail;

std::int64_t hold_us(const store::QueueRow& queue) {
  return std::int64_t{std::max({queue.delayed_processing, queue.window_hold_seconds(), 0})} * kSecondUs;
}

// A hold that became shorter lets messages go earlier than their pending rows say. The pop checks the
// truth, so a row that is too early costs a look and a row that is too late would hold messages back.
Status rearm_held(const Where& at, const QueueUpsert& effect) {
  std::vector<std::pair<Bytes, store::PendingKey>> held;
  at.view.scan(Keyspace::pending, store::pending_prefix(effect.tenant, effect.queue), {},
               [&](BytesView key, BytesView value) {
                 const auto ready_at = store::decode_i64_row(value);
                 auto parsed = store::parse_pending_key(key);
                 if (parsed && ready_at && *ready_at > at.now_us)
                   held.emplace_back(Bytes(key), std::move(*parsed));
                 return true;
               });
  for (const auto& [key, row] : held) {
    const auto cursor = cursor_row(at.view, row.pid, row.group);
    if (!cursor) return cursor.error();
    put_pending(at.view, key, ready_after_lease(*cursor, at.now_us));
  }
  return {};
}

Status run(const Where& at, const QueueUpsert& effect) {
  const auto old = queue_row(at.view, effect.tenant, effect.queue);
  if (!old) return old.error();
  at.view.put(Keyspace::queues, store::queue_key(effect.tenant, effect.queue), effect.row.encode());
  if (*old && hold_us(effect.row) < hold_us(**old)) return rearm_held(at, effect);
  return {};
}

Status arm_all(const Where& at, const GroupUpsert& effect) {
  std::vector<Pid> pids;
  at.view.scan(Keyspace::queue_partitions, store::queue_partitions_prefix(effect.tenant, effect.queue), {},
               [&](BytesView key, BytesView) {
                 if (const auto pid = store::parse_queue_partition_key(key)) pids.push_back(*pid);
                 return true;
               });
  // No partition can hold a wanted message when the whole queue's newest is too old: then only cursors of
  // earlier pinned pops matter, and partition rows need not be read.
  const auto newest =
      number_row(at.view, Keyspace::counters,
                 store::counter_key(CounterScope::queue, store::counter_id(effect.tenant, effect.queue),
                                    Counter::last_push_us));
  if (!newest) return newest.error();
  std::int64_t wanted_us = first_wanted_us(effect.row);
  if (newest->value_or(0) < wanted_us) wanted_us = std::numeric_limits<std::int64_t>::max();
  for (const Pid pid : pids)
    if (Status status = arm_partition(at, {effect.tenant, effect.queue, effect.group}, pid, wanted_us);
        !status)
      return status;
  return {};
}

// Another start decides what is wanted of the partitions where the group has no cursor (G-5).
Status rearm_unread(const Where& at, const GroupUpsert& effect) {
  const std::int64_t wanted_us = first_wanted_us(effect.row);
  std::vector<Pid> pids;
  at.view.scan(Keyspace::queue_partitions, store::queue_partitions_prefix(effect.tenant, effect.queue), {},
               [&](BytesView key, BytesView) {
                 if (const auto pid = store::parse_queue_partition_key(key)) pids.push_back(*pid);
                 return true;
               });
  for (const Pid pid : pids) {
    if (at.view.get(Keyspace::cursors, store::cursor_key(pid, effect.group))) continue;
    at.view.erase(Keyspace::pending, store::pending_key(effect.tenant, effect.queue, effect.group, pid));
    if (Status status = arm_partition(at, {effect.tenant, effect.queue, effect.group}, pid, wanted_us);
        !status)
      return status;
  }
  return {};
}

Status run(const Where& at, const GroupUpsert& effect) {
  const auto old = group_row(at.view, effect.tenant, effect.queue, effect.group);
  if (!old) return old.error();
  store::GroupRow row = effect.row;
  row.reg_index = *old ? (*old)->reg_index : at.index.value;
  row.reg_effect = *old ? (*old)->reg_effect : at.ordinal;
  at.view.put(Keyspace::groups, store::group_key(effect.tenant, effect.queue, effect.group), row.encode());
  if (!*old) return arm_all(at, effect);
  return first_wanted_us(**old) == first_wanted_us(row) ? Status{} : rearm_unread(at, effect);
}

Status run(const Where& at, const PartitionCreate& effect) {
  const Bytes key = store::partition_key(effect.pid);
  if (at.view.get(Keyspace::partitions, key))
    return fatal(fmt::format("partition {} exists already", effect.pid.value));
  const Bytes by_key = store::partition_by_key(effect.tenant, effect.queue, effect.partition);
  if (at.view.get(Keyspace::partitions_by_key, by_key))
    return fatal(fmt::format("partition {} has the name of another", effect.pid.value));
  store::PartitionRow row;
  row.uuid = effect.uuid;
  row.tenant = effect.tenant;
  row.queue = effect.queue;
  row.partition = effect.partition;
  row.created_at = effect.created_at;
  row.last_write_at = effect.created_at;
  at.view.put(Keyspace::partitions, key, row.encode());
  at.view.put(Keyspace::partitions_by_key, by_key, store::encode_pid_row(effect.pid));
  at.view.put(Keyspace::queue_partitions, store::queue_partition_key(effect.tenant, effect.queue, effect.pid),
              {});
  return {};
}

struct NewMessages {
  Pid pid;
  std::int64_t created_at = 0;
  std::int64_t ready_at = 0;
};

// One covering group: its pending row, written only when earlier than the present one.
Status arm_group(const Where& at, const store::PartitionRow& partition, std::string_view group,
                 const store::GroupRow& row, const NewMessages& messages) {
  const Bytes key = store::pending_key(partition.tenant, partition.queue, group, messages.pid);
  const auto present = number_row(at.view, Keyspace::pending, key);
  if (!present) return present.error();
  if (*present && **present <= messages.ready_at) return {};
  const auto cursor = cursor_row(at.view, messages.pid, group);
  if (!cursor) return cursor.error();
  // A transaction may have set the position beyond the end.
  if (*cursor && (*cursor)->committed >= partition.last_offset) return {};
  if (!*cursor && messages.created_at < first_wanted_us(row)) return {};
  std::int64_t ready_at = messages.ready_at;
  if (*cursor && lease_live(**cursor, at.now_us)) ready_at = std::max(ready_at, *(*cursor)->lease_expires);
  if (!*present || **present > ready_at) put_pending(at.view, key, ready_at);
  return {};
}

Status arm_groups(const Where& at, const store::PartitionRow& partition, const Append& effect) {
  std::vector<std::pair<std::string, store::GroupRow>> groups;
  bool broken = false;
  at.view.scan(Keyspace::groups, store::groups_prefix(partition.tenant, partition.queue), {},
               [&](BytesView key, BytesView value) {
                 auto name = store::parse_group_key(key);
                 auto row = store::GroupRow::decode(value);
                 broken = !name || !row;
                 if (!broken) groups.emplace_back(std::move(name->group), std::move(*row));
                 return !broken;
               });
  if (broken) return fatal(fmt::format("a group row of queue {} does not decode", partition.queue));
  if (groups.empty()) return {};
  const auto queue = queue_row(at.view, partition.tenant, partition.queue);
  if (!queue) return queue.error();
  const NewMessages messages{effect.pid, effect.created_at,
                             effect.created_at + (*queue ? hold_us(**queue) : 0)};
  for (const auto& [name, row] : groups)
    if (Status status = arm_group(at, partition, name, row, messages); !status) return status;
  return {};
}

Status count_append(const Where& at, const store::PartitionRow& partition, const Append& effect) {
  const Bytes queue = store::counter_id(partition.tenant, partition.queue);
  const Bytes pid = store::counter_id(effect.pid);
  for (Status status :
       {count(at.view, CounterScope::queue, queue, Counter::pushed, effect.count, Fold::add),
        count(at.view, CounterScope::queue, queue, Counter::retained_bytes, effect.payload_bytes, Fold::add),
        count(at.view, CounterScope::queue, queue, Counter::last_push_us, effect.created_at, Fold::greatest),
        count(at.view, CounterScope::partition, pid, Counter::retained_bytes, effect.payload_bytes,
              Fold::add)})
    if (!status) return status;
  return {};
}

Status run(const Where& at, const Append& effect) {
  auto found = partition_row(at.view, effect.pid);
  if (!found) return found.error();
  if (!*found) return fatal(fmt::format("append to partition {}, which does not exist", effect.pid.value));
  store::PartitionRow& partition = **found;
  const auto base = static_cast<std::int64_t>(effect.base_offset);
  if (effect.count == 0 || base != partition.last_offset + 1)
    return fatal(fmt::format("append of {} at {} to partition {}, which ends at {}", effect.count, base,
                             effect.pid.value, partition.last_offset));
  partition.last_offset = base + effect.count - 1;
  partition.last_write_at = effect.created_at;
  partition.last_created_at = effect.created_at;
  if (!partition.oldest_live_at) partition.oldest_live_at = effect.created_at;
  at.view.put(Keyspace::partitions, store::partition_key(effect.pid), partition.encode());
  at.view.put(Keyspace::txns, store::txns_key(effect.pid, base),
              store::encode_append_row(partition.last_offset, effect.created_at, effect.hashes,
                                       effect.payload_bytes));
  if (Status status = count_append(at, partition, effect); !status) return status;
  return arm_groups(at, partition, effect);
}

Status set_pending(const Where& at, const store::PartitionRow& partition, const CursorSet& effect) {
  if (!at.view.get(Keyspace::groups, store::group_key(partition.tenant, partition.queue, effect.group)))
    return {};
  const Bytes key = store::pending_key(partition.tenant, partition.queue, effect.group, effect.pid);
  if (effect.row.committed >= partition.last_offset)
    at.view.erase(Keyspace::pending, key);
  else
    put_pending(at.view, key, ready_after_lease(effect.row, at.now_us));
  return {};
}

Status run(const Where& at, const CursorSet& effect) {
  const auto partition = partition_row(at.view, effect.pid);
  if (!partition) return partition.error();
  if (!*partition) return {};  // deleted meanwhile: nothing to keep a cursor for
  const auto old = cursor_row(at.view, effect.pid, effect.group);
  if (!old) return old.error();
  if (*old && (*old)->worker && (*old)->worker != effect.row.worker)
    at.view.erase(Keyspace::leases_by_worker,
                  store::lease_by_worker_key(*(*old)->worker, effect.pid, effect.group));
  if (effect.row.worker)
    at.view.put(Keyspace::leases_by_worker,
                store::lease_by_worker_key(*effect.row.worker, effect.pid, effect.group),
                store::encode_i64_row(effect.row.lease_expires.value_or(0)));
  at.view.put(Keyspace::cursors, store::cursor_key(effect.pid, effect.group), effect.row.encode());
  return set_pending(at, **partition, effect);
}

Status run(const Where& at, const DlqInsert& effect) {
  at.view.put(Keyspace::dlq, store::dlq_key(effect.tenant, effect.queue, effect.dlq_id), effect.row.encode());
  const Bytes key = store::dlq_by_pos_key(effect.row.pid, effect.row.group, effect.row.offset);
  std::vector<Uuid> ids;
  if (const auto bytes = at.view.get(Keyspace::dlq_by_pos, key)) {
    auto old = store::decode_uuids_row(*bytes);
    if (!old) return old.error();
    ids = std::move(*old);
  }
  ids.push_back(effect.dlq_id);
  at.view.put(Keyspace::dlq_by_pos, key, store::encode_uuids_row(ids));
  return count(at.view, CounterScope::queue, store::counter_id(effect.tenant, effect.queue),
               Counter::dlq_count, 1, Fold::add);
}

Status drop_expiry(const Where& at, BytesView key) {
  const auto old = read_row<store::KvRow>(at.view, Keyspace::kv, key);
  if (!old) return old.error();
  if (*old && (*old)->expires_at)
    at.view.erase(Keyspace::kv_expiry, store::kv_expiry_key(*(*old)->expires_at, (*old)->version));
  return {};
}

Status run(const Where& at, const KvPut& effect) {
  const Bytes key = store::kv_key(effect.tenant, effect.ns, effect.key);
  if (Status status = drop_expiry(at, key); !status) return status;
  at.view.put(Keyspace::kv, key, effect.row.encode());
  if (effect.row.expires_at)
    at.view.put(Keyspace::kv_expiry, store::kv_expiry_key(*effect.row.expires_at, effect.row.version),
                store::encode_bytes_row(key));
  return {};
}

Status run(const Where& at, const KvDelete& effect) {
  const Bytes key = store::kv_key(effect.tenant, effect.ns, effect.key);
  if (Status status = drop_expiry(at, key); !status) return status;
  at.view.erase(Keyspace::kv, key);
  return {};
}

Status run(const Where&, const Noop&) {
  return {};
}

}  // namespace

namespace detail {

Error fatal(std::string what) {
  return {Errc::corrupt, std::move(what)};
}

Status count(View& view, CounterScope scope, BytesView id, Counter counter, std::int64_t value, Fold fold) {
  const Bytes key = store::counter_key(scope, id, counter);
  const auto old = number_row(view, Keyspace::counters, key);
  if (!old) return old.error();
  const std::int64_t before = old->value_or(0);
  view.put(Keyspace::counters, key,
           store::encode_i64_row(fold == Fold::add ? before + value : std::max(before, value)));
  return {};
}

void put_pending(View& view, BytesView key, std::int64_t ready_at) {
  view.put(Keyspace::pending, key, store::encode_i64_row(ready_at));
}

std::int64_t ready_after_lease(const std::optional<store::CursorRow>& cursor, std::int64_t now_us) {
  return cursor && lease_live(*cursor, now_us) ? *cursor->lease_expires : now_us;
}

Status arm_partition(const Where& at, const GroupName& group, Pid pid, std::int64_t wanted_us) {
  const auto cursor = cursor_row(at.view, pid, group.group);
  if (!cursor) return cursor.error();
  if (!*cursor && wanted_us == std::numeric_limits<std::int64_t>::max()) return {};
  const auto partition = partition_row(at.view, pid);
  if (!partition) return partition.error();
  if (!*partition || (*partition)->last_offset < 0) return {};
  const bool wanted =
      *cursor ? (*cursor)->committed < (*partition)->last_offset : (*partition)->last_created_at >= wanted_us;
  if (wanted)
    put_pending(at.view, store::pending_key(group.tenant, group.queue, group.group, pid),
                ready_after_lease(*cursor, at.now_us));
  return {};
}

}  // namespace detail

Status run_effect(store::View& view, const Effect& effect, EntryIndex index, std::uint32_t ordinal,
                  std::int64_t now_us) {
  const Where at{view, index, ordinal, now_us};
  Status status = std::visit([&](const auto& one) { return run(at, one); }, effect);
  if (status) return status;
  return Error{Errc::corrupt,
               fmt::format("entry {} effect {}: {}", index.value, ordinal, status.error().what)};
}

}  // namespace queen::machine

// What goes with a queue, a group, a partition, a cursor, a dead letter (storage.md 8.2).
#include <fmt/format.h>

#include <algorithm>

#include "machine/detail/run.h"
#include "machine/detail/streams_rows.h"

namespace queen::machine::detail {
namespace {

constexpr std::uint16_t kCounters = 9;  // numbers of `counters` (storage.md 9)

// At most `most` keys from the front of what starts with `prefix`.
std::vector<Bytes> front(const View& view, Keyspace keyspace, BytesView prefix, std::size_t most) {
  std::vector<Bytes> keys;
  if (most == 0) return keys;
  view.scan(keyspace, prefix, {}, [&](BytesView key, BytesView) {
    keys.emplace_back(key);
    return keys.size() < most;
  });
  return keys;
}

constexpr std::size_t kAll = ~std::size_t{0};

std::size_t erase_front(View& view, Keyspace keyspace, BytesView prefix, std::size_t most) {
  const std::vector<Bytes> keys = front(view, keyspace, prefix, most);
  for (const Bytes& key : keys) view.erase(keyspace, key);
  return keys.size();
}

std::size_t erase_streams_state(View& view, Pid pid, std::size_t most) {
  const std::vector<Bytes> keys = streams_state_of(view, pid, most);
  for (const Bytes& key : keys) view.erase(Keyspace::streams_state, key);
  return keys.size();
}

void erase_counters(View& view, CounterScope scope, BytesView id) {
  for (std::uint16_t number = 0; number < kCounters; ++number)
    view.erase(Keyspace::counters, store::counter_key(scope, id, static_cast<Counter>(number)));
}

Result<std::size_t> erase_cursors(View& view, Pid pid, std::size_t most) {
  const std::vector<Bytes> keys = front(view, Keyspace::cursors, store::cursors_prefix(pid), most);
  for (const Bytes& key : keys) {
    const auto name = store::parse_cursor_key(key);
    const auto row = read_row<store::CursorRow>(view, Keyspace::cursors, key);
    if (!name || !row || !*row) return fatal(fmt::format("a cursor of partition {} is damaged", pid.value));
    if ((*row)->worker)
      view.erase(Keyspace::leases_by_worker, store::lease_by_worker_key(*(*row)->worker, pid, name->group));
    view.erase(Keyspace::cursors, key);
  }
  return keys.size();
}

std::vector<std::string> group_names(const View& view, std::string_view tenant, std::string_view queue) {
  std::vector<std::string> names;
  view.scan(Keyspace::groups, store::groups_prefix(tenant, queue), {}, [&](BytesView key, BytesView) {
    if (auto name = store::parse_group_key(key)) names.push_back(std::move(name->group));
    return true;
  });
  return names;
}

// The partition can no longer be found, by name or by number.
void erase_names(View& view, Pid pid, const store::PartitionRow& row) {
  view.erase(Keyspace::partitions_by_key, store::partition_by_key(row.tenant, row.queue, row.partition));
  view.erase(Keyspace::queue_partitions, store::queue_partition_key(row.tenant, row.queue, pid));
  view.erase(Keyspace::partitions, store::partition_key(pid));
}

void put_garbage(View& view, Pid pid, const Uuid& queue_uuid, std::int64_t deleted_at) {
  store::GarbageRow row;
  row.deleted_at = deleted_at;
  row.queue_uuid = queue_uuid;
  view.put(Keyspace::garbage, store::garbage_key(pid), row.encode());
}

// The stages of a chunk, in their order. Their numbers are the resume point of a garbage row.
enum class Stage : std::uint8_t { cursors, dead_letters, appends, streams, last };

// Removes what garbage is left of partitions, until `left` rows are gone.
class Chunk {
 public:
  Chunk(View& view, std::size_t left) : view_(view), left_(left) {}

  bool spent() const { return left_ == 0; }
  // Goes on where the chunk before stopped.
  Status take(Pid pid) {
    const Bytes key = store::garbage_key(pid);
    const auto found = read_row<store::GarbageRow>(view_, Keyspace::garbage, key);
    if (!found) return found.error();
    if (!*found) return {};
    store::GarbageRow row = **found;
    auto stage = static_cast<Stage>(row.resume && !row.resume->empty() ? row.resume->front() : '\0');
    for (; stage < Stage::last; stage = static_cast<Stage>(static_cast<int>(stage) + 1)) {
      const auto gone = run(stage, pid);
      if (!gone) return gone.error();
      left_ -= *gone;
      if (spent()) break;  // the stage may hold more
    }
    if (spent()) {
      row.resume = Bytes(1, static_cast<char>(stage));
      view_.put(Keyspace::garbage, key, row.encode());
      return {};
    }
    erase_counters(view_, CounterScope::partition, store::counter_id(pid));
    view_.erase(Keyspace::garbage, key);
    --left_;
    return {};
  }

 private:
  Result<std::size_t> run(Stage stage, Pid pid) {
    if (stage == Stage::cursors) return erase_cursors(view_, pid, left_);
    if (stage == Stage::dead_letters)
      return erase_front(view_, Keyspace::dlq_by_pos, store::dlq_by_pos_prefix(pid), left_);
    if (stage == Stage::streams) return erase_streams_state(view_, pid, left_);
    return erase_front(view_, Keyspace::txns, store::txns_prefix(pid), left_);
  }

  View& view_;
  std::size_t left_;
};

// Every dead letter of a partition.
Result<std::vector<Uuid>> dead_letters_of(const View& view, Pid pid) {
  std::vector<Uuid> out;
  bool broken = false;
  view.scan(Keyspace::dlq_by_pos, store::dlq_by_pos_prefix(pid), {}, [&](BytesView, BytesView value) {
    const auto ids = store::decode_uuids_row(value);
    broken = !ids;
    if (!broken) out.insert(out.end(), ids->begin(), ids->end());
    return !broken;
  });
  if (broken) return fatal(fmt::format("dead letters of partition {} do not decode", pid.value));
  return out;
}

Status erase_position(const Where& at, const store::DeadLetterRow& letter, const Uuid& dlq_id) {
  const Bytes key = store::dlq_by_pos_key(letter.pid, letter.group, letter.offset);
  const auto bytes = at.view.get(Keyspace::dlq_by_pos, key);
  if (!bytes) return {};
  auto ids = store::decode_uuids_row(*bytes);
  if (!ids) return ids.error();
  std::erase(*ids, dlq_id);
  if (ids->empty())
    at.view.erase(Keyspace::dlq_by_pos, key);
  else
    at.view.put(Keyspace::dlq_by_pos, key, store::encode_uuids_row(*ids));
  return {};
}

}  // namespace

Status take_retained(const Where& at, const store::PartitionRow& partition, Pid pid, std::uint64_t bytes,
                     Left left) {
  const Bytes own =
      store::counter_key(CounterScope::partition, store::counter_id(pid), Counter::retained_bytes);
  const auto held = number_row(at.view, Keyspace::counters, own);
  if (!held) return held.error();
  const std::int64_t before = held->value_or(0);
  const auto limit = static_cast<std::uint64_t>(std::max<std::int64_t>(before, 0));
  const std::int64_t fall =
      left == Left::nothing ? before : static_cast<std::int64_t>(std::min(bytes, limit));
  if (left == Left::nothing)
    at.view.erase(Keyspace::counters, own);
  else
    at.view.put(Keyspace::counters, own, store::encode_i64_row(before - fall));
  return count(at.view, CounterScope::queue, store::counter_id(partition.tenant, partition.queue),
               Counter::retained_bytes, -fall, Fold::add);
}

Status erase_dead_letter(const Where& at, std::string_view tenant, std::string_view queue,
                         const Uuid& dlq_id) {
  const Bytes key = store::dlq_key(tenant, queue, dlq_id);
  const auto letter = read_row<store::DeadLetterRow>(at.view, Keyspace::dlq, key);
  if (!letter) return letter.error();
  if (!*letter) return {};
  at.view.erase(Keyspace::dlq, key);
  if (Status status = erase_position(at, **letter, dlq_id); !status) return status;
  return count(at.view, CounterScope::queue, store::counter_id(tenant, queue), Counter::dlq_count, -1,
               Fold::add);
}

Status run(const Where& at, const QueueDelete& effect) {
  const auto queue = queue_row(at.view, effect.tenant, effect.queue);
  if (!queue) return queue.error();
  if (!*queue) return {};
  for (const Bytes& key : front(at.view, Keyspace::queue_partitions,
                                store::queue_partitions_prefix(effect.tenant, effect.queue), kAll)) {
    const auto pid = store::parse_queue_partition_key(key);
    if (!pid) return fatal(fmt::format("a partition key of queue {} is damaged", effect.queue));
    const auto partition = partition_row(at.view, *pid);
    if (!partition) return partition.error();
    if (!*partition) return fatal(fmt::format("partition {} has no row", pid->value));
    erase_names(at.view, *pid, **partition);
    put_garbage(at.view, *pid, (*queue)->uuid, at.now_us);
  }
  for (const std::string& group : group_names(at.view, effect.tenant, effect.queue)) {
    at.view.erase(Keyspace::groups, store::group_key(effect.tenant, effect.queue, group));
    erase_counters(at.view, CounterScope::group, store::counter_id(effect.tenant, effect.queue, group));
  }
  erase_front(at.view, Keyspace::pending, store::pending_prefix(effect.tenant, effect.queue), kAll);
  erase_front(at.view, Keyspace::dlq, store::dlq_prefix(effect.tenant, effect.queue), kAll);
  erase_counters(at.view, CounterScope::queue, store::counter_id(effect.tenant, effect.queue));
  at.view.erase(Keyspace::queues, store::queue_key(effect.tenant, effect.queue));
  return {};
}

Status run(const Where& at, const GroupDelete& effect) {
  at.view.erase(Keyspace::groups, store::group_key(effect.tenant, effect.queue, effect.group));
  erase_front(at.view, Keyspace::pending, store::pending_prefix(effect.tenant, effect.queue, effect.group),
              kAll);
  erase_counters(at.view, CounterScope::group, store::counter_id(effect.tenant, effect.queue, effect.group));
  return {};
}

Status run(const Where& at, const PartitionDelete& effect) {
  const auto found = partition_row(at.view, effect.pid);
  if (!found) return found.error();
  if (!*found) return {};
  const store::PartitionRow& partition = **found;
  for (const std::string& group : group_names(at.view, partition.tenant, partition.queue))
    at.view.erase(Keyspace::pending,
                  store::pending_key(partition.tenant, partition.queue, group, effect.pid));
  const auto letters = dead_letters_of(at.view, effect.pid);
  if (!letters) return letters.error();
  for (const Uuid& letter : *letters)
    if (Status status = erase_dead_letter(at, partition.tenant, partition.queue, letter); !status)
      return status;
  if (Status status = take_retained(at, partition, effect.pid, 0, Left::nothing); !status) return status;
  if (const auto cursors = erase_cursors(at.view, effect.pid, kAll); !cursors) return cursors.error();
  erase_front(at.view, Keyspace::txns, store::txns_prefix(effect.pid), kAll);
  erase_streams_state(at.view, effect.pid, kAll);
  erase_counters(at.view, CounterScope::partition, store::counter_id(effect.pid));
  erase_names(at.view, effect.pid, partition);
  return {};
}

Status run(const Where& at, const CursorDelete& effect) {
  const Bytes key = store::cursor_key(effect.pid, effect.group);
  const auto cursor = read_row<store::CursorRow>(at.view, Keyspace::cursors, key);
  if (!cursor) return cursor.error();
  if (!*cursor) return {};
  if ((*cursor)->worker)
    at.view.erase(Keyspace::leases_by_worker,
                  store::lease_by_worker_key(*(*cursor)->worker, effect.pid, effect.group));
  at.view.erase(Keyspace::cursors, key);
  const auto partition = partition_row(at.view, effect.pid);
  if (!partition) return partition.error();
  if (!*partition) return {};
  const GroupName name{(*partition)->tenant, (*partition)->queue, effect.group};
  at.view.erase(Keyspace::pending, store::pending_key(name.tenant, name.queue, name.group, effect.pid));
  const auto group = group_row(at.view, name.tenant, name.queue, name.group);
  if (!group) return group.error();
  // Its registration is kept: it starts in the partition again.
  return *group ? arm_partition(at, name, effect.pid, first_wanted_us(**group)) : Status{};
}

Status run(const Where& at, const DlqDelete& effect) {
  return erase_dead_letter(at, effect.tenant, effect.queue, effect.dlq_id);
}

Status run(const Where& at, const GarbageAdd& effect) {
  std::vector<std::string> groups;
  std::string of;  // the queue they belong to: that of every pid
  for (const Pid pid : effect.pids) {
    const auto found = partition_row(at.view, pid);
    if (!found) return found.error();
    if (!*found) continue;
    const store::PartitionRow& partition = **found;
    if (of != partition.tenant + partition.queue) {
      groups = group_names(at.view, partition.tenant, partition.queue);
      of = partition.tenant + partition.queue;
    }
    for (const std::string& group : groups)
      at.view.erase(Keyspace::pending, store::pending_key(partition.tenant, partition.queue, group, pid));
    if (Status status = take_retained(at, partition, pid, 0, Left::nothing); !status) return status;
    erase_names(at.view, pid, partition);
    put_garbage(at.view, pid, effect.queue_uuid, effect.deleted_at);
  }
  return {};
}

Status run(const Where& at, const DeleteChunk& effect) {
  Chunk chunk(at.view, effect.limit);
  for (const Pid pid : effect.pids) {
    if (chunk.spent()) return {};
    if (Status status = chunk.take(pid); !status) return status;
  }
  return {};
}

}  // namespace queen::machine::detail

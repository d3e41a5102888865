#include "broker/group_reads.h"

#include <algorithm>
#include <map>

#include "base/invariant.h"
#include "machine/apply.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

using store::Keyspace;

constexpr std::size_t kPartitionsPerGate = 256;
constexpr std::size_t kPositionsPerGate = 1'024;

template <class Row>
Row decode(BytesView bytes) {
  auto row = Row::decode(bytes);
  INVARIANT(row.has_value(), "a row in RAM does not decode: {}", row.error().what);
  return std::move(*row);
}

void add(GroupOnQueue& sums, const GroupCursor& cursor) {
  ++sums.partitions;
  sums.partitions_behind += cursor.lag > 0 ? 1 : 0;
  sums.lag += cursor.lag;
  sums.lag_us_max = std::max(sums.lag_us_max, cursor.lag_us);
  sums.consumed = sums.consumed || cursor.total_consumed > 0;
}

}  // namespace

std::vector<std::string> GroupReads::queue_names(const std::string& tenant) const {
  std::vector<std::string> names;
  const auto gate = store_.read_gate();
  store_.scan(Keyspace::queues, store::queues_prefix(tenant), {}, [&](BytesView key, BytesView) {
    auto name = store::parse_queue_key(key);
    INVARIANT(name.has_value(), "a queue key is damaged");
    names.push_back(std::move(name->queue));
    return true;
  });
  return names;
}

std::optional<store::GroupRow> GroupReads::registration(const std::string& tenant, const std::string& queue,
                                                        const std::string& group) const {
  const auto gate = store_.read_gate();
  const auto bytes = store_.get(Keyspace::groups, store::group_key(tenant, queue, group));
  if (!bytes) return std::nullopt;
  return decode<store::GroupRow>(*bytes);
}

// Visits the queue's partitions under read gates of a few at a time; `gate_is_open` runs between them.
void GroupReads::each_partition(const std::string& tenant, const std::string& queue,
                                const std::function<void(const PartitionSeen& partition)>& visit,
                                const std::function<void()>& gate_is_open) const {
  const Bytes prefix = store::queue_partitions_prefix(tenant, queue);
  Bytes from = prefix;
  bool more = true;
  while (more) {
    more = false;
    {
      std::size_t looked_at = 0;
      const auto gate = store_.read_gate();
      store_.scan(Keyspace::queue_partitions, prefix, from, [&](BytesView key, BytesView) {
        more = looked_at++ == kPartitionsPerGate;
        if (more) {
          from = Bytes(key);
          return false;
        }
        const auto pid = store::parse_queue_partition_key(key);
        INVARIANT(pid.has_value(), "a partition key of queue {} is damaged", queue);
        const auto bytes = store_.get(Keyspace::partitions, store::partition_key(*pid));
        if (bytes) visit({*pid, decode<store::PartitionRow>(*bytes)});
        return true;
      });
    }
    gate_is_open();
  }
}

// With a read gate held.
void GroupReads::see(const PartitionSeen& partition, const std::string& group, BytesView bytes,
                     Seen& seen) const {
  const auto row = decode<store::CursorRow>(bytes);
  GroupCursor cursor;
  cursor.queue = partition.row.queue;
  cursor.group = group;
  cursor.partition = partition.row.partition;
  cursor.partition_id = partition.row.uuid;
  cursor.total_consumed = row.total_consumed;
  if (row.worker && row.lease_expires.value_or(0) > seen.now) cursor.lease_id = row.worker;
  const std::int64_t first = std::max(row.committed + 1, partition.row.log_start);
  if (first <= partition.row.last_offset) {
    cursor.lag = static_cast<std::uint64_t>(partition.row.last_offset - first + 1);
    // Where the log does not know better: the oldest message of all is at least as old.
    cursor.oldest_us = partition.row.oldest_live_at.value_or(partition.row.created_at);
    const auto append = first < partition.row.rows_start
                            ? std::nullopt
                            : store_.last_at_or_below(Keyspace::txns, store::txns_prefix(partition.pid),
                                                      store::txns_key(partition.pid, first));
    if (append) {
      const auto found = store::AppendRowView::decode(append->value);
      INVARIANT(found.has_value(), "an append row of partition {} does not decode", partition.pid.value);
      cursor.oldest_us = found->created_at;
    } else {
      seen.cold.push_back({seen.cursors.size(), partition.pid, static_cast<std::uint64_t>(first)});
    }
  }
  seen.cursors.push_back(std::move(cursor));
}

// Stamps of messages whose rows left RAM, from the logs' index. No gate is held.
void GroupReads::look_up(const std::string& tenant, const std::string& queue, Seen& seen) const {
  const LogId id = qlog::Layout::queue_id(tenant, queue);
  for (const Cold& cold : seen.cold) {
    const auto place = logs_.locate(logs_.layout().of_partition(id, cold.pid), cold.pid, cold.offset, 1);
    if (place && !place->empty()) seen.cursors[cold.index].oldest_us = place->front().created_at;
  }
  for (GroupCursor& cursor : seen.cursors)
    if (cursor.lag > 0) cursor.lag_us = std::max<std::int64_t>(0, seen.now - cursor.oldest_us);
}

// Visits the cursors on a queue, of one group or of all, by partition number; with no gate held.
void GroupReads::each_cursor(const std::string& tenant, const std::string& queue,
                             const std::optional<std::string>& group, const Visit& visit) {
  Seen seen;
  const auto look = [&](const PartitionSeen& partition) {
    // On a quiet node no entry moves the stamps on, and messages grow older all the same.
    if (seen.cursors.empty()) seen.now = std::max(clock_.wall_us(), machine::safe_time_us(store_));
    if (group) {
      const auto cursor = store_.get(Keyspace::cursors, store::cursor_key(partition.pid, *group));
      if (cursor) see(partition, *group, *cursor, seen);
      return;
    }
    store_.scan(Keyspace::cursors, store::cursors_prefix(partition.pid), {},
                [&](BytesView key, BytesView value) {
                  const auto name = store::parse_cursor_key(key);
                  INVARIANT(name.has_value(), "a cursor key of partition {} is damaged", partition.pid.value);
                  see(partition, name->group, value, seen);
                  return true;
                });
  };
  each_partition(tenant, queue, look, [&] {
    look_up(tenant, queue, seen);
    for (GroupCursor& cursor : seen.cursors) visit(std::move(cursor));
    seen = {};
  });
}

std::vector<GroupOnQueue> GroupReads::groups(const std::string& tenant) {
  std::map<std::pair<std::string, std::string>, GroupOnQueue> found;  // by group, then queue
  for (const std::string& queue : queue_names(tenant))
    each_cursor(tenant, queue, std::nullopt,
                [&](const GroupCursor& cursor) { add(found[{cursor.group, queue}], cursor); });
  std::vector<GroupOnQueue> out;
  out.reserve(found.size());
  for (auto& [name, sums] : found) {
    std::tie(sums.group, sums.queue) = name;
    sums.registration = registration(tenant, sums.queue, sums.group);
    out.push_back(std::move(sums));
  }
  return out;
}

std::vector<GroupOnQueue> GroupReads::group(const std::string& tenant, const std::string& group) {
  std::vector<GroupOnQueue> out;
  for (const std::string& queue : queue_names(tenant)) {
    GroupOnQueue on{queue, group, {}, {}, 0, 0, 0, 0, false};
    each_cursor(tenant, queue, group, [&](GroupCursor cursor) {
      add(on, cursor);
      on.cursors.push_back(std::move(cursor));
    });
    if (on.cursors.empty()) continue;
    on.registration = registration(tenant, queue, group);
    out.push_back(std::move(on));
  }
  return out;
}

std::vector<GroupCursor> GroupReads::lagging(const std::string& tenant, std::int64_t longer_than_us) {
  std::vector<GroupCursor> out;
  for (const std::string& queue : queue_names(tenant))
    each_cursor(tenant, queue, std::nullopt, [&](GroupCursor cursor) {
      if (cursor.lag > 0 && cursor.lag_us > longer_than_us) out.push_back(std::move(cursor));
    });
  std::stable_sort(out.begin(), out.end(),
                   [](const GroupCursor& a, const GroupCursor& b) { return a.lag_us > b.lag_us; });
  return out;
}

// With a read gate held. A cursor that stands before the first message is no position.
std::optional<PositionAnswer> GroupReads::position_at(Pid pid, const std::string& group) const {
  const auto bytes = store_.get(Keyspace::cursors, store::cursor_key(pid, group));
  if (!bytes) return std::nullopt;
  auto cursor = decode<store::CursorRow>(*bytes);
  if (cursor.committed < 0) return std::nullopt;
  return PositionAnswer{{}, {}, static_cast<std::uint64_t>(cursor.committed + 1), std::move(cursor.metadata)};
}

std::vector<PositionAnswer> GroupReads::positions(const std::string& tenant, const std::string& group,
                                                  const std::vector<PositionAsk>& asked) {
  std::vector<PositionAnswer> out;
  out.reserve(asked.size());
  while (out.size() < asked.size()) {
    const std::size_t end = std::min(asked.size(), out.size() + kPositionsPerGate);
    const auto gate = store_.read_gate();
    for (std::size_t i = out.size(); i < end; ++i) {
      const auto pid = store_.get(Keyspace::partitions_by_key,
                                  store::partition_by_key(tenant, asked[i].queue, asked[i].partition));
      auto found = pid ? position_at(store::decode_pid_row(*pid).value_or(Pid{}), group) : std::nullopt;
      PositionAnswer answer = std::move(found).value_or(PositionAnswer{});
      answer.queue = asked[i].queue;
      answer.partition = asked[i].partition;
      out.push_back(std::move(answer));
    }
  }
  return out;
}

std::vector<PositionAnswer> GroupReads::positions(const std::string& tenant, const std::string& group) {
  std::vector<PositionAnswer> out;
  for (const std::string& queue : queue_names(tenant)) {
    if (!registration(tenant, queue, group)) continue;
    each_partition(
        tenant, queue,
        [&](const PartitionSeen& partition) {
          auto answer = position_at(partition.pid, group);
          if (!answer) return;
          answer->queue = queue;
          answer->partition = partition.row.partition;
          out.push_back(std::move(*answer));
        },
        [] {});
  }
  return out;
}

std::vector<std::string> GroupReads::queues_of(const std::string& tenant, const std::string& group) {
  std::vector<std::string> out;
  for (const std::string& queue : queue_names(tenant)) {
    bool there = registration(tenant, queue, group).has_value();
    if (!there)
      each_partition(
          tenant, queue,
          [&](const PartitionSeen& partition) {
            there = there || store_.get(Keyspace::cursors, store::cursor_key(partition.pid, group));
          },
          [] {});
    if (there) out.push_back(queue);
  }
  return out;
}

}  // namespace queen::broker

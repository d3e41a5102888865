#include "broker/group_reads.h"

#include <algorithm>
#include <map>

#include "broker/partition_figures.h"
#include "broker/store_steps.h"

namespace queen::broker {
namespace {

using store::Keyspace;

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
  each_row(store_, Keyspace::queues, store::queues_prefix(tenant), [&](BytesView key, BytesView) {
    auto name = store::parse_queue_key(key);
    INVARIANT(name.has_value(), "a queue's key does not parse");
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
  return decode_row<store::GroupRow>(*bytes);
}

// With a read gate held.
void GroupReads::see(const PartitionSeen& partition, const std::string& group, BytesView bytes,
                     Seen& seen) const {
  const auto row = decode_row<store::CursorRow>(bytes);
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
    if (const auto append = append_row_at(store_, partition.pid, first))
      cursor.oldest_us = append->created_at;
    else
      seen.cold.push_back({seen.cursors.size(), partition.pid, first});
  }
  seen.cursors.push_back(std::move(cursor));
}

// With a read gate held.
void GroupReads::see_cursors(const PartitionSeen& partition, const std::optional<std::string>& group,
                             Seen& seen) const {
  if (group) {
    const auto cursor = store_.get(Keyspace::cursors, store::cursor_key(partition.pid, *group));
    if (cursor) see(partition, *group, *cursor, seen);
    return;
  }
  store_.scan(Keyspace::cursors, store::cursors_prefix(partition.pid), {},
              [&](BytesView key, BytesView value) {
                const auto name = store::parse_cursor_key(key);
                INVARIANT(name.has_value(), "a cursor's key does not parse");
                see(partition, name->group, value, seen);
                return true;
              });
}

// Ages; those of messages whose rows left RAM from the logs' index. No gate is held.
void GroupReads::look_up(std::uint64_t queue_id, Seen& seen) {
  for (const Cold& cold : seen.cold) {
    const auto stamp = appends_.stamp(cold.pid, queue_id, cold.offset);
    if (stamp && *stamp) seen.cursors[cold.index].oldest_us = **stamp;
  }
  for (GroupCursor& cursor : seen.cursors)
    if (cursor.lag > 0) cursor.lag_us = std::max<std::int64_t>(0, seen.now - cursor.oldest_us);
}

// Visits the cursors on a queue, of one group or of all, by partition number; with no gate held.
void GroupReads::each_cursor(const std::string& tenant, const std::string& queue,
                             const std::optional<std::string>& group, const Visit& visit) {
  const std::uint64_t queue_id = qlog::Layout::queue_id(tenant, queue).value;
  PartitionWalk walk(store_, tenant, queue);
  bool more = true;
  while (more) {
    Seen seen;
    more = walk.step([&](Pid pid, const store::PartitionRow& row) {
      if (seen.now == 0) seen.now = lease_now_us(store_, clock_);
      see_cursors({pid, row}, group, seen);
      return true;
    });
    look_up(queue_id, seen);
    for (GroupCursor& cursor : seen.cursors) visit(std::move(cursor));
  }
}

std::vector<GroupOnQueue> GroupReads::all(const std::string& tenant) {
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

std::vector<GroupOnQueue> GroupReads::one(const std::string& tenant, const std::string& group) {
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
  auto cursor = decode_row<store::CursorRow>(*bytes);
  if (cursor.committed < 0) return std::nullopt;
  return PositionAnswer{{}, {}, static_cast<std::uint64_t>(cursor.committed + 1), std::move(cursor.metadata)};
}

std::vector<PositionAnswer> GroupReads::asked_positions(const std::string& tenant, const std::string& group,
                                                        const std::vector<PositionAsk>& asked) const {
  std::vector<PositionAnswer> out;
  out.reserve(asked.size());
  while (out.size() < asked.size()) {
    const std::size_t end = std::min(asked.size(), out.size() + kRowsPerStep);
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

std::vector<PositionAnswer> GroupReads::positions(const std::string& tenant, const std::string& group,
                                                  const std::optional<std::vector<PositionAsk>>& asked) {
  if (asked) return asked_positions(tenant, group, *asked);
  std::vector<PositionAnswer> out;
  for (const std::string& queue : queue_names(tenant)) {
    if (!registration(tenant, queue, group)) continue;
    each_partition(store_, tenant, queue, [&](Pid pid, const store::PartitionRow& row) {
      auto answer = position_at(pid, group);
      if (!answer) return true;
      answer->queue = queue;
      answer->partition = row.partition;
      out.push_back(std::move(*answer));
      return true;
    });
  }
  return out;
}

std::vector<std::string> GroupReads::queues_of(const std::string& tenant, const std::string& group) {
  std::vector<std::string> out;
  for (const std::string& queue : queue_names(tenant)) {
    bool there = registration(tenant, queue, group).has_value();
    if (!there)
      each_partition(store_, tenant, queue, [&](Pid pid, const store::PartitionRow&) {
        there = store_.get(Keyspace::cursors, store::cursor_key(pid, group)).has_value();
        return !there;
      });
    if (there) out.push_back(queue);
  }
  return out;
}

}  // namespace queen::broker

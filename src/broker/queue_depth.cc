// How much of a queue a consumer group has before it.
#include <algorithm>

#include "broker/partition_figures.h"
#include "broker/queue_reads.h"
#include "broker/store_steps.h"
#include "machine/commands.h"
#include "machine/subscription.h"

namespace queen::broker {
namespace {

using store::Keyspace;

// What is before a cursor: its lease is a part of it.
DepthView::Partition depth_at(const store::PartitionRow& row, std::int64_t committed,
                              const CursorState* cursor) {
  DepthView::Partition out{row.partition, 0, 0};
  const std::int64_t first = std::max(committed + 1, row.log_start);
  out.pending = std::max<std::int64_t>(0, row.last_offset + 1 - first);  // a position may be beyond the end
  if (cursor != nullptr && cursor->lease_expires)
    out.processing = std::clamp<std::int64_t>(cursor->leased_to + 1 - first, 0, out.pending);
  return out;
}

// The named group that is furthest behind; else queue mode; else nothing was read.
DepthView::Partition slowest_depth(const store::PartitionRow& row, const std::vector<CursorState>& cursors,
                                   const std::vector<std::string>& registered) {
  const auto has_cursor = [&](const std::string& group) {
    return std::any_of(cursors.begin(), cursors.end(),
                       [&](const CursorState& cursor) { return cursor.group == group; });
  };
  const bool at_start = !std::all_of(registered.begin(), registered.end(), has_cursor);
  std::optional<DepthView::Partition> named, queue_mode;
  if (at_start) named = depth_at(row, -1, nullptr);
  for (const CursorState& cursor : cursors) {
    auto depth = depth_at(row, cursor.committed, &cursor);
    if (cursor.queue_mode()) {
      queue_mode = std::move(depth);
    } else if (!named || depth.pending > named->pending ||
               (depth.pending == named->pending && depth.processing > named->processing)) {
      named = std::move(depth);
    }
  }
  if (named) return *std::move(named);
  return queue_mode ? *std::move(queue_mode) : depth_at(row, -1, nullptr);
}

}  // namespace

DepthView QueueReads::depth_of_slowest(const std::string& tenant, const std::string& queue) {
  std::vector<std::string> registered;
  each_row(store_, Keyspace::groups, store::groups_prefix(tenant, queue), [&](BytesView key, BytesView) {
    auto name = store::parse_group_key(key);
    INVARIANT(name.has_value(), "a group's key does not parse");
    if (name->group != machine::kQueueMode) registered.push_back(std::move(name->group));
    return true;
  });
  DepthView out;
  each_partition(store_, tenant, queue, [&](Pid pid, const store::PartitionRow& row) {
    const auto cursors = cursors_of(store_, pid, lease_now_us(store_, clock_));
    out.partitions.push_back(slowest_depth(row, cursors, registered));
    return true;
  });
  return out;
}

Answer<std::optional<DepthView>> QueueReads::depth_of_group(const std::string& tenant,
                                                            const std::string& queue,
                                                            const std::string& group) {
  const std::uint64_t queue_id = qlog::Layout::queue_id(tenant, queue).value;
  std::optional<store::GroupRow> registration;
  {
    const auto gate = store_.read_gate();
    if (const auto bytes = store_.get(Keyspace::groups, store::group_key(tenant, queue, group)))
      registration = decode_row<store::GroupRow>(*bytes);
  }
  const bool wants_all = !registration || registration->mode == store::GroupMode::all;
  DepthView out;
  out.conflation = registration && registration->conflation;
  // Where the group starts by a stamp: found in the logs' index, without the gate.
  struct Unread {
    Pid pid;
    std::size_t at = 0;
    std::int64_t log_start = 0, end = 0;
  };
  std::vector<Unread> unread;
  PartitionWalk walk(store_, tenant, queue);
  bool more = true;
  while (more) {
    more = walk.step([&](Pid pid, const store::PartitionRow& row) {
      const auto cursor = cursor_of(store_, pid, group, lease_now_us(store_, clock_));
      // A group that is registered has a pending row wherever something waits for it.
      const bool waits = cursor || !registration ||
                         store_.get(Keyspace::pending, store::pending_key(tenant, queue, group, pid));
      const std::int64_t committed = cursor ? cursor->committed : waits ? -1 : row.last_offset;
      out.partitions.push_back(depth_at(row, committed, cursor ? &*cursor : nullptr));
      if (!cursor && waits && !wants_all)
        unread.push_back({pid, out.partitions.size() - 1, row.log_start, row.last_offset + 1});
      return true;
    });
    for (const Unread& one : unread) {
      const auto first = appends_.first_stamped(one.pid, queue_id, one.log_start, one.end,
                                                machine::first_wanted_us(*registration));
      if (!first) return tl::unexpected(Refusal{"internal", first.error().what});
      out.partitions[one.at].pending = one.end - *first;
    }
    unread.clear();
  }
  return std::optional(std::move(out));
}

Answer<std::optional<DepthView>> QueueReads::depth(const std::string& tenant, const std::string& queue,
                                                   const std::optional<std::string>& group) {
  if (!row_of(tenant, queue)) return std::optional<DepthView>();
  if (group) return depth_of_group(tenant, queue, *group);
  return std::optional(depth_of_slowest(tenant, queue));
}

}  // namespace queen::broker

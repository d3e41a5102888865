#include "broker/queue_reads.h"

#include <algorithm>
#include <set>

#include "broker/partition_figures.h"
#include "broker/store_steps.h"

namespace queen::broker {

using store::Counter;
using store::CounterScope;
using store::Keyspace;

struct QueueReads::Named {
  std::string name;
  store::QueueRow row;
};

std::optional<store::QueueRow> QueueReads::row_of(const std::string& tenant, const std::string& queue) const {
  const auto gate = store_.read_gate();
  const auto bytes = store_.get(Keyspace::queues, store::queue_key(tenant, queue));
  if (!bytes) return std::nullopt;
  return decode_row<store::QueueRow>(*bytes);
}

std::vector<QueueReads::Named> QueueReads::queues_of(const std::string& tenant) const {
  std::vector<Named> out;
  each_row(store_, Keyspace::queues, store::queues_prefix(tenant), [&](BytesView key, BytesView value) {
    auto name = store::parse_queue_key(key);
    INVARIANT(name.has_value(), "a queue's key does not parse");
    out.push_back({std::move(name->queue), decode_row<store::QueueRow>(value)});
    return true;
  });
  return out;
}

// With a read gate held.
PartitionView QueueReads::view_of(Pid pid, const store::PartitionRow& row, std::int64_t now) const {
  PartitionView out{row.partition, row.uuid, row.created_at, {}, 0, row.last_write_at, {}, {}};
  const auto cursors = cursors_of(store_, pid, now);
  out.figures = message_figures(row, cursors);
  out.figures.dead_letter = dead_letters_of(store_, pid);
  out.figures.retained_bytes = retained_bytes_of(store_, pid);
  for (const CursorState& cursor : cursors) out.consumed += static_cast<std::int64_t>(cursor.consumed);
  if (out.figures.total > 0) {
    out.oldest_at = row.oldest_live_at;
    out.newest_at = row.last_created_at;
  }
  return out;
}

std::optional<QueueView> QueueReads::queue(const std::string& tenant, const std::string& queue,
                                           std::size_t partitions_max) {
  auto row = row_of(tenant, queue);
  if (!row) return std::nullopt;
  QueueView out;
  out.row = std::move(*row);
  QueueSegments segments(logs_);
  const LogId queue_id = qlog::Layout::queue_id(tenant, queue);
  each_partition(store_, tenant, queue, [&](Pid pid, const store::PartitionRow& partition) {
    PartitionView view = view_of(pid, partition, lease_now_us(store_, clock_));
    out.totals += view.figures;
    segments.add(queue_id, pid);
    if (out.partitions.size() < partitions_max)
      out.partitions.push_back(std::move(view));
    else
      out.truncated = true;
    return true;
  });
  out.segments = segments.count();
  std::sort(out.partitions.begin(), out.partitions.end(),
            [](const PartitionView& a, const PartitionView& b) { return a.name < b.name; });
  return out;
}

std::optional<SizesView> QueueReads::sizes(const std::string& tenant, const std::string& queue,
                                           std::size_t partitions_max) {
  if (!row_of(tenant, queue)) return std::nullopt;
  SizesView out;
  each_partition(store_, tenant, queue, [&](Pid pid, const store::PartitionRow& row) {
    out.truncated = out.partitions.size() == partitions_max;
    if (!out.truncated) out.partitions.emplace_back(row.partition, retained_bytes_of(store_, pid));
    return !out.truncated;
  });
  return out;
}

namespace {

struct Busy {
  BusyPartition shown;
  Pid pid;
  std::uint64_t queue_id = 0;
  std::int64_t first_unconsumed = 0;
};
// In a heap made with it the one that is least worth showing comes first.
bool busier(const Busy& a, const Busy& b) {
  if (a.shown.pending != b.shown.pending) return a.shown.pending > b.shown.pending;
  return a.pid < b.pid;
}

// Keeps the `limit` busiest.
void keep(std::vector<Busy>& heap, Busy busy, std::size_t limit) {
  if (heap.size() == limit) {
    if (!busier(busy, heap.front())) return;
    std::pop_heap(heap.begin(), heap.end(), busier);
    heap.pop_back();
  }
  heap.push_back(std::move(busy));
  std::push_heap(heap.begin(), heap.end(), busier);
}

}  // namespace

Answer<std::optional<BusyView>> QueueReads::busiest(const std::string& tenant,
                                                    const std::optional<std::string>& queue,
                                                    std::size_t limit, std::size_t partitions_max) {
  std::vector<Named> queues;
  if (queue) {
    auto row = row_of(tenant, *queue);
    if (!row) return std::optional<BusyView>();
    queues.push_back({*queue, std::move(*row)});
  } else {
    queues = queues_of(tenant);
  }
  BusyView out;
  std::vector<Busy> heap;
  std::size_t looked_at = 0;
  for (const Named& one : queues) {
    const std::uint64_t queue_id = qlog::Layout::queue_id(tenant, one.name).value;
    each_partition(store_, tenant, one.name, [&](Pid pid, const store::PartitionRow& row) {
      out.truncated = looked_at == partitions_max;
      if (out.truncated) return false;
      ++looked_at;
      out.now_us = lease_now_us(store_, clock_);
      const Figures figures = message_figures(row, cursors_of(store_, pid, out.now_us));
      keep(heap,
           {{one.name, row.partition, row.uuid, figures.unconsumed, figures.processing, {}},
            pid,
            queue_id,
            row.last_offset + 1 - figures.unconsumed},
           limit);
      return true;
    });
    if (out.truncated) break;
  }
  std::sort_heap(heap.begin(), heap.end(), busier);
  for (Busy& busy : heap) {
    if (busy.shown.pending > 0) {
      const auto stamp = appends_.stamp(busy.pid, busy.queue_id, busy.first_unconsumed);
      if (!stamp) return tl::unexpected(Refusal{"internal", stamp.error().what});
      busy.shown.oldest_unconsumed_at = *stamp;
    }
    out.partitions.push_back(std::move(busy.shown));
  }
  return std::optional(std::move(out));
}

struct QueueReads::Lagging {
  Pid pid;
  std::int64_t offset = 0;  // of the first unconsumed message
};

Status QueueReads::add_queue(const std::string& tenant, const std::string& queue, OverviewView& out) {
  const std::uint64_t queue_id = qlog::Layout::queue_id(tenant, queue).value;
  const auto add_age = [&out](std::int64_t stamp) {
    const std::int64_t age = std::max<std::int64_t>(0, out.now_us - stamp);
    out.time_us.sum += age;
    out.time_us.most = std::max(out.time_us.most, age);
  };
  std::vector<Lagging> cold;  // their rows have left RAM: the log knows, without the gate
  PartitionWalk walk(store_, tenant, queue);
  bool more = true;
  while (more) {
    more = walk.step([&](Pid pid, const store::PartitionRow& row) {
      out.now_us = lease_now_us(store_, clock_);
      const Figures figures = message_figures(row, cursors_of(store_, pid, out.now_us));
      out.totals += figures;
      ++out.partitions;
      if (figures.unconsumed == 0) return true;
      ++out.lagging;
      out.offsets.sum += figures.unconsumed;
      out.offsets.most = std::max(out.offsets.most, figures.unconsumed);
      const std::int64_t first = row.last_offset + 1 - figures.unconsumed;
      if (first == row.log_start && row.oldest_live_at)
        add_age(*row.oldest_live_at);
      else if (const auto append = append_row_at(store_, pid, first))
        add_age(append->created_at);
      else
        cold.push_back({pid, first});
      return true;
    });
    for (const Lagging& one : cold) {
      const auto stamp = appends_.stamp(one.pid, queue_id, one.offset);
      if (!stamp) return stamp.error();
      if (*stamp) add_age(**stamp);
    }
    cold.clear();
  }
  const auto gate = store_.read_gate();
  out.totals.dead_letter += counter_of(
      store_, store::counter_key(CounterScope::queue, store::counter_id(tenant, queue), Counter::dlq_count));
  return {};
}

Answer<OverviewView> QueueReads::overview(const std::string& tenant) {
  OverviewView out;
  std::set<std::string> namespaces, tasks;
  for (const Named& queue : queues_of(tenant)) {
    ++out.queues;
    if (const auto& label = queue.row.namespace_name; label && !label->empty()) namespaces.insert(*label);
    if (const auto& label = queue.row.task; label && !label->empty()) tasks.insert(*label);
    if (Status status = add_queue(tenant, queue.name, out); !status)
      return tl::unexpected(Refusal{"internal", status.error().what});
  }
  out.namespaces = namespaces.size();
  out.tasks = tasks.size();
  const auto gate = store_.read_gate();
  out.now_us = lease_now_us(store_, clock_);
  return out;
}

}  // namespace queen::broker

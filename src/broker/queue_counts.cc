// The figures of GET /api/v1/resources/queues (api-messaging.md 10.3).
#include <algorithm>

#include "broker/partition_figures.h"
#include "broker/reads.h"
#include "broker/store_steps.h"

namespace queen::broker {

using store::Counter;
using store::CounterScope;
using store::Keyspace;

void Reads::count(const std::string& tenant, QueueSummary& summary) {
  const LogId queue_id = qlog::Layout::queue_id(tenant, summary.name);
  QueueSegments segments(logs_);
  Figures sum;
  PartitionWalk walk(store_, tenant, summary.name);
  bool more = true;
  while (more) {
    std::optional<std::int64_t> now;
    more = walk.step([&](Pid pid, const store::PartitionRow& row) {
      if (!now) now = lease_now_us(store_, clock_);
      sum += message_figures(row, cursors_of(store_, pid, *now));
      ++summary.partitions;
      segments.add(queue_id, pid);
      return true;
    });
  }
  const auto id = store::counter_id(tenant, summary.name);
  const auto gate = store_.read_gate();
  sum.dead_letter = counter_of(store_, store::counter_key(CounterScope::queue, id, Counter::dlq_count));
  summary.retained_bytes =
      counter_of(store_, store::counter_key(CounterScope::queue, id, Counter::retained_bytes));
  summary.segments = segments.count();
  summary.total = sum.total;
  summary.pending = sum.waiting();
  summary.processing = sum.processing;
  summary.dead_letter = sum.dead_letter;
  summary.completed = sum.completed();
}

QueuesAnswer Reads::queues(const std::string& tenant, QueueDetail detail) {
  QueuesAnswer out;
  each_row(store_, Keyspace::queues, store::queues_prefix(tenant), [&](BytesView key, BytesView value) {
    auto name = store::parse_queue_key(key);
    INVARIANT(name.has_value(), "a queue's key does not parse");
    QueueSummary summary;
    summary.name = std::move(name->queue);
    summary.row = decode_row<store::QueueRow>(value);
    out.queues.push_back(std::move(summary));
    return true;
  });
  if (detail == QueueDetail::counts) {
    each_row(store_, Keyspace::kv, store::kv_prefix(tenant), [&](BytesView key, BytesView value) {
      const auto name = store::parse_kv_key(key);
      INVARIANT(name.has_value(), "a kv key does not parse");
      ++out.kv_rows;
      out.kv_bytes += name->key.size() + decode_row<store::KvRow>(value).value.size();
      return true;
    });
    each_row(store_, Keyspace::timers, store::timers_prefix(tenant), [&](BytesView key, BytesView value) {
      const auto name = store::parse_timer_key(key);
      INVARIANT(name.has_value(), "a timer's key does not parse");
      ++out.timer_rows;
      out.timer_bytes += name->timer.size() + value.size();
      return true;
    });
  }
  std::stable_sort(out.queues.begin(), out.queues.end(), [](const QueueSummary& a, const QueueSummary& b) {
    return a.row.created_at > b.row.created_at;
  });
  for (auto& queue : out.queues) {
    if (detail == QueueDetail::counts || detail == QueueDetail::figures) {
      count(tenant, queue);
    } else if (detail == QueueDetail::lanes) {
      each_row(store_, Keyspace::queue_partitions, store::queue_partitions_prefix(tenant, queue.name),
               [&](BytesView, BytesView) {
                 ++queue.partitions;
                 return true;
               });
    }
  }
  return out;
}

}  // namespace queen::broker

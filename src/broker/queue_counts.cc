// The figures of GET /api/v1/resources/queues (api-messaging.md 10.3).
#include <algorithm>

#include "base/invariant.h"
#include "broker/reads.h"
#include "machine/apply.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

using store::Keyspace;

// What one partition adds to its queue's figures.
struct PartitionCounts {
  std::int64_t total = 0, unconsumed = 0, processing = 0;
};

// Offsets in any of the ranges, which may overlap; both ends inclusive.
std::int64_t offsets_in(std::vector<std::pair<std::int64_t, std::int64_t>> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::int64_t count = 0, covered = -1;
  for (const auto& [first, last] : ranges) {
    count += std::max<std::int64_t>(0, last - std::max(first, covered + 1) + 1);
    covered = std::max(covered, last);
  }
  return count;
}

// Unconsumed is measured by the slowest named group, else by queue mode, else everything. A message that two
// groups hold is processed once.
PartitionCounts count_partition(const store::View& view, Pid pid, const store::PartitionRow& row,
                                std::int64_t now) {
  PartitionCounts out;
  out.total = row.last_offset + 1 - row.log_start;
  std::optional<std::int64_t> slowest_named;
  std::optional<std::int64_t> queue_mode;
  std::vector<std::pair<std::int64_t, std::int64_t>> leased;
  view.scan(Keyspace::cursors, store::cursors_prefix(pid), {}, [&](BytesView key, BytesView value) {
    const auto at = store::parse_cursor_key(key);
    const auto cursor = store::CursorRow::decode(value);
    if (!at || !cursor) return true;
    if (at->group == machine::kQueueMode) {
      queue_mode = cursor->committed;
    } else {
      slowest_named = std::min(slowest_named.value_or(cursor->committed), cursor->committed);
    }
    if (cursor->worker && cursor->batch_end && cursor->lease_expires.value_or(0) > now) {
      leased.emplace_back(std::max(cursor->committed + 1, row.log_start), *cursor->batch_end);
    }
    return true;
  });
  out.processing = offsets_in(std::move(leased));
  const std::int64_t committed = std::max(slowest_named.value_or(queue_mode.value_or(-1)), row.log_start - 1);
  out.unconsumed =
      std::max<std::int64_t>(0, row.last_offset - committed);  // a position may be beyond the end
  return out;
}

std::int64_t counter(const store::View& view, BytesView key) {
  const auto bytes = view.get(Keyspace::counters, key);
  if (!bytes) return 0;
  return store::decode_i64_row(*bytes).value_or(0);
}

}  // namespace

// Visits the values of a table in steps, so that apply is never kept waiting by a long table.
void Reads::each_row(Keyspace keyspace, BytesView prefix, const std::function<void(BytesView value)>& visit) {
  constexpr std::size_t kRowsPerGate = 1024;
  Bytes from;
  bool more = true;
  while (more) {
    more = false;
    std::size_t looked_at = 0;
    const auto gate = store_.read_gate();
    store_.scan(keyspace, prefix, from, [&](BytesView key, BytesView value) {
      if (looked_at++ >= kRowsPerGate) {
        from = Bytes(key);
        more = true;
        return false;
      }
      visit(value);
      return true;
    });
  }
}

void Reads::count(const std::string& tenant, QueueSummary& summary) {
  constexpr std::size_t kPartitionsPerGate = 256;
  const auto prefix = store::queue_partitions_prefix(tenant, summary.name);
  const auto files = logs_.files();
  Bytes from = prefix;
  std::vector<LogId> counted;
  std::int64_t unconsumed = 0;
  bool more = true;
  while (more) {
    more = false;
    std::size_t looked_at = 0;
    const auto gate = store_.read_gate();
    // On a quiet node no entry moves the stamps on, and leases end all the same.
    const std::int64_t now = std::max(clock_.wall_us(), machine::safe_time_us(store_));
    store_.scan(Keyspace::queue_partitions, prefix, from, [&](BytesView key, BytesView) {
      if (looked_at++ >= kPartitionsPerGate) {
        from = Bytes(key);
        more = true;
        return false;
      }
      const auto pid = store::parse_queue_partition_key(key);
      const auto bytes = pid ? store_.get(Keyspace::partitions, store::partition_key(*pid)) : std::nullopt;
      if (!bytes) return true;
      const auto row = store::PartitionRow::decode(*bytes);
      INVARIANT(row.has_value(), "partition row {} does not decode", pid->value);
      const auto part = count_partition(store_, *pid, *row, now);
      ++summary.partitions;
      summary.total += part.total;
      summary.processing += part.processing;
      unconsumed += part.unconsumed;
      const LogId log = logs_.layout().of_partition(qlog::Layout::queue_id(tenant, summary.name), *pid);
      if (std::find(counted.begin(), counted.end(), log) == counted.end()) counted.push_back(log);
      return true;
    });
  }
  for (const LogId log : counted) {
    const auto found = files.find(log);
    summary.segments += found == files.end() ? 0 : found->second.size();
  }
  each_row(Keyspace::dlq, store::dlq_prefix(tenant, summary.name), [&](BytesView) { ++summary.dead_letter; });
  const auto gate = store_.read_gate();
  summary.retained_bytes =
      counter(store_, store::counter_key(store::CounterScope::queue, store::counter_id(tenant, summary.name),
                                         store::Counter::retained_bytes));
  summary.pending = std::max<std::int64_t>(0, unconsumed - summary.processing);
  summary.completed = std::max<std::int64_t>(0, summary.total - unconsumed - summary.dead_letter);
}

QueuesAnswer Reads::queues(const std::string& tenant, QueueDetail detail) {
  QueuesAnswer out;
  {
    const auto gate = store_.read_gate();
    store_.scan(Keyspace::queues, store::queues_prefix(tenant), {}, [&](BytesView key, BytesView value) {
      const auto name = store::parse_queue_key(key);
      auto row = store::QueueRow::decode(value);
      if (!name || !row) return true;
      QueueSummary summary;
      summary.name = name->queue;
      summary.row = std::move(*row);
      out.queues.push_back(std::move(summary));
      return true;
    });
  }
  if (detail == QueueDetail::counts) {
    each_row(Keyspace::kv, store::kv_prefix(tenant), [&](BytesView value) {
      const auto row = store::KvRow::decode(value);
      ++out.kv_rows;
      out.kv_bytes += row ? row->value.size() : 0;
    });
  }
  std::stable_sort(out.queues.begin(), out.queues.end(), [](const QueueSummary& a, const QueueSummary& b) {
    return a.row.created_at > b.row.created_at;
  });
  for (auto& queue : out.queues) {
    if (detail == QueueDetail::counts) {
      count(tenant, queue);
    } else if (detail == QueueDetail::lanes) {
      each_row(Keyspace::queue_partitions, store::queue_partitions_prefix(tenant, queue.name),
               [&](BytesView) { ++queue.partitions; });
    }
  }
  return out;
}

}  // namespace queen::broker

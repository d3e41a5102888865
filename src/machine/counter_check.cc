#include "machine/detail/counter_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "machine/detail/lookup.h"

namespace queen::machine::detail {
namespace {

using store::Counter;
using store::CounterScope;

struct Sums {
  std::int64_t letters = 0, retained_bytes = 0, last_push_us = 0;
};
using SumsByQueue = std::map<Bytes, Sums>;  // by counter id

// Rows that do not decode are told of by others.
SumsByQueue sums_of(const View& view) {
  SumsByQueue out;
  view.scan(Keyspace::queues, {}, {}, [&](BytesView key, BytesView) {
    if (const auto name = store::parse_queue_key(key)) out[store::counter_id(name->tenant, name->queue)];
    return true;
  });
  view.scan(Keyspace::dlq, {}, {}, [&](BytesView key, BytesView) {
    if (const auto name = store::parse_dlq_key(key))
      ++out[store::counter_id(name->tenant, name->queue)].letters;
    return true;
  });
  view.scan(Keyspace::partitions, {}, {}, [&](BytesView key, BytesView value) {
    const auto pid = store::parse_partition_key(key);
    const auto row = store::PartitionRow::decode(value);
    if (!pid || !row) return true;
    Sums& sums = out[store::counter_id(row->tenant, row->queue)];
    const Bytes retained =
        store::counter_key(CounterScope::partition, store::counter_id(*pid), Counter::retained_bytes);
    if (const auto bytes = number_row(view, Keyspace::counters, retained))
      sums.retained_bytes += bytes->value_or(0);
    sums.last_push_us = std::max(sums.last_push_us, row->last_created_at);
    return true;
  });
  return out;
}

}  // namespace

void check_counters(const View& view, const std::function<void(BytesView key, std::string_view what)>& tell) {
  for (const auto& entry : sums_of(view)) {
    // Not a structured binding: before C++20's amendment no lambda may capture one, and clang holds to it.
    const auto& queue = entry.first;
    const auto& sums = entry.second;
    const auto counted = [&](Counter counter) {
      const Bytes key = store::counter_key(CounterScope::queue, queue, counter);
      const auto value = number_row(view, Keyspace::counters, key);
      return std::pair(key, value ? value->value_or(0) : 0);
    };
    if (const auto [key, value] = counted(Counter::dlq_count); value != sums.letters)
      tell(key, fmt::format("it counts {} dead letters, and dlq holds {}", value, sums.letters));
    if (const auto [key, value] = counted(Counter::retained_bytes); value != sums.retained_bytes)
      tell(key, fmt::format("it counts {} retained bytes, its partitions {}", value, sums.retained_bytes));
    // A partition with the newest push may be gone.
    if (const auto [key, value] = counted(Counter::last_push_us); value < sums.last_push_us)
      tell(key, fmt::format("it is {}, and a partition was written at {}", value, sums.last_push_us));
  }
}

}  // namespace queen::machine::detail

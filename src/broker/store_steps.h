// Walks over the store that give apply its turn: the gate is taken for a few hundred rows at a time.
#pragma once

#include <cstdint>
#include <string>

#include "base/invariant.h"
#include "store/keys.h"
#include "store/rows.h"
#include "store/store.h"

namespace queen::broker {

inline constexpr std::size_t kRowsPerStep = 1024;
inline constexpr std::size_t kPartitionsPerStep = 256;

template <class Row>
Row decode_row(BytesView bytes) {
  auto row = Row::decode(bytes);
  INVARIANT(row.has_value(), "a row in RAM does not decode: {}", row.error().what);
  return std::move(*row);
}

// Rows of one table in key order. What comes and goes meanwhile may be met or not.
class RowWalk {
 public:
  RowWalk(const store::Store& store, store::Keyspace keyspace, BytesView prefix, std::size_t rows_per_step)
      : store_(store), keyspace_(keyspace), rows_per_step_(rows_per_step), prefix_(prefix), from_(prefix) {}
  // The first row is at or above `from`.
  void start_at(BytesView from) { from_ = Bytes(from); }

  // Takes the read gate and calls `visit(key, value)` for the next rows, until it gives false: then the walk
  // is over. False when it is.
  template <class Visit>
  bool step(const Visit& visit) {
    bool more = false;
    std::size_t looked_at = 0;
    const auto gate = store_.read_gate();
    store_.scan(keyspace_, prefix_, from_, [&](BytesView key, BytesView value) {
      if (looked_at++ >= rows_per_step_) {
        from_ = Bytes(key);
        more = true;
        return false;
      }
      return static_cast<bool>(visit(key, value));
    });
    return more;
  }

 private:
  const store::Store& store_;
  const store::Keyspace keyspace_;
  const std::size_t rows_per_step_;
  const Bytes prefix_;
  Bytes from_;
};

// The partitions of a queue in creation order.
class PartitionWalk {
 public:
  PartitionWalk(const store::Store& store, std::string_view tenant, std::string_view queue)
      : store_(store),
        rows_(store, store::Keyspace::queue_partitions, store::queue_partitions_prefix(tenant, queue),
              kPartitionsPerStep) {}

  // As RowWalk::step(), with `visit(pid, row)`.
  template <class Visit>
  bool step(const Visit& visit) {
    return rows_.step([&](BytesView key, BytesView) {
      const auto pid = store::parse_queue_partition_key(key);
      INVARIANT(pid.has_value(), "a queue_partitions key does not parse");
      const auto bytes = store_.get(store::Keyspace::partitions, store::partition_key(*pid));
      return !bytes || visit(*pid, decode_row<store::PartitionRow>(*bytes));
    });
  }

 private:
  const store::Store& store_;
  RowWalk rows_;
};

// The first key above everything that starts with `prefix`, which ends with a name: for jumping from name to
// name.
inline Bytes after_name(Bytes prefix) {
  prefix.back() = '\1';  // a name ends with 00 00, and goes on with 00 FF or a byte above 00
  return prefix;
}

// Whole walks.
template <class Visit>
void each_row(const store::Store& store, store::Keyspace keyspace, BytesView prefix, const Visit& visit) {
  RowWalk walk(store, keyspace, prefix, kRowsPerStep);
  while (walk.step(visit)) {
  }
}
template <class Visit>
void each_partition(const store::Store& store, std::string_view tenant, std::string_view queue,
                    const Visit& visit) {
  PartitionWalk walk(store, tenant, queue);
  while (walk.step(visit)) {
  }
}

}  // namespace queen::broker

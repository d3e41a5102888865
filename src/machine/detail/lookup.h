// Typed reads of rows, for the planner, the effects and apply.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/invariant.h"
#include "base/planted_bugs.h"
#include "base/result.h"
#include "machine/subscription.h"
#include "store/keys.h"
#include "store/rows.h"
#include "store/view.h"

namespace queen::machine::detail {

using store::Keyspace;
using store::View;

constexpr std::int64_t kSecondUs = 1'000'000;

// A row, or nothing when there is none. Errors: corrupt.
template <class Row>
Result<std::optional<Row>> read_row(const View& view, Keyspace keyspace, BytesView key) {
  const std::optional<Bytes> bytes = view.get(keyspace, key);
  if (!bytes) return std::optional<Row>();
  auto row = Row::decode(*bytes);
  if (!row) return row.error();
  return std::optional<Row>(std::move(*row));
}

// For the planner: its store was verified when it was loaded, so a row that does not decode is damaged
// memory.
template <class T>
T must(Result<T> result) {
  INVARIANT(result.has_value(), "{}", result.error().what);
  return std::move(*result);
}

Result<std::optional<store::QueueRow>> queue_row(const View& view, std::string_view tenant,
                                                 std::string_view queue);
Result<std::optional<store::GroupRow>> group_row(const View& view, std::string_view tenant,
                                                 std::string_view queue, std::string_view group);
Result<std::optional<store::PartitionRow>> partition_row(const View& view, Pid pid);
Result<std::optional<store::CursorRow>> cursor_row(const View& view, Pid pid, std::string_view group);
Result<std::optional<Pid>> pid_of(const View& view, std::string_view tenant, std::string_view queue,
                                  std::string_view partition);
// A `counters`, `pending` or `leases_by_worker` row.
Result<std::optional<std::int64_t>> number_row(const View& view, Keyspace keyspace, BytesView key);

// The append row that holds `offset`, or nothing when there is none (any more).
struct FoundAppend {
  std::int64_t base = 0;
  Bytes bytes;
  store::AppendRowView row;  // borrows from `bytes`
};
std::optional<FoundAppend> append_at(const View& view, Pid pid, std::int64_t offset);

// The first offset of `partition` from `oldest` on that is stamped at or after `since`; last_offset + 1 when
// none is. `oldest` is at or above rows_start. O(log messages): stamps ascend with offsets.
std::int64_t first_stamped_at_or_after(const View& view, Pid pid, const store::PartitionRow& partition,
                                       std::int64_t oldest, std::int64_t since);

// The same over everything that is retained from `oldest` on. The rows alone may not know: then `cold` is
// true, every row is stamped late enough, and the answer is in [oldest, rows_start] (RT-10).
struct StampSearch {
  std::int64_t offset = 0;
  bool cold = false;
};
StampSearch search_stamp(const View& view, Pid pid, const store::PartitionRow& partition, std::int64_t oldest,
                         std::int64_t since);

inline bool lease_live(const store::CursorRow& cursor, std::int64_t now_us) {
  if (planted(PlantedBug::machine_lease_ends_at_partial_ack) && cursor.batch_start) return false;
  return cursor.worker && cursor.lease_expires && *cursor.lease_expires > now_us;
}

// xxh3_64(tenant 0x1F queue), 0 becomes 1.
std::uint64_t queue_id(std::string_view tenant, std::string_view queue);

// The allocators and clocks of the log (storage.md 9.2).
struct LogState {
  std::uint64_t next_pid = 1;
  std::uint64_t kv_version_next = 1;
  std::int64_t last_now_us = 0;
  std::int64_t max_created_at_us = 0;

  static Result<LogState> load(const View& view);
  void save(View& view) const;
};
Result<std::uint64_t> meta_number(const View& view, std::string_view name, std::uint64_t otherwise);

}  // namespace queen::machine::detail

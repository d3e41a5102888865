#include "broker/append_index.h"

#include "broker/store_steps.h"

namespace queen::broker {

using store::Keyspace;

std::optional<AppendSpan> append_row_at(const store::Store& store, Pid pid, std::int64_t offset) {
  const auto found =
      store.last_at_or_below(Keyspace::txns, store::txns_prefix(pid), store::txns_key(pid, offset));
  if (!found) return std::nullopt;
  const auto key = store::parse_txns_key(found->key);
  const auto row = store::AppendRowView::decode(found->value);
  INVARIANT(key.has_value() && row.has_value(), "an append row of partition {} does not decode", pid.value);
  if (row->end < offset) return std::nullopt;
  return AppendSpan{key->base_offset, row->end, row->created_at};
}

std::vector<AppendSpan> AppendIndex::rows_down(Pid pid, std::int64_t offset, std::int64_t log_start,
                                               std::size_t most) {
  std::vector<AppendSpan> out;
  const auto gate = store_.read_gate();
  while (offset >= log_start && out.size() < most) {
    const auto row = append_row_at(store_, pid, offset);
    if (!row) break;
    out.push_back(*row);
    offset = row->base - 1;
  }
  return out;
}

Result<std::optional<AppendSpan>> AppendIndex::in_log(Pid pid, std::uint64_t queue_id, std::int64_t offset) {
  const LogId log = logs_.layout().of_partition(LogId{queue_id}, pid);
  const auto places = logs_.locate(log, pid, static_cast<std::uint64_t>(offset), 1);
  if (!places) return places.error();
  if (places->empty()) return std::optional<AppendSpan>();
  const qlog::AppendPlace& place = places->front();
  if (static_cast<std::int64_t>(place.base_offset) > offset) return std::optional<AppendSpan>();
  return std::optional(AppendSpan{static_cast<std::int64_t>(place.base_offset),
                                  static_cast<std::int64_t>(place.end) - 1, place.created_at});
}

Result<std::vector<AppendSpan>> AppendIndex::down_from(Pid pid, std::uint64_t queue_id, std::int64_t offset,
                                                       std::int64_t log_start, std::size_t most) {
  auto out = rows_down(pid, offset, log_start, most);
  if (!out.empty()) return out;
  for (; offset >= log_start && out.size() < most; --offset) {
    const auto found = in_log(pid, queue_id, offset);
    if (!found) return found.error();
    if (!*found) continue;
    out.push_back(**found);
    offset = (*found)->base;
  }
  return out;
}

Result<std::optional<std::int64_t>> AppendIndex::stamp(Pid pid, std::uint64_t queue_id, std::int64_t offset) {
  const auto rows = rows_down(pid, offset, offset, 1);
  if (!rows.empty()) return std::optional(rows.front().created_at);
  const auto found = in_log(pid, queue_id, offset);
  if (!found) return found.error();
  return *found ? std::optional((*found)->created_at) : std::nullopt;
}

Result<std::int64_t> AppendIndex::first_stamped(Pid pid, std::uint64_t queue_id, std::int64_t from,
                                                std::int64_t end, std::int64_t since_us) {
  const LogId log = logs_.layout().of_partition(LogId{queue_id}, pid);
  const auto found = logs_.first_stamped_at_or_after(log, pid, static_cast<std::uint64_t>(from),
                                                     static_cast<std::uint64_t>(end), since_us);
  if (!found) return found.error();
  return static_cast<std::int64_t>(*found);
}

}  // namespace queen::broker

// What a watermark does to the rows of its partition (storage.md 8.2).
#include <fmt/format.h>

#include <algorithm>

#include "machine/detail/run.h"

namespace queen::machine::detail {
namespace {

// Append rows that end below rows_start go: rows exist for exactly the others (RT-9).
Status erase_rows(const Where& at, Pid pid, std::int64_t rows_start) {
  std::vector<Bytes> gone;
  bool broken = false;
  at.view.scan(Keyspace::txns, store::txns_prefix(pid), {}, [&](BytesView key, BytesView value) {
    const auto row = store::AppendRowView::decode(value);
    broken = !row;
    if (broken || row->end >= rows_start) return false;
    gone.emplace_back(key);
    return true;
  });
  if (broken) return fatal(fmt::format("an append row of partition {} does not decode", pid.value));
  for (const Bytes& key : gone) at.view.erase(Keyspace::txns, key);
  return {};
}

Status erase_dead_letters(const Where& at, const store::PartitionRow& partition, Pid pid,
                          std::uint32_t letters_max) {
  std::vector<Uuid> gone;
  bool broken = false;
  if (letters_max == 0) return {};
  at.view.scan(Keyspace::dlq_by_pos, store::dlq_by_pos_prefix(pid), {}, [&](BytesView key, BytesView value) {
    const auto position = store::parse_dlq_by_pos_key(key);
    const auto ids = store::decode_uuids_row(value);
    broken = !position || !ids;
    if (broken) return false;
    if (position->offset < 0 || position->offset >= partition.log_start) return true;
    for (const Uuid& id : *ids)
      if (gone.size() < letters_max) gone.push_back(id);
    return gone.size() < letters_max;
  });
  if (broken)
    return fatal(fmt::format("a dead letter's position in partition {} does not decode", pid.value));
  for (const Uuid& id : gone)
    if (Status status = erase_dead_letter(at, partition.tenant, partition.queue, id); !status) return status;
  return {};
}

}  // namespace

Status run(const Where& at, const Watermark& effect) {
  auto found = partition_row(at.view, effect.pid);
  if (!found) return found.error();
  if (!*found) return {};
  store::PartitionRow& partition = **found;
  if (effect.log_start > partition.last_offset + 1 || effect.rows_start > partition.last_offset + 1)
    return fatal(fmt::format("watermarks {} and {} of partition {}, which ends at {}", effect.log_start,
                             effect.rows_start, effect.pid.value, partition.last_offset));
  const bool messages_go = effect.log_start > partition.log_start;
  const bool rows_go = effect.rows_start > partition.rows_start;
  partition.log_start = std::max(partition.log_start, effect.log_start);
  partition.txns_start = std::max(partition.txns_start, effect.txns_start);
  partition.rows_start = std::max(partition.rows_start, effect.rows_start);
  const Left left = partition.log_start > partition.last_offset ? Left::nothing : Left::something;
  if (messages_go) partition.oldest_live_at = left == Left::nothing ? std::nullopt : effect.oldest_live_at;
  at.view.put(Keyspace::partitions, store::partition_key(effect.pid), partition.encode());
  if (rows_go)
    if (Status status = erase_rows(at, effect.pid, partition.rows_start); !status) return status;
  if (!messages_go) return {};
  if (Status status = take_retained(at, partition, effect.pid, effect.retained_bytes, left); !status)
    return status;
  return erase_dead_letters(at, partition, effect.pid, effect.dead_letters_max);
}

}  // namespace queen::machine::detail

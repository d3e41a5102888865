#include "machine/dedup_index.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/invariant.h"
#include "base/planted_bugs.h"
#include "machine/detail/lookup.h"

namespace queen::machine {
namespace {

using namespace detail;

// Below this a partition's rows are read instead of indexed: a table would cost more than it saves.
constexpr std::int64_t kScanMessagesMax = 16;
constexpr std::size_t kSlotsMin = 64;
constexpr std::size_t kHashBytes = 16;
// How far ahead of a probe its slot is asked for: a table beyond the CPU's caches costs a miss per message
// otherwise.
constexpr std::size_t kPrefetchAhead = 8;

std::uint32_t print_of(const char* hash) {
  return load_le<std::uint32_t>(hash);
}
// The slot comes from the print alone, so that a table can grow without the hashes.
std::size_t slot_of(std::uint32_t print, std::size_t slots) {
  return static_cast<std::size_t>((print * 0x9E3779B97F4A7C15ULL) >> (64 - std::countr_zero(slots)));
}
std::size_t slots_for(std::size_t messages) {
  return std::max(kSlotsMin, std::bit_ceil(messages * 2));
}

}  // namespace

struct DedupIndex::Query {
  const store::View& view;
  Pid pid;
  const store::PartitionRow& partition;
  std::int64_t since_us;
};

namespace {

// The partition is small: compares every row of it with every hash.
void scan_rows(const View& view, Pid pid, std::int64_t since_us, BytesView hashes,
               std::vector<std::optional<std::uint64_t>>& offsets) {
  const std::size_t first = planted(PlantedBug::machine_dedup_misses_first) ? 1 : 0;
  view.scan(Keyspace::txns, store::txns_prefix(pid), {}, [&](BytesView key, BytesView value) {
    const auto row = must(store::AppendRowView::decode(value));
    if (row.created_at < since_us) return true;
    const auto base = store::parse_txns_key(key)->base_offset;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      for (std::size_t j = first; j < row.count() && !offsets[i]; ++j)
        if (hashes.substr(i * kHashBytes, kHashBytes) == row.hashes.substr(j * kHashBytes, kHashBytes))
          offsets[i] = static_cast<std::uint64_t>(base) + j;
    }
    return true;
  });
}

// The first offset inside the window. Rows, not the log's start, bound it: ids outlive their payloads (P-10).
std::int64_t window_start(const View& view, Pid pid, const store::PartitionRow& partition,
                          std::int64_t since_us) {
  return first_stamped_at_or_after(view, pid, partition, partition.rows_start, since_us);
}

// Whether the message at `offset` really has the hash and is inside the window.
bool holds(const View& view, Pid pid, std::uint64_t offset, std::int64_t since_us, BytesView hash) {
  const auto append = append_at(view, pid, static_cast<std::int64_t>(offset));
  if (!append || append->row.created_at < since_us) return false;
  const std::size_t at = offset - static_cast<std::uint64_t>(append->base);
  return at < append->row.count() && append->row.hashes.substr(at * kHashBytes, kHashBytes) == hash;
}

}  // namespace

void DedupIndex::find(const store::View& view, Pid pid, const store::PartitionRow& partition,
                      BytesView hashes, std::int64_t since_us,
                      std::vector<std::optional<std::uint64_t>>& offsets) {
  const std::size_t count = hashes.size() / kHashBytes;
  offsets.assign(count, std::nullopt);
  if (partition.last_offset < 0 || partition.last_created_at < since_us) return;
  if (partition.last_offset + 1 - partition.rows_start <= kScanMessagesMax)
    return scan_rows(view, pid, since_us, hashes, offsets);
  const Query query{view, pid, partition, since_us};
  Table& table = table_of(query);
  rebuild_when_full(table, query, count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t ahead = i + kPrefetchAhead;
    if (ahead < count)
      __builtin_prefetch(
          &table.slots[slot_of(print_of(hashes.data() + ahead * kHashBytes), table.slots.size())]);
    offsets[i] = probe(table, query, hashes.data() + i * kHashBytes);
  }
  evict(pid);
}

DedupIndex::Table& DedupIndex::table_of(const Query& query) {
  const auto [found, fresh] = tables_.try_emplace(query.pid.value);
  Table& table = found->second;
  if (fresh) {
    ages_.push_front(query.pid);
    table.age = ages_.begin();
  } else {
    ages_.splice(ages_.begin(), ages_, table.age);
  }
  // A window that was raised reaches further back than the table does (DD-12).
  if (fresh || query.since_us < table.covers_us) build(table, query);
  return table;
}

void DedupIndex::build(Table& table, const Query& query) {
  const std::int64_t from = window_start(query.view, query.pid, query.partition, query.since_us);
  table.base = static_cast<std::uint64_t>(from);
  table.covers_us = query.since_us;
  table.used = 0;
  const auto messages = static_cast<std::size_t>(query.partition.last_offset + 1 - from);
  resize(table, slots_for(messages));
  std::fill(table.slots.begin(), table.slots.end(), Slot{});
  if (planted(PlantedBug::machine_dedup_forgets_older)) return;
  const auto start = append_at(query.view, query.pid, from);
  const Bytes first = store::txns_key(query.pid, start ? start->base : from);
  query.view.scan(Keyspace::txns, store::txns_prefix(query.pid), first, [&](BytesView key, BytesView value) {
    const auto row = must(store::AppendRowView::decode(value));
    const auto base = static_cast<std::uint64_t>(store::parse_txns_key(key)->base_offset);
    for (std::size_t i = 0; i < row.count(); ++i)
      if (base + i >= table.base) insert(table, print_of(row.hashes.data() + i * kHashBytes), base + i);
    return true;
  });
}

// Makes room for `coming` more messages. What left the window goes first, so a steady stream keeps its size.
void DedupIndex::rebuild_when_full(Table& table, const Query& query, std::size_t coming) {
  const bool far = static_cast<std::uint64_t>(query.partition.last_offset) + coming + 2 - table.base >=
                   std::numeric_limits<std::uint32_t>::max();
  if ((table.used + coming) * 4 <= table.slots.size() * 3 && !far) return;
  const auto low =
      static_cast<std::uint64_t>(window_start(query.view, query.pid, query.partition, query.since_us));
  const std::uint64_t old_base = table.base;
  if (low > table.base) {
    table.base = low;
    table.covers_us = query.since_us;
  }
  const auto messages = static_cast<std::size_t>(query.partition.last_offset + 1) - table.base;
  std::vector<Slot> old = std::move(table.slots);
  bytes_ -= old.size() * sizeof(Slot);
  table.slots = {};
  table.used = 0;
  resize(table, slots_for(messages + coming));
  for (const Slot& slot : old) {
    if (slot.ordinal == 0) continue;
    const std::uint64_t offset = old_base + slot.ordinal - 1;
    if (offset >= table.base) insert(table, slot.print, offset);
  }
}

void DedupIndex::resize(Table& table, std::size_t slots) {
  bytes_ += slots * sizeof(Slot);
  bytes_ -= table.slots.size() * sizeof(Slot);
  table.slots.resize(slots);
}

void DedupIndex::insert(Table& table, std::uint32_t print, std::uint64_t offset) {
  INVARIANT(offset >= table.base && table.used < table.slots.size(), "dedup: offset {} below {}", offset,
            table.base);
  const std::size_t mask = table.slots.size() - 1;
  std::size_t at = slot_of(print, table.slots.size());
  while (table.slots[at].ordinal != 0) at = (at + 1) & mask;
  table.slots[at] = {print, static_cast<std::uint32_t>(offset - table.base + 1)};
  ++table.used;
}

std::optional<std::uint64_t> DedupIndex::probe(const Table& table, const Query& query,
                                               const char* hash) const {
  const std::uint32_t print = print_of(hash);
  const std::size_t mask = table.slots.size() - 1;
  std::optional<std::uint64_t> earliest;
  for (std::size_t at = slot_of(print, table.slots.size()); table.slots[at].ordinal != 0;
       at = (at + 1) & mask) {
    if (table.slots[at].print != print) continue;
    const std::uint64_t offset = table.base + table.slots[at].ordinal - 1;
    if (earliest && *earliest <= offset) continue;
    if (holds(query.view, query.pid, offset, query.since_us, {hash, kHashBytes})) earliest = offset;
  }
  return earliest;
}

void DedupIndex::appended(Pid pid, std::uint64_t base_offset, BytesView hashes) {
  const auto found = tables_.find(pid.value);
  if (found == tables_.end()) return;
  Table& table = found->second;
  const std::size_t count = hashes.size() / kHashBytes;
  // Without dedup nobody calls find(), which makes room: a table that would overflow is built anew when
  // needed.
  if ((table.used + count) * 4 > table.slots.size() * 3 ||
      base_offset + count - table.base >= std::numeric_limits<std::uint32_t>::max())
    return drop(pid);
  for (std::size_t i = 0; i < count; ++i)
    insert(table, print_of(hashes.data() + i * kHashBytes), base_offset + i);
}

void DedupIndex::forget(Pid pid) {
  if (tables_.contains(pid.value)) drop(pid);
}

void DedupIndex::drop(Pid pid) {
  const auto found = tables_.find(pid.value);
  bytes_ -= found->second.slots.size() * sizeof(Slot);
  ages_.erase(found->second.age);
  tables_.erase(found);
}

void DedupIndex::evict(Pid keep) {
  while (bytes_ > bytes_max_ && ages_.back() != keep) drop(ages_.back());
}

void DedupIndex::clear() {
  tables_.clear();
  ages_.clear();
  bytes_ = 0;
}

}  // namespace queen::machine

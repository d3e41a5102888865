#include "sink/detail/partition_table.h"

#include <algorithm>

#include "base/planted_bugs.h"

namespace queen::sink::detail {
namespace {

// Partitions not written for this long before T(prev) have no record of the window: read from their head,
// unseen.
constexpr std::int64_t kColdUs = 1'000'000;

std::uint64_t after(std::int64_t last_offset) {
  return static_cast<std::uint64_t>(last_offset + 1);
}

bool other_incarnation(const std::optional<Uuid>& known, const std::optional<Uuid>& named) {
  return known && named && *known != *named;
}

}  // namespace

void PartitionTable::restore_positions(const Checkpoint& checkpoint) {
  for (const CheckpointPosition& position : checkpoint.positions)
    restored_.insert_or_assign(position.partition, position);
}

void PartitionTable::merge(const ChangedRow& row, const PageContext& page) {
  auto [at, is_new] = partitions_.try_emplace(row.name);
  Partition& partition = at->second;
  partition.last_seen_k = page.k;
  if (is_new) {
    partition.name = row.name;
    partition.id = row.id;
    partition.last_offset = row.last_offset;
    partition.log_start = row.log_start;
    partition.first_seen_attempt = page.attempt;
    set_position(partition, row, page);
  } else if (other_incarnation(partition.id, row.id)) {
    begin_incarnation(partition, row, page);
  } else {
    if (!partition.id) partition.id = row.id;
    partition.last_offset = std::max(partition.last_offset, row.last_offset);
    partition.log_start = std::max(partition.log_start, row.log_start);
    // A read in flight may still bring what was trimmed meanwhile; its answer settles the matter.
    if (!partition.in_flight) skip_trimmed(partition);
  }
  if (partition.caught_up()) partition.caught_up_at = std::max(partition.caught_up_at, page.safe_time);
  open_.insert(&partition);
}

// The rules of s3-sink.md 8.5, in their order.
void PartitionTable::set_position(Partition& partition, const ChangedRow& row, const PageContext& page) {
  if (position_from_checkpoint(partition, row)) return;
  if (page.from_earliest) {
    partition.next = row.log_start;
    return;
  }
  if (!page.t_prev) {
    partition.next = after(row.last_offset);
    return;
  }
  const bool cold = row.last_write_at < *page.t_prev - kColdUs;
  const bool empty = row.last_offset < static_cast<std::int64_t>(row.log_start);
  partition.next = cold ? after(row.last_offset) : row.log_start;
  partition.position_pending = !cold && !empty;
}

bool PartitionTable::position_from_checkpoint(Partition& partition, const ChangedRow& row) {
  const auto found = restored_.find(row.name);
  if (found == restored_.end()) return false;
  const CheckpointPosition position = std::move(found->second);
  restored_.erase(found);
  if (other_incarnation(position.id, row.id)) return false;
  partition.next = position.offset;
  skip_trimmed(partition);
  return true;
}

void PartitionTable::begin_incarnation(Partition& partition, const ChangedRow& row, const PageContext& page) {
  // While a seek is owed the position is unknown and any retained record may have been wanted: rather too
  // much is named as lost than too little.
  const std::uint64_t unread = partition.position_pending ? partition.log_start : partition.next;
  if (static_cast<std::int64_t>(unread) <= partition.last_offset)
    lose(partition, unread, static_cast<std::uint64_t>(partition.last_offset));
  ++partition.generation;
  partition.id = row.id;
  partition.next = row.log_start;
  partition.last_offset = row.last_offset;
  partition.log_start = row.log_start;
  partition.read_up_to = kNever;
  partition.caught_up_at = kNever;
  partition.first_seen_attempt = page.attempt;
  partition.position_pending = false;
  partition.parked = false;
  partition.older = partition.buffer.size();
}

void PartitionTable::skip_trimmed(Partition& partition) {
  if (partition.position_pending || partition.next >= partition.log_start) return;
  lose(partition, partition.next, partition.log_start - 1);
  partition.next = partition.log_start;
  partition.read_up_to = kNever;
}

Absorbed PartitionTable::absorb(Partition& partition, std::uint32_t generation, FetchedEntry entry,
                                std::int64_t filter, std::int64_t issued_at) {
  partition.in_flight = false;
  if (entry.error == kErrorUnknown) return Absorbed::missing;
  if (generation != partition.generation) return Absorbed::taken;
  if (entry.error == kErrorOutOfRange) {
    out_of_range(partition, entry);
  } else if (!entry.error.empty()) {
    partition.parked = true;
  } else {
    const bool progress = take_records(partition, std::move(entry.records), filter);
    partition.last_offset =
        std::max(partition.last_offset, static_cast<std::int64_t>(entry.high_watermark) - 1);
    partition.log_start = std::max(partition.log_start, entry.log_start);
    const std::uint64_t before = partition.next;
    skip_trimmed(partition);
    if (!progress && partition.next == before && !partition.caught_up()) partition.parked = true;
  }
  // Discovery may have named later records while the call was out; then this answer is no observation of the
  // end.
  if (partition.caught_up()) partition.caught_up_at = std::max(partition.caught_up_at, issued_at);
  open_.insert(&partition);
  return Absorbed::taken;
}

void PartitionTable::out_of_range(Partition& partition, const FetchedEntry& entry) {
  partition.log_start = std::max(partition.log_start, entry.log_start);
  if (entry.log_start > partition.next) {
    skip_trimmed(partition);
    partition.last_offset =
        std::max(partition.last_offset, static_cast<std::int64_t>(entry.high_watermark) - 1);
    return;
  }
  if (partition.next > entry.high_watermark) {
    // The log shrank under what discovery told: the partition was made again and discovery has not said so
    // yet. (A position from a node ahead of this one lies above last_offset and is not read at all.)
    if (partition.last_offset >= static_cast<std::int64_t>(partition.next))
      lose(partition, partition.next, static_cast<std::uint64_t>(partition.last_offset));
    partition.next = entry.high_watermark;
    partition.last_offset = static_cast<std::int64_t>(entry.high_watermark) - 1;
    partition.read_up_to = kNever;
    return;
  }
  partition.parked = true;
}

bool PartitionTable::take_records(Partition& partition, std::vector<FetchedRecord> records,
                                  std::int64_t filter) {
  bool progress = false;
  for (FetchedRecord& record : records) {
    if (record.offset < partition.next) continue;
    // A gap below the filter was shipped by the window that is closed already.
    if (record.offset > partition.next && record.ts >= filter)
      lose(partition, partition.next, record.offset - 1);
    partition.next = record.offset + 1;
    partition.read_up_to = std::max(partition.read_up_to, record.ts);
    progress = true;
    if (record.ts >= filter) buffer(partition, std::move(record));
  }
  return progress;
}

// A partition made again can be read before discovery names its new id; such records stand among the older
// ones and come a second time when the new incarnation is read from its start. (offset, ts) tells them apart
// from the old ones.
void PartitionTable::drop_older_copy(Partition& partition, const FetchedRecord& record) {
  const auto end = partition.buffer.begin() + static_cast<std::ptrdiff_t>(partition.older);
  const auto at = std::find_if(partition.buffer.begin(), end, [&](const BufferedRecord& held) {
    return held.ts == record.ts && held.offset == record.offset;
  });
  if (at == end) return;
  const std::uint64_t weight = weight_of(partition.name, *at);
  partition.weight -= weight;
  weight_ -= weight;
  partition.buffer.erase(at);
  --partition.older;
}

void PartitionTable::buffer(Partition& partition, FetchedRecord record) {
  if (partition.older > 0) drop_older_copy(partition, record);
  partition.buffer.push_back({record.offset, record.ts, record.transaction_id, record.payload,
                              record.payload_kind, std::move(record.owner)});
  const std::uint64_t weight = weight_of(partition.name, partition.buffer.back());
  partition.weight += weight;
  weight_ += weight;
  buffered_.insert(&partition);
}

void PartitionTable::lose(const Partition& partition, std::uint64_t from, std::uint64_t to) {
  lost_.push_back({partition.name, from, to});
}

void PartitionTable::release(Partition& partition) {
  partition.in_flight = false;
}

void PartitionTable::place(Partition& partition, std::uint32_t generation,
                           std::optional<std::uint64_t> offset, std::int64_t issued_at) {
  partition.in_flight = false;
  if (generation != partition.generation) return;
  partition.position_pending = false;
  partition.next = std::max(offset.value_or(partition.log_start), partition.log_start);
  partition.read_up_to = kNever;
  if (partition.caught_up()) partition.caught_up_at = std::max(partition.caught_up_at, issued_at);
  open_.insert(&partition);
}

void PartitionTable::unpark_all() {
  for (Partition* partition : open_) partition->parked = false;
}

std::int64_t PartitionTable::frontier(const Partition& partition, const CompletePass& pass) const {
  if (partition.position_pending) return kNever;
  if (!partition.caught_up()) return partition.read_up_to;
  // A complete pass that began after the partition was first seen would have named any record at or above its
  // `since`; whatever is newer lies above the pass's own safeTime.
  const bool covered = partition.first_seen_attempt < pass.attempt;
  return covered ? std::max(partition.caught_up_at, pass.safe_time) : partition.caught_up_at;
}

std::optional<std::int64_t> PartitionTable::queue_frontier(const CompletePass& pass) {
  if (partitions_.empty()) return std::nullopt;
  std::int64_t smallest = kForever;
  for (auto at = open_.begin(); at != open_.end();) {
    const std::int64_t own = frontier(**at, pass);
    smallest = std::min(smallest, own);
    const bool settled = (*at)->caught_up() && !(*at)->in_flight && own >= pass.safe_time;
    at = settled ? open_.erase(at) : std::next(at);
  }
  // Those left out stay at or above every later pass: they are covered by it. Nothing ever compares above
  // safeTime.
  const bool some_settled = open_.size() < partitions_.size();
  return some_settled ? std::min(smallest, pass.safe_time) : smallest;
}

std::optional<std::int64_t> PartitionTable::reading_from(const CompletePass& pass) const {
  std::optional<std::int64_t> smallest;
  for (const Partition* partition : open_) {
    if (partition->caught_up() || partition->parked) continue;
    const std::int64_t own = frontier(*partition, pass);
    smallest = std::min(smallest.value_or(own), own);
  }
  return smallest;
}

std::vector<Partition*> PartitionTable::wanting_seek() const {
  std::vector<Partition*> out;
  for (Partition* partition : open_)
    if (partition->position_pending && !partition->in_flight) out.push_back(partition);
  std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  return out;
}

std::vector<std::pair<std::int64_t, Partition*>> PartitionTable::wanting_fetch(
    const CompletePass& pass) const {
  std::vector<std::pair<std::int64_t, Partition*>> out;
  for (Partition* partition : open_) {
    const bool busy = partition->in_flight || partition->position_pending || partition->parked;
    if (!busy && !partition->caught_up()) out.emplace_back(frontier(*partition, pass), partition);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second->name < b.second->name;
  });
  return out;
}

std::optional<std::int64_t> PartitionTable::smallest_stamp() const {
  std::optional<std::int64_t> smallest;
  for (const Partition* partition : buffered_) {
    const std::int64_t ts = partition->buffer.front().ts;
    smallest = std::min(smallest.value_or(ts), ts);
  }
  return smallest;
}

std::vector<std::pair<std::int64_t, std::uint64_t>> PartitionTable::weights_below(std::int64_t cap) const {
  std::vector<std::pair<std::int64_t, std::uint64_t>> out;
  for (const Partition* partition : buffered_) {
    for (const BufferedRecord& record : partition->buffer) {
      if (record.ts >= cap) break;
      out.emplace_back(record.ts, weight_of(partition->name, record));
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

WindowPlan PartitionTable::cut(const WindowBounds& bounds) {
  WindowPlan plan;
  plan.bounds = bounds;
  for (auto at = buffered_.begin(); at != buffered_.end();) {
    Partition& partition = **at;
    auto& buffer = partition.buffer;
    const std::int64_t above = bounds.t_end + (planted(PlantedBug::sink_takes_window_end) ? 1 : 0);
    const auto end = std::find_if(buffer.begin(), buffer.end(),
                                  [&](const BufferedRecord& record) { return record.ts >= above; });
    const auto count = static_cast<std::size_t>(end - buffer.begin());
    if (count > 0) {
      PlannedPartition taken{partition.name,
                             {std::make_move_iterator(buffer.begin()), std::make_move_iterator(end)}};
      std::vector<BufferedRecord> rest{std::make_move_iterator(end), std::make_move_iterator(buffer.end())};
      buffer.swap(rest);
      partition.older -= std::min(partition.older, count);
      std::uint64_t weight = 0;
      for (const BufferedRecord& record : taken.records) weight += weight_of(taken.name, record);
      partition.weight -= weight;
      weight_ -= weight;
      plan.weight += weight;
      plan.records += count;
      plan.partitions.push_back(std::move(taken));
    }
    at = buffer.empty() ? buffered_.erase(at) : std::next(at);
  }
  std::sort(plan.partitions.begin(), plan.partitions.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  plan.lost = std::exchange(lost_, {});
  return plan;
}

void PartitionTable::keep_lost(std::vector<LostRange> lost) {
  lost_.insert(lost_.begin(), std::make_move_iterator(lost.begin()), std::make_move_iterator(lost.end()));
}

void PartitionTable::prune(std::uint64_t committed_k, std::uint64_t after_windows) {
  for (auto at = partitions_.begin(); at != partitions_.end();) {
    Partition& partition = at->second;
    const bool unseen = partition.last_seen_k + after_windows <= committed_k;
    const bool done = partition.caught_up() && partition.buffer.empty() && !partition.in_flight;
    if (!unseen || !done) {
      ++at;
      continue;
    }
    open_.erase(&partition);
    at = partitions_.erase(at);
  }
}

Checkpoint PartitionTable::positions(std::uint64_t k, std::int64_t t_end) const {
  Checkpoint checkpoint{k, t_end, {}};
  checkpoint.positions.reserve(partitions_.size());
  for (const auto& [name, partition] : partitions_) {
    // Without a position the next owner seeks again, as this one would have.
    if (partition.position_pending) continue;
    const bool waiting =
        partition.buffer.size() > partition.older && !planted(PlantedBug::sink_checkpoint_skips_buffered);
    const std::uint64_t offset = waiting ? partition.buffer[partition.older].offset : partition.next;
    checkpoint.positions.push_back({name, offset, partition.id});
  }
  std::sort(checkpoint.positions.begin(), checkpoint.positions.end(),
            [](const auto& a, const auto& b) { return a.partition < b.partition; });
  return checkpoint;
}

}  // namespace queen::sink::detail

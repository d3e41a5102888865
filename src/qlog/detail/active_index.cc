#include "qlog/detail/active_index.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace queen::qlog::detail {
namespace {

// Chunks double from the first, for a quiet log, up to the last size, for one with a million partitions:
// never more than half of a small index, or one chunk of a large one, is unused.
constexpr std::size_t kFirstChunk = 8;
constexpr std::size_t kDoublings = 7;
constexpr std::size_t kLastChunk = kFirstChunk << kDoublings;
constexpr std::size_t kInDoubling = kLastChunk - kFirstChunk;

constexpr std::size_t kFirstTable = 8;
// Slots read ahead while the table grows: each names a record somewhere in memory.
constexpr std::size_t kPrefetch = 16;

struct Place {
  std::size_t chunk = 0, at = 0;
};

Place place_of(std::size_t i) {
  if (i >= kInDoubling) return {kDoublings + (i - kInDoubling) / kLastChunk, (i - kInDoubling) % kLastChunk};
  const std::size_t chunk = static_cast<std::size_t>(std::bit_width(i / kFirstChunk + 1)) - 1;
  return {chunk, i - kFirstChunk * ((std::size_t{1} << chunk) - 1)};
}

std::size_t chunk_records(std::size_t chunk) {
  return kFirstChunk << std::min(chunk, kDoublings);
}

// Pids are given out one after the other: multiplied, neighbours do not share a run of slots.
std::size_t hash_of(std::uint64_t pid) {
  const std::uint64_t mixed = pid * 0x9E37'79B9'7F4A'7C15ULL;
  return mixed ^ mixed >> 32;
}

}  // namespace

IndexRecord ActiveIndex::record_of(const Node& node) {
  return {.pid = node.pid,
          .base_offset = node.base_offset,
          .end = node.end(),
          .created_at = node.created_at,
          .position = node.position,
          .count = node.count,
          .length = node.length};
}

ActiveIndex::Node& ActiveIndex::at(std::size_t i) const {
  const Place place = place_of(i);
  return chunks_[place.chunk][place.at];
}

ActiveIndex::Node& ActiveIndex::push() {
  const Place place = place_of(size_++);
  if (place.chunk == chunks_.size())
    chunks_.push_back(std::make_unique_for_overwrite<Node[]>(chunk_records(place.chunk)));
  return chunks_[place.chunk][place.at];
}

std::size_t ActiveIndex::slot_of(std::uint64_t pid) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = hash_of(pid) & mask;
  while (table_[slot] != 0 && at(table_[slot] - 1).pid != pid) slot = (slot + 1) & mask;
  return slot;
}

void ActiveIndex::grow_table() {
  const std::vector<std::uint32_t> old =
      std::exchange(table_, std::vector<std::uint32_t>(std::max(kFirstTable, table_.size() * 2)));
  const std::size_t mask = table_.size() - 1;
  for (std::size_t i = 0; i < old.size(); ++i) {
    if (i + kPrefetch < old.size() && old[i + kPrefetch] != 0)
      __builtin_prefetch(&at(old[i + kPrefetch] - 1));
    if (old[i] == 0) continue;
    std::size_t slot = hash_of(at(old[i] - 1).pid) & mask;
    while (table_[slot] != 0) slot = (slot + 1) & mask;
    table_[slot] = old[i];
  }
}

void ActiveIndex::add(const IndexRecord& record) {
  if ((pids_ + 1) * 5 > table_.size() * 4) grow_table();
  const std::size_t slot = slot_of(record.pid);
  const auto self = static_cast<std::uint32_t>(size_);
  Node& node = push();
  node = {.pid = record.pid,
          .base_offset = record.base_offset,
          .position = record.position,
          .created_at = record.created_at,
          .count = record.count,
          .length = record.length,
          .before = self,
          .jump = self,
          .depth = 0};
  if (table_[slot] == 0) {
    ++pids_;
  } else {
    node.before = table_[slot] - 1;
    const Node& before = at(node.before);
    const Node& far = at(before.jump);
    node.depth = before.depth + 1;
    // Two jumps of the same length in a row are joined to one.
    const bool joins = before.depth - far.depth == far.depth - at(far.jump).depth;
    node.jump = joins ? far.jump : node.before;
  }
  table_[slot] = self + 1;
}

const ActiveIndex::Node& ActiveIndex::at_depth(const Node& from, std::uint32_t depth) const {
  const Node* node = &from;
  while (node->depth > depth) {
    const Node& far = at(node->jump);
    node = far.depth >= depth ? &far : &at(node->before);
  }
  return *node;
}

IndexAnswer ActiveIndex::find(const IndexQuery& query, std::size_t records_max) const {
  IndexAnswer answer;
  if (table_.empty()) return answer;
  const std::uint32_t newest = table_[slot_of(query.pid)];
  if (newest == 0) return answer;
  const auto satisfies = [&](const Node& node) { return query.satisfied_by(node.end(), node.created_at); };
  const Node& last = at(newest - 1);
  answer.ends = true;
  if (!satisfies(last)) return answer;
  const Node* first = &last;
  while (first->depth > 0) {
    if (const Node& far = at(first->jump); satisfies(far)) {
      first = &far;
    } else if (const Node& before = at(first->before); satisfies(before)) {
      first = &before;
    } else {
      break;
    }
  }
  answer.ends = first->depth > 0 || first->base_offset <= query.offset;
  const std::size_t count = std::min<std::size_t>(records_max, last.depth - first->depth + 1);
  if (count == 0) return answer;
  answer.records.resize(count);
  const Node* node = &at_depth(last, first->depth + static_cast<std::uint32_t>(count) - 1);
  for (std::size_t i = count; i-- > 0; node = &at(node->before)) answer.records[i] = record_of(*node);
  return answer;
}

Bytes ActiveIndex::encode(std::uint64_t file_id, std::uint64_t file_bytes) const {
  std::vector<const Node*> order(size_);
  for (std::size_t i = 0; i < size_; ++i) order[i] = &at(i);
  std::ranges::sort(order, [](const Node* a, const Node* b) {
    return std::tie(a->pid, a->base_offset) < std::tie(b->pid, b->base_offset);
  });
  IndexEncoder encoder(size_);
  for (const Node* node : order) encoder.add(record_of(*node));
  return std::move(encoder).finish(file_id, file_bytes);
}

std::size_t ActiveIndex::memory_bytes() const {
  std::size_t records = 0;
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) records += chunk_records(chunk);
  return records * sizeof(Node) + chunks_.capacity() * sizeof chunks_[0] +
         table_.capacity() * sizeof table_[0];
}

}  // namespace queen::qlog::detail

#include "store/detail/table.h"

#include <algorithm>

#include "store/detail/key_order.h"

namespace queen::store::detail {
namespace {

// Below this a block is joined with the next one when both together fill at most kJoinedBytesMax.
constexpr std::size_t kSparseBytes = kBlockBytes / 4;
constexpr std::size_t kJoinedBytesMax = kBlockBytes * 3 / 4;
// Offsets in a block are 16 bits: a block must not swell towards 64 KiB when its shared prefix shrinks.
constexpr std::size_t kSwollenBytes = kBlockBytes * 2;

}  // namespace

void KeyList::add(BytesView key) {
  bytes_.append(key);
  ends_.push_back(bytes_.size());
}

std::vector<BytesView> KeyList::sorted() const {
  std::vector<BytesView> out;
  out.reserve(ends_.size());
  std::size_t begin = 0;
  for (const std::size_t end : ends_) {
    out.emplace_back(bytes_.data() + begin, end - begin);
    begin = end;
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Table::Blocks Table::make_blocks() {
  Blocks out;
  out.try_emplace(Bytes());
  return out;
}

Table::Blocks::iterator Table::block_of(BytesView key) {
  return std::prev(blocks_.upper_bound(key));
}
Table::Blocks::const_iterator Table::block_of(BytesView key) const {
  return std::prev(blocks_.upper_bound(key));
}

std::optional<Table::Found> Table::find(BytesView key) const {
  const Block& block = block_of(key)->second;
  const auto position = block.find(key);
  if (!position.exact) return std::nullopt;
  return Found{block.value_at(position.index), block.checksum_at(position.index)};
}

void Table::put(BytesView key, BytesView value, std::uint64_t checksum, Dirty dirty) {
  auto at = block_of(key);
  const auto position = at->second.find(key);
  if (position.exact)
    at->second.replace(position.index, value, checksum);
  else
    at = insert(at, position.index, key, value, checksum);
  if (dirty == Dirty::yes) note_dirty(at->second, key);
  if (at->second.crowded()) split(at);
}

// A key without the block's shared prefix sorts before or behind all its rows. When giving the prefix up
// would swell the block, the key starts a block of its own instead.
Table::Blocks::iterator Table::insert(Blocks::iterator at, std::size_t index, BytesView key, BytesView value,
                                      std::uint64_t checksum) {
  Block& block = at->second;
  ++rows_;
  if (block.bytes_with_prefix(block.shared_with(key)) <= kSwollenBytes || block.count() < 2) {
    block.insert(index, key, value, checksum);
    return at;
  }
  Bytes edge;
  block.key_at(index == 0 ? 0 : block.count() - 1, edge);
  Block fresh;
  fresh.insert(0, key, value, checksum);
  if (index != 0) return blocks_.try_emplace(std::next(at), separator(edge, key), std::move(fresh));
  blocks_.try_emplace(std::next(at), separator(key, edge), std::move(block));
  at->second = std::move(fresh);
  return at;
}

void Table::note_dirty(Block& block, BytesView key) {
  const auto position = block.find(key);
  if (block.dirty_at(position.index)) return;
  block.set_dirty(position.index, Dirty::yes);
  dirty_.add(key);
}

// Rows often arrive in key order; then the full block stays full and the new one begins with the last row.
void Table::split(Blocks::iterator at) {
  Block& left = at->second;
  const bool at_end = std::next(at) == blocks_.end();
  const std::size_t index = at_end ? left.count() - 1 : left.count() / 2;
  Block right = left.split(index);
  Bytes last;
  Bytes first;
  left.key_at(left.count() - 1, last);
  right.key_at(0, first);
  blocks_.try_emplace(std::next(at), separator(last, first), std::move(right));
}

bool Table::erase(BytesView key) {
  const auto at = block_of(key);
  Block& block = at->second;
  const auto position = block.find(key);
  if (!position.exact) return false;
  if (!block.dirty_at(position.index)) dirty_.add(key);
  block.erase(position.index);
  --rows_;
  shrink(at);
  return true;
}

void Table::shrink(Blocks::iterator at) {
  Block& block = at->second;
  if (block.count() == 0 && at != blocks_.begin()) {
    blocks_.erase(at);
    return;
  }
  if (block.bytes() >= kSparseBytes) return;
  const auto next = std::next(at);
  if (next == blocks_.end()) return;
  const std::size_t shared = block.count() == 0 ? kKeyBytesMax : block.shared_with(next->second);
  if (block.bytes_with_prefix(shared) + next->second.bytes_with_prefix(shared) > kJoinedBytesMax) return;
  block.absorb(std::move(next->second));
  blocks_.erase(next);
}

void Table::scan(BytesView prefix, BytesView from, const View::Visit& visit) const {
  const BytesView start = std::max(prefix, from);
  auto at = block_of(start);
  std::size_t index = at->second.find(start).index;
  Bytes key;
  for (; at != blocks_.end(); ++at, index = 0) {
    const Block& block = at->second;
    for (; index < block.count(); ++index) {
      block.key_at(index, key);
      if (!key.starts_with(prefix) || !visit(key, block.value_at(index))) return;
    }
  }
}

std::optional<View::Row> Table::last_at_or_below(BytesView prefix, BytesView to) const {
  if (to < prefix) return std::nullopt;
  // `to` beyond the prefix's range stands for the end of that range.
  const std::optional<Bytes> end = to.starts_with(prefix) ? std::nullopt : above_prefix(prefix);
  const BytesView bound = end ? BytesView(*end) : to;
  auto at = block_of(bound);
  const auto position = at->second.find(bound);
  std::size_t above = position.index + (position.exact && !end ? 1 : 0);
  while (above == 0) {
    if (at == blocks_.begin()) return std::nullopt;
    --at;
    above = at->second.count();
  }
  View::Row row;
  at->second.key_at(above - 1, row.key);
  if (!row.key.starts_with(prefix)) return std::nullopt;
  row.value = Bytes(at->second.value_at(above - 1));
  return row;
}

void Table::drain_dirty(const VisitChange& visit) {
  const KeyList changed = std::exchange(dirty_, {});
  for (const BytesView key : changed.sorted()) {
    Block& block = block_of(key)->second;
    const auto position = block.find(key);
    if (!position.exact) {
      visit(key, nullptr);
      continue;
    }
    block.set_dirty(position.index, Dirty::no);
    const Found row{block.value_at(position.index), block.checksum_at(position.index)};
    visit(key, &row);
  }
}

void Table::mark_dirty(BytesView key) {
  Block& block = block_of(key)->second;
  const auto position = block.find(key);
  if (position.exact) {
    if (block.dirty_at(position.index)) return;
    block.set_dirty(position.index, Dirty::yes);
  }
  dirty_.add(key);
}

std::size_t Table::block_bytes() const {
  std::size_t out = 0;
  for (const auto& [bound, block] : blocks_) out += block.bytes();
  return out;
}

}  // namespace queen::store::detail

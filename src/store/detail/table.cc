#include "store/detail/table.h"

#include <algorithm>

#include "base/invariant.h"
#include "store/detail/key_order.h"

namespace queen::store::detail {
namespace {

// Below this a block is joined with the next one when both together fill at most kJoinedBytesMax.
constexpr std::size_t kSparseBytes = kBlockBytes / 4;
constexpr std::size_t kJoinedBytesMax = kBlockBytes * 3 / 4;

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
  auto position = at->second.find(key);
  if (position.exact) {
    if (dirty == Dirty::yes) note_change(at->second, position.index, key);
    at->second.replace(position.index, value, checksum);
    if (at->second.crowded()) split(at, at->second.count() / 2);
    return;
  }
  if (at->second.bytes_with(key, value) > kBlockBytes) {
    at = make_place(at, key, value);
    position = at->second.find(key);
  }
  at->second.insert(position.index, key, value, checksum, dirty == Dirty::yes ? round_ : Mark::clean);
  if (dirty == Dirty::yes) dirty_.add(key);
  ++rows_;
}

// Rows often arrive in key order, over the whole table or inside a range of it: then the full block stays
// full and the new row begins the next one.
Table::Blocks::iterator Table::make_place(Blocks::iterator at, BytesView key, BytesView value) {
  while (at->second.count() != 0 && at->second.bytes_with(key, value) > kBlockBytes) {
    const Block& block = at->second;
    const std::size_t index = block.find(key).index;
    if (index == block.count()) return block_behind(at, key);
    if (index == 0) return block_before(at, key);
    const auto right = split(at, block.ascends_at(index) ? index : block.count() / 2);
    if (key >= right->first) at = right;
  }
  return at;
}

Table::Blocks::iterator Table::block_behind(Blocks::iterator at, BytesView key) {
  Bytes last;
  at->second.key_at(at->second.count() - 1, last);
  return blocks_.try_emplace(std::next(at), separator(last, key));
}

Table::Blocks::iterator Table::block_before(Blocks::iterator at, BytesView key) {
  Bytes first;
  at->second.key_at(0, first);
  blocks_.try_emplace(std::next(at), separator(key, first), std::move(at->second));
  at->second = Block();
  return at;
}

Table::Blocks::iterator Table::split(Blocks::iterator at, std::size_t index) {
  Block& left = at->second;
  Block right = left.split(index);
  Bytes last;
  Bytes first;
  left.key_at(left.count() - 1, last);
  right.key_at(0, first);
  return blocks_.try_emplace(std::next(at), separator(last, first), std::move(right));
}

void Table::append(const NewRow& row) {
  auto at = std::prev(blocks_.end());
  INVARIANT(at->second.ends_below(row.key), "rows are loaded out of order");
  if (at->second.count() != 0 && at->second.bytes_with(row.key, row.value) > kBlockBytes) {
    at->second.fit();
    at = block_behind(at, row.key);
  }
  at->second.insert(at->second.count(), row.key, row.value, row.checksum, Mark::clean);
  ++rows_;
}

void Table::note_change(Block& block, std::size_t index, BytesView key) {
  const Mark mark = block.mark_at(index);
  if (mark == round_) return;
  if (mark != Mark::clean)
    aside_.try_emplace(Bytes(key), Old{Bytes(block.value_at(index)), block.checksum_at(index)});
  block.set_mark(index, round_);
  dirty_.add(key);
}

bool Table::erase(BytesView key) {
  const auto at = block_of(key);
  Block& block = at->second;
  const auto position = block.find(key);
  if (!position.exact) return false;
  note_change(block, position.index, key);
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

void Table::scan_rows(BytesView prefix, BytesView from, const VisitRow& visit) const {
  const BytesView start = std::max(prefix, from);
  auto at = block_of(start);
  std::size_t index = at->second.find(start).index;
  Bytes key;
  for (; at != blocks_.end(); ++at, index = 0) {
    const Block& block = at->second;
    for (; index < block.count(); ++index) {
      block.key_at(index, key);
      if (!key.starts_with(prefix) || !visit(key, {block.value_at(index), block.checksum_at(index)})) return;
    }
  }
}

void Table::scan(BytesView prefix, BytesView from, const View::Visit& visit) const {
  scan_rows(prefix, from, [&visit](BytesView key, const Found& row) { return visit(key, row.value); });
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

KeyList Table::end_round() {
  INVARIANT(aside_.empty(), "{} rows of the round before are still there", aside_.size());
  round_ = round_ == Mark::odd ? Mark::even : Mark::odd;
  return std::exchange(dirty_, {});
}

std::optional<Table::Found> Table::take_changed(BytesView key) {
  if (const auto old = aside_.find(key); old != aside_.end()) {
    taken_ = std::move(old->second);
    aside_.erase(old);
    return Found{taken_.value, taken_.checksum};
  }
  Block& block = block_of(key)->second;
  const auto position = block.find(key);
  // A row without the mark of that round came after it: then there was none when it ended.
  if (!position.exact || block.mark_at(position.index) == Mark::clean ||
      block.mark_at(position.index) == round_)
    return std::nullopt;
  block.set_mark(position.index, Mark::clean);
  return Found{block.value_at(position.index), block.checksum_at(position.index)};
}

void Table::mark_dirty(BytesView key) {
  Block& block = block_of(key)->second;
  const auto position = block.find(key);
  if (position.exact)
    note_change(block, position.index, key);
  else
    dirty_.add(key);
}

std::size_t Table::block_bytes() const {
  std::size_t out = 0;
  for (const auto& [bound, block] : blocks_) out += block.allocated_bytes();
  return out;
}

}  // namespace queen::store::detail

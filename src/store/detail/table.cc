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

std::optional<Table::Found> Table::find(BytesView key) const {
  const Block& block = blocks_.block(blocks_.find(key));
  const auto position = block.find(key);
  if (!position.exact) return std::nullopt;
  return Found{block.value_at(position.index), block.checksum_at(position.index)};
}

void Table::put(BytesView key, BytesView value, std::uint64_t checksum, Dirty dirty) {
  Place at = blocks_.find(key);
  Block* block = &blocks_.block(at);
  auto position = block->find(key);
  if (position.exact) {
    if (dirty == Dirty::yes) note_change(*block, position.index, key);
    block->replace(position.index, value, checksum);
    if (block->crowded()) split(at, block->count() / 2);
    return;
  }
  if (block->bytes_with(key, value) > kBlockBytes) {
    at = make_place(at, key, value);
    block = &blocks_.block(at);
    position = block->find(key);
  }
  block->insert(position.index, key, value, checksum, dirty == Dirty::yes ? round_ : Mark::clean);
  if (dirty == Dirty::yes) dirty_.add(key);
  ++rows_;
}

// Rows often arrive in key order, over the whole table or inside a range of it: then the full block stays
// full and the new row begins the next one.
Table::Place Table::make_place(Place at, BytesView key, BytesView value) {
  for (;;) {
    const Block& block = blocks_.block(at);
    if (block.count() == 0 || block.bytes_with(key, value) <= kBlockBytes) return at;
    const std::size_t index = block.find(key).index;
    if (index == block.count()) return block_behind(at, key);
    if (index == 0) return block_before(at, key);
    at = split(at, block.ascends_at(index) ? index : block.count() / 2);
    if (key < blocks_.bound(at)) blocks_.previous(at);
  }
}

Table::Place Table::block_behind(Place at, BytesView key) {
  const Block& block = blocks_.block(at);
  Bytes last;
  block.key_at(block.count() - 1, last);
  return blocks_.insert_behind(at, separator(last, key), Block());
}

Table::Place Table::block_before(Place at, BytesView key) {
  Block all = std::move(blocks_.block(at));
  blocks_.block(at) = Block();
  Bytes first;
  all.key_at(0, first);
  at = blocks_.insert_behind(at, separator(key, first), std::move(all));
  blocks_.previous(at);
  return at;
}

Table::Place Table::split(Place at, std::size_t index) {
  Block& left = blocks_.block(at);
  Block right = left.split(index);
  Bytes last;
  Bytes first;
  left.key_at(left.count() - 1, last);
  right.key_at(0, first);
  return blocks_.insert_behind(at, separator(last, first), std::move(right));
}

void Table::append(const NewRow& row) {
  Place at = blocks_.last();
  INVARIANT(blocks_.block(at).ends_below(row.key), "rows are loaded out of order");
  if (blocks_.block(at).count() != 0 && blocks_.block(at).bytes_with(row.key, row.value) > kBlockBytes) {
    blocks_.block(at).fit();
    at = block_behind(at, row.key);
  }
  Block& block = blocks_.block(at);
  block.insert(block.count(), row.key, row.value, row.checksum, Mark::clean);
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
  const Place at = blocks_.find(key);
  Block& block = blocks_.block(at);
  const auto position = block.find(key);
  if (!position.exact) return false;
  note_change(block, position.index, key);
  block.erase(position.index);
  --rows_;
  shrink(at);
  return true;
}

void Table::shrink(Place at) {
  Block& block = blocks_.block(at);
  if (block.count() == 0 && at != BlockIndex::first()) {
    blocks_.erase(at);
    return;
  }
  if (block.bytes() >= kSparseBytes) return;
  Place behind = at;
  if (!blocks_.next(behind)) return;
  Block& next = blocks_.block(behind);
  const std::size_t shared = block.count() == 0 ? kKeyBytesMax : block.shared_with(next);
  if (block.bytes_with_prefix(shared) + next.bytes_with_prefix(shared) > kJoinedBytesMax) return;
  block.absorb(std::move(next));
  blocks_.erase(behind);
}

void Table::scan_rows(BytesView prefix, BytesView from, const VisitRow& visit) const {
  const BytesView start = std::max(prefix, from);
  Place at = blocks_.find(start);
  std::size_t index = blocks_.block(at).find(start).index;
  Bytes key;
  do {
    const Block& block = blocks_.block(at);
    for (; index < block.count(); ++index) {
      block.key_at(index, key);
      if (!key.starts_with(prefix) || !visit(key, {block.value_at(index), block.checksum_at(index)})) return;
    }
    index = 0;
  } while (blocks_.next(at));
}

void Table::scan(BytesView prefix, BytesView from, const View::Visit& visit) const {
  scan_rows(prefix, from, [&visit](BytesView key, const Found& row) { return visit(key, row.value); });
}

std::optional<View::Row> Table::last_at_or_below(BytesView prefix, BytesView to) const {
  if (to < prefix) return std::nullopt;
  // `to` beyond the prefix's range stands for the end of that range.
  const std::optional<Bytes> end = to.starts_with(prefix) ? std::nullopt : above_prefix(prefix);
  const BytesView bound = end ? BytesView(*end) : to;
  Place at = blocks_.find(bound);
  const auto position = blocks_.block(at).find(bound);
  std::size_t above = position.index + (position.exact && !end ? 1 : 0);
  while (above == 0) {
    if (!blocks_.previous(at)) return std::nullopt;
    above = blocks_.block(at).count();
  }
  const Block& block = blocks_.block(at);
  View::Row row;
  block.key_at(above - 1, row.key);
  if (!row.key.starts_with(prefix)) return std::nullopt;
  row.value = Bytes(block.value_at(above - 1));
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
  Block& block = blocks_.block(blocks_.find(key));
  const auto position = block.find(key);
  // A row without the mark of that round came after it: then there was none when it ended.
  if (!position.exact || block.mark_at(position.index) == Mark::clean ||
      block.mark_at(position.index) == round_)
    return std::nullopt;
  block.set_mark(position.index, Mark::clean);
  return Found{block.value_at(position.index), block.checksum_at(position.index)};
}

void Table::mark_dirty(BytesView key) {
  Block& block = blocks_.block(blocks_.find(key));
  const auto position = block.find(key);
  if (position.exact)
    note_change(block, position.index, key);
  else
    dirty_.add(key);
}

std::size_t Table::block_bytes() const {
  std::size_t out = 0;
  Place at = BlockIndex::first();
  do out += blocks_.block(at).allocated_bytes();
  while (blocks_.next(at));
  return out;
}

}  // namespace queen::store::detail

#include "store/detail/block_index.h"

#include <algorithm>
#include <utility>

#include "base/invariant.h"
#include "store/detail/key_order.h"

namespace queen::store::detail {

// Keys that differ behind these eight bytes, or in whether they end there, have the same head: then the keys
// themselves decide.
std::uint64_t BlockIndex::Heads::head_of(BytesView key) const {
  std::uint64_t out = 0;
  const BytesView rest = key.substr(std::min(key.size(), prefix.size()), sizeof out);
  for (std::size_t i = 0; i < sizeof out; ++i)
    out = out << 8 | (i < rest.size() ? static_cast<std::uint8_t>(rest[i]) : 0U);
  return out;
}

template <class KeyAt>
std::size_t BlockIndex::Heads::find(BytesView key, std::size_t count, const KeyAt& key_at) const {
  if (count == 1) return 0;
  const int side = key.substr(0, prefix.size()).compare(prefix);
  if (side != 0) return side < 0 ? 0 : count - 1;
  const std::uint64_t head = head_of(key);
  const auto begin = heads.begin() + 1;
  auto from = std::lower_bound(begin, heads.end(), head);
  const auto to = std::upper_bound(from, heads.end(), head);
  auto low = static_cast<std::size_t>(from - heads.begin());
  auto high = static_cast<std::size_t>(to - heads.begin());
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (key_at(middle) <= key)
      low = middle + 1;
    else
      high = middle;
  }
  return low - 1;
}

template <class KeyAt>
void BlockIndex::Heads::rebuild(std::size_t count, const KeyAt& key_at) {
  prefix.clear();
  // What the outermost share is shared by all between.
  if (count > 1) prefix = key_at(1).substr(0, common_prefix(key_at(1), key_at(count - 1)));
  heads.assign(count, 0);
  for (std::size_t i = 1; i < count; ++i) heads[i] = head_of(key_at(i));
}

BlockIndex::BlockIndex() {
  auto run = std::make_unique<Run>();
  run->bounds.emplace_back();
  run->blocks.emplace_back();
  rebuild(*run);
  runs_.push_back(std::move(run));
  rebuild_top();
}

BlockIndex::Place BlockIndex::find(BytesView key) const {
  const std::size_t run =
      top_.find(key, runs_.size(), [&](std::size_t i) { return BytesView(runs_[i]->bounds.front()); });
  const Run& found = *runs_[run];
  return {run, found.order.find(key, found.bounds.size(),
                                [&](std::size_t i) { return BytesView(found.bounds[i]); })};
}

bool BlockIndex::next(Place& place) const {
  if (place.at + 1 < runs_[place.run]->blocks.size()) {
    ++place.at;
    return true;
  }
  if (place.run + 1 == runs_.size()) return false;
  place = {place.run + 1, 0};
  return true;
}

bool BlockIndex::previous(Place& place) const {
  if (place.at > 0) {
    --place.at;
    return true;
  }
  if (place.run == 0) return false;
  place = {place.run - 1, runs_[place.run - 1]->blocks.size() - 1};
  return true;
}

BlockIndex::Place BlockIndex::insert_behind(Place place, Bytes bound, Block block) {
  if (runs_[place.run]->blocks.size() == kRunMax) {
    halve(place.run);
    const std::size_t left = runs_[place.run]->blocks.size();
    if (place.at >= left) place = {place.run + 1, place.at - left};
  }
  Run& run = *runs_[place.run];
  ++place.at;
  run.blocks.insert(run.blocks.begin() + static_cast<std::ptrdiff_t>(place.at), std::move(block));
  insert_bound(run, place.at, std::move(bound));
  ++size_;
  return place;
}

void BlockIndex::insert_bound(Run& run, std::size_t at, Bytes bound) {
  INVARIANT(at > 0 && bound > run.bounds[at - 1], "a block's bound is out of order");
  const bool fits = run.bounds.size() > 1 && bound.starts_with(run.order.prefix);
  const std::uint64_t head = run.order.head_of(bound);
  run.bounds.insert(run.bounds.begin() + static_cast<std::ptrdiff_t>(at), std::move(bound));
  if (!fits) return rebuild(run);
  run.order.heads.insert(run.order.heads.begin() + static_cast<std::ptrdiff_t>(at), head);
}

void BlockIndex::halve(std::size_t at) {
  Run& run = *runs_[at];
  auto right = std::make_unique<Run>();
  const auto middle = static_cast<std::ptrdiff_t>(run.blocks.size() / 2);
  right->bounds.assign(std::make_move_iterator(run.bounds.begin() + middle),
                       std::make_move_iterator(run.bounds.end()));
  right->blocks.assign(std::make_move_iterator(run.blocks.begin() + middle),
                       std::make_move_iterator(run.blocks.end()));
  run.bounds.resize(static_cast<std::size_t>(middle));
  run.blocks.resize(static_cast<std::size_t>(middle));
  rebuild(run);
  rebuild(*right);
  runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(right));
  rebuild_top();
}

void BlockIndex::erase(Place place) {
  INVARIANT(place != first(), "the first block of a table stays");
  Run& run = *runs_[place.run];
  const auto at = static_cast<std::ptrdiff_t>(place.at);
  run.blocks.erase(run.blocks.begin() + at);
  run.bounds.erase(run.bounds.begin() + at);
  --size_;
  if (run.blocks.empty()) {
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(place.run));
    return rebuild_top();
  }
  if (place.at > 0) {
    run.order.heads.erase(run.order.heads.begin() + at);
    return;
  }
  // Another key is the first now, and the first is not compared.
  rebuild(run);
  rebuild_top();
}

void BlockIndex::rebuild(Run& run) {
  run.order.rebuild(run.bounds.size(), [&](std::size_t i) { return BytesView(run.bounds[i]); });
}

void BlockIndex::rebuild_top() {
  top_.rebuild(runs_.size(), [&](std::size_t i) { return BytesView(runs_[i]->bounds.front()); });
}

}  // namespace queen::store::detail

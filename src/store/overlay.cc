#include "store/overlay.h"

#include <algorithm>

#include "base/invariant.h"
#include "store/detail/key_order.h"

namespace queen::store {

std::optional<Bytes> Overlay::get(Keyspace keyspace, BytesView key) const {
  const Changes& changes = of(keyspace);
  const auto found = changes.find(key);
  return found == changes.end() ? base_.get(keyspace, key) : found->second.value;
}

void Overlay::put(Keyspace keyspace, BytesView key, BytesView value) {
  change(keyspace, key, Bytes(value));
}

bool Overlay::erase(Keyspace keyspace, BytesView key) {
  // With no row here and none in the base there is nothing to hide: no entry in flight can still bring one.
  if (!get(keyspace, key)) return false;
  change(keyspace, key, std::nullopt);
  return true;
}

void Overlay::change(Keyspace keyspace, BytesView key, std::optional<Bytes> value) {
  Changes& changes = of(keyspace);
  auto found = changes.find(key);
  const bool fresh = found == changes.end();
  if (fresh) found = changes.try_emplace(Bytes(key)).first;
  Change& row = found->second;
  if (fresh || row.epoch != epoch_) made_.push_back({epoch_, keyspace, Bytes(key)});
  row.value = std::move(value);
  row.epoch = epoch_;
}

// Merges two ordered runs: changes up to and at a base key go first, and a change of the same key replaces
// the row.
void Overlay::scan(Keyspace keyspace, BytesView prefix, BytesView from, const Visit& visit) const {
  const Changes& changes = of(keyspace);
  auto next = changes.lower_bound(std::max(prefix, from));
  bool go_on = true;
  const auto visit_changes_below = [&](const BytesView* bound) {
    for (; go_on && next != changes.end() && next->first.starts_with(prefix); ++next) {
      if (bound != nullptr && next->first >= *bound) return;
      if (next->second.value) go_on = visit(next->first, *next->second.value);
    }
  };
  base_.scan(keyspace, prefix, from, [&](BytesView key, BytesView value) {
    visit_changes_below(&key);
    if (!go_on) return false;
    if (next == changes.end() || next->first != key) return go_on = visit(key, value);
    if (next->second.value) go_on = visit(key, *next->second.value);
    ++next;
    return go_on;
  });
  visit_changes_below(nullptr);
}

std::optional<View::Row> Overlay::last_at_or_below(Keyspace keyspace, BytesView prefix, BytesView to) const {
  const Changes& changes = of(keyspace);
  if (to < prefix) return std::nullopt;
  // A `to` beyond the prefix's range stands for the end of that range.
  const std::optional<Bytes> end = to.starts_with(prefix) ? std::nullopt : detail::above_prefix(prefix);
  auto at = end ? changes.lower_bound(*end) : changes.upper_bound(to);
  const auto first = changes.lower_bound(prefix);
  std::optional<Row> planned;
  while (at != first && !planned) {
    --at;
    if (at->second.value) planned = Row{at->first, *at->second.value};
  }
  // The last base row that is not shadowed; each step back is below the shadowed row before.
  std::optional<Row> base = base_.last_at_or_below(keyspace, prefix, to);
  while (base && changes.contains(base->key)) {
    if (planned && planned->key >= base->key) return planned;
    base = base_.last_at_or_below(keyspace, prefix, detail::key_below(base->key));
  }
  if (!base || (planned && planned->key > base->key)) return planned;
  return base;
}

void Overlay::set_epoch(std::uint64_t epoch) {
  INVARIANT(epoch >= epoch_ || made_.empty(), "overlay epoch back from {} to {}", epoch_, epoch);
  epoch_ = epoch;
}

void Overlay::prune(std::uint64_t applied) {
  while (!made_.empty() && made_.front().epoch <= applied) {
    const Made& made = made_.front();
    Changes& changes = of(made.keyspace);
    const auto found = changes.find(made.key);
    if (found != changes.end() && found->second.epoch <= applied) changes.erase(found);
    made_.pop_front();
  }
}

void Overlay::clear() {
  for (Changes& changes : changes_) changes.clear();
  made_.clear();
}

std::size_t Overlay::changes() const {
  std::size_t out = 0;
  for (const Changes& changes : changes_) out += changes.size();
  return out;
}

}  // namespace queen::store

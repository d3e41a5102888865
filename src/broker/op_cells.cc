#include "broker/op_cells.h"

#include <mutex>

#include "base/hash.h"

namespace queen::broker {

void OpCells::add(const LagSum& lag) {
  if (lag.count == 0) return;
  lag_count_.fetch_add(lag.count, std::memory_order_relaxed);
  lag_sum_.fetch_add(lag.sum_us, std::memory_order_relaxed);
  std::uint64_t seen = lag_max_.load(std::memory_order_relaxed);
  while (seen < lag.max_us && !lag_max_.compare_exchange_weak(seen, lag.max_us, std::memory_order_relaxed)) {
  }
}

OpCounts OpCells::read() const {
  OpCounts out;
  for (std::size_t i = 0; i < kOps; ++i) out.counts[i] = counts_[i].load(std::memory_order_relaxed);
  out.lag = {lag_count_.load(std::memory_order_relaxed), lag_sum_.load(std::memory_order_relaxed),
             lag_max_.load(std::memory_order_relaxed)};
  return out;
}

OpCounts OpCells::take() {
  OpCounts out;
  for (std::size_t i = 0; i < kOps; ++i) out.counts[i] = counts_[i].exchange(0, std::memory_order_relaxed);
  out.lag = {lag_count_.exchange(0, std::memory_order_relaxed),
             lag_sum_.exchange(0, std::memory_order_relaxed),
             lag_max_.exchange(0, std::memory_order_relaxed)};
  return out;
}

std::size_t QueueCells::Hash::operator()(const NameView& name) const {
  return xxh3_64(name.queue) ^ (xxh3_64(name.tenant) << 1);
}

OpCellsPtr QueueCells::of(std::string_view tenant, std::string_view queue) {
  const NameView name{tenant, queue};
  Shard& shard = shards_[Hash{}(name) % kShards];
  {
    const std::shared_lock lock(shard.mutex);
    const auto found = shard.cells.find(name);
    if (found != shard.cells.end()) return found->second;
  }
  const std::unique_lock lock(shard.mutex);
  const auto found = shard.cells.find(name);
  if (found != shard.cells.end()) return found->second;
  if (shard.cells.size() >= kQueuesMax / kShards) return nullptr;
  auto made = std::make_shared<OpCells>();
  shard.cells.emplace(Name{std::string(tenant), std::string(queue)}, made);
  return made;
}

std::vector<QueueOpsRow> QueueCells::take() {
  std::vector<QueueOpsRow> out;
  for (Shard& shard : shards_) {
    const std::unique_lock lock(shard.mutex);
    for (auto at = shard.cells.begin(); at != shard.cells.end();) {
      // Nobody can take hold of the cells while the lock is held: what is counted later is not lost.
      const bool in_use = at->second.use_count() > 1;
      OpCounts ops = at->second->take();
      const bool told = !ops.empty();
      if (told) out.push_back({0, at->first.tenant, at->first.queue, ops, 0});
      at = told || in_use ? std::next(at) : shard.cells.erase(at);
    }
  }
  return out;
}

std::vector<QueueOpsRow> QueueCells::read() const {
  std::vector<QueueOpsRow> out;
  for (const Shard& shard : shards_) {
    const std::shared_lock lock(shard.mutex);
    for (const auto& [name, cells] : shard.cells) {
      OpCounts ops = cells->read();
      if (!ops.empty()) out.push_back({0, name.tenant, name.queue, ops, 0});
    }
  }
  return out;
}

}  // namespace queen::broker

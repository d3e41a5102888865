// The counters that calls raise as they are answered: one set for the node, one for each queue in use.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "broker/meter.h"

namespace queen::broker {

// Any thread; no order between counters is promised.
class OpCells {
 public:
  void add(Op op, std::uint64_t n) {
    if (n != 0) counts_[static_cast<std::size_t>(op)].fetch_add(n, std::memory_order_relaxed);
  }
  void add(const LagSum& lag);
  OpCounts read() const;
  // What came since the last take().
  OpCounts take();

 private:
  std::array<std::atomic<std::uint64_t>, kOps> counts_{};
  std::atomic<std::uint64_t> lag_count_{0}, lag_sum_{0}, lag_max_{0};
};
using OpCellsPtr = std::shared_ptr<OpCells>;  // held by calls on their way and by the table

// Thread-safe: a shared lock for a queue that is known.
class QueueCells {
 public:
  static constexpr std::size_t kQueuesMax = 100'000;  // beyond it new ones are counted for the node alone

  // Null when there is no room.
  OpCellsPtr of(std::string_view tenant, std::string_view queue);
  // Of every queue with something to tell since the last take(). Queues that nobody uses leave the table.
  std::vector<QueueOpsRow> take();
  std::vector<QueueOpsRow> read() const;

 private:
  struct Name {
    std::string tenant, queue;
  };
  struct NameView {
    std::string_view tenant, queue;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const NameView& name) const;
    std::size_t operator()(const Name& name) const { return (*this)(NameView{name.tenant, name.queue}); }
  };
  struct Equal {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return a.queue == b.queue && a.tenant == b.tenant;
    }
  };
  struct Shard {
    mutable std::shared_mutex mutex;  // guards the table; the cells guard themselves
    std::unordered_map<Name, OpCellsPtr, Hash, Equal> cells;
  };
  static constexpr std::size_t kShards = 16;
  std::array<Shard, kShards> shards_;
};

// Both sets of a call.
struct Tally {
  OpCells* node = nullptr;
  OpCellsPtr queue;
  void add(Op op, std::uint64_t n) const {
    node->add(op, n);
    if (queue) queue->add(op, n);
  }
  void add(const LagSum& lag) const {
    node->add(lag);
    if (queue) queue->add(lag);
  }
};

}  // namespace queen::broker

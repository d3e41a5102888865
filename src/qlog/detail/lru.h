// Bounded caches of what is open or loaded per record file.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"

namespace queen::qlog::detail {

// The bytes of a file: a rewrite keeps the name and the id, and whoever found a position in the old bytes
// must not be given the new ones.
struct FileKey {
  LogId log;
  std::uint32_t file_id = 0;
  std::uint32_t generation = 0;
  bool operator==(const FileKey&) const = default;
};
struct FileKeyHash {
  std::size_t operator()(const FileKey& key) const noexcept {
    return key.log.value * 0x9E37'79B9'7F4A'7C15ULL + (std::uint64_t{key.generation} << 32) + key.file_id;
  }
};

// Least recently used goes first once the sum of costs is above the limit. Values are shared: one that was
// thrown out lives on while somebody uses it. Thread-safe; the lock is never held across I/O.
template <class Value>
class LruCache {
 public:
  explicit LruCache(std::uint64_t cost_max) : cost_max_(cost_max) {}

  std::shared_ptr<Value> find(const FileKey& key) {
    const std::lock_guard held(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->value;
  }

  // Keeps the value that is there already when two callers loaded the same one.
  std::shared_ptr<Value> insert(const FileKey& key, std::shared_ptr<Value> value, std::uint64_t cost) {
    std::list<Item> dropped;  // destroyed after the lock is released: closing a file may block
    const std::lock_guard held(mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) return found->second->value;
    if (cost > cost_max_) return value;
    order_.push_front({key, value, cost});
    by_key_.emplace(key, order_.begin());
    cost_ += cost;
    while (cost_ > cost_max_) drop(std::prev(order_.end()), dropped);
    return value;
  }

  void erase(const FileKey& key) {
    std::list<Item> dropped;
    const std::lock_guard held(mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) drop(found->second, dropped);
  }

  // All values as of now.
  std::vector<std::shared_ptr<Value>> values() const {
    std::vector<std::shared_ptr<Value>> out;
    const std::lock_guard held(mutex_);
    out.reserve(order_.size());
    for (const Item& item : order_) out.push_back(item.value);
    return out;
  }

  std::uint64_t cost() const {
    const std::lock_guard held(mutex_);
    return cost_;
  }

  void clear() {
    std::list<Item> dropped;
    const std::lock_guard held(mutex_);
    by_key_.clear();
    cost_ = 0;
    dropped.swap(order_);
  }

 private:
  struct Item {
    FileKey key;
    std::shared_ptr<Value> value;
    std::uint64_t cost;
  };
  void drop(typename std::list<Item>::iterator item, std::list<Item>& dropped) {
    cost_ -= item->cost;
    by_key_.erase(item->key);
    dropped.splice(dropped.end(), order_, item);
  }

  mutable std::mutex mutex_;  // guards everything below
  std::list<Item> order_;
  std::unordered_map<FileKey, typename std::list<Item>::iterator, FileKeyHash> by_key_;
  std::uint64_t cost_ = 0;
  const std::uint64_t cost_max_;
};

}  // namespace queen::qlog::detail

// Readers that wait for the next append to a queue (long-poll fetch, api-messaging.md O-3).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "broker/pop_waiters.h"

namespace queen::broker {

// Thread-safe.
class AppendWaits {
 public:
  std::uint64_t add(const std::string& tenant, std::vector<std::string> queues, UniqueFunction<void()> wake) {
    std::lock_guard lock(mutex_);
    const std::uint64_t id = next_++;
    for (const auto& queue : queues) by_queue_[{tenant, queue}].insert(id);
    waits_.emplace(id, Wait{tenant, std::move(queues), std::move(wake)});
    return id;
  }
  void cancel(std::uint64_t id) {
    std::lock_guard lock(mutex_);
    take(id);
  }
  // All of them, for good.
  std::vector<UniqueFunction<void()>> wake_all() {
    std::vector<UniqueFunction<void()>> out;
    std::lock_guard lock(mutex_);
    for (auto& [id, wait] : waits_) out.push_back(std::move(wait.wake));
    waits_.clear();
    by_queue_.clear();
    return out;
  }
  // The functions to call, outside the lock.
  std::vector<UniqueFunction<void()>> wake(const QueueName& name) {
    std::vector<UniqueFunction<void()>> out;
    std::lock_guard lock(mutex_);
    const auto found = by_queue_.find(name);
    if (found == by_queue_.end()) return out;
    const auto ids = found->second;
    for (const std::uint64_t id : ids) out.push_back(take(id));
    return out;
  }

 private:
  struct Wait {
    std::string tenant;
    std::vector<std::string> queues;
    UniqueFunction<void()> wake;
  };
  UniqueFunction<void()> take(std::uint64_t id) {
    const auto found = waits_.find(id);
    if (found == waits_.end()) return nullptr;
    Wait wait = std::move(found->second);
    waits_.erase(found);
    for (const auto& queue : wait.queues) {
      const auto ids = by_queue_.find({wait.tenant, queue});
      if (ids == by_queue_.end()) continue;
      ids->second.erase(id);
      if (ids->second.empty()) by_queue_.erase(ids);
    }
    return std::move(wait.wake);
  }

  std::mutex mutex_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Wait> waits_;
  std::map<QueueName, std::set<std::uint64_t>> by_queue_;
};

}  // namespace queen::broker

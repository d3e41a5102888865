#include "broker/pop_waiters.h"

#include <algorithm>

namespace queen::broker {

void PopWaiters::enter(const PopPtr& pop) {
  std::lock_guard lock(mutex_);
  ++queues_[pop->name].pops;
  by_id_[pop->id] = pop;
}

void PopWaiters::leave(const PopPtr& pop) {
  std::lock_guard lock(mutex_);
  by_id_.erase(pop->id);
  const auto found = queues_.find(pop->name);
  if (found != queues_.end() && --found->second.pops == 0) queues_.erase(found);
}

std::uint64_t PopWaiters::wakes(const QueueName& name) const {
  std::lock_guard lock(mutex_);
  const auto found = queues_.find(name);
  return found == queues_.end() ? 0 : found->second.wakes;
}

PopWaiters::Park PopWaiters::park(const PopPtr& pop, std::uint64_t wakes_before, std::uint64_t& turn) {
  std::lock_guard lock(mutex_);
  if (released_ || pop->cancelled) return Park::over;
  Queue& queue = queues_[pop->name];
  if (queue.wakes != wakes_before) return Park::try_again;
  pop->parked = true;
  turn = pop->turn;
  (pop->pinned ? queue.pinned : queue.groups[pop->group]).push_back(pop);
  return Park::parked;
}

bool PopWaiters::unpark(const PopPtr& pop, std::uint64_t turn) {
  std::lock_guard lock(mutex_);
  if (!pop->parked || pop->turn != turn) return false;
  remove(pop);
  return true;
}

// With the lock held.
void PopWaiters::remove(const PopPtr& pop) {
  pop->parked = false;
  ++pop->turn;
  const auto found = queues_.find(pop->name);
  if (found == queues_.end()) return;
  auto& list = pop->pinned ? found->second.pinned : found->second.groups[pop->group];
  std::erase(list, pop);
  if (!pop->pinned && list.empty()) found->second.groups.erase(pop->group);
}

void PopWaiters::take(std::deque<PopPtr>& from, std::size_t count, std::vector<PopPtr>& to) {
  for (; count > 0 && !from.empty(); --count) {
    from.front()->parked = false;
    ++from.front()->turn;
    to.push_back(std::move(from.front()));
    from.pop_front();
  }
}

std::vector<PopPtr> PopWaiters::wake(const QueueName& name) {
  std::vector<PopPtr> woken;
  std::lock_guard lock(mutex_);
  const auto found = queues_.find(name);
  if (found == queues_.end()) return woken;
  Queue& queue = found->second;
  ++queue.wakes;
  for (auto& [group, pops] : queue.groups) take(pops, kWokenMax, woken);
  std::erase_if(queue.groups, [](const auto& item) { return item.second.empty(); });
  take(queue.pinned, queue.pinned.size(), woken);
  return woken;
}

std::vector<PopPtr> PopWaiters::wake_next(const QueueName& name, const std::string& group) {
  std::vector<PopPtr> woken;
  std::lock_guard lock(mutex_);
  const auto queue = queues_.find(name);
  if (queue == queues_.end()) return woken;
  const auto found = queue->second.groups.find(group);
  if (found == queue->second.groups.end()) return woken;
  take(found->second, 1, woken);
  if (found->second.empty()) queue->second.groups.erase(found);
  return woken;
}

bool PopWaiters::anyone_parked(const QueueName& name) const {
  std::lock_guard lock(mutex_);
  const auto queue = queues_.find(name);
  return queue != queues_.end() && (!queue->second.groups.empty() || !queue->second.pinned.empty());
}

std::vector<ParkedPops> PopWaiters::parked() const {
  std::vector<ParkedPops> out;
  std::lock_guard lock(mutex_);
  for (const auto& [name, queue] : queues_) {
    std::size_t count = queue.pinned.size();
    for (const auto& [group, pops] : queue.groups) count += pops.size();
    if (count > 0) out.push_back({name.tenant, name.queue, count});
  }
  return out;
}

std::size_t PopWaiters::waiting() const {
  std::lock_guard lock(mutex_);
  return by_id_.size();
}

bool PopWaiters::arm_wake(const QueueName& name, std::int64_t mono_us) {
  std::lock_guard lock(mutex_);
  const auto queue = queues_.find(name);
  return queue != queues_.end() && queue->second.armed.insert(mono_us).second;
}

void PopWaiters::disarm_wake(const QueueName& name, std::int64_t mono_us) {
  std::lock_guard lock(mutex_);
  const auto queue = queues_.find(name);
  if (queue != queues_.end()) queue->second.armed.erase(mono_us);
}

PopPtr PopWaiters::cancel(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  PopPtr pop = found->second;
  pop->cancelled = true;
  if (!pop->parked) return nullptr;
  remove(pop);
  return pop;
}

bool PopWaiters::cancelled(const PopPtr& pop) const {
  std::lock_guard lock(mutex_);
  return pop->cancelled;
}

std::vector<PopPtr> PopWaiters::release_all() {
  std::vector<PopPtr> out;
  std::lock_guard lock(mutex_);
  released_ = true;
  for (auto& [name, queue] : queues_) {
    for (auto& [group, pops] : queue.groups) take(pops, pops.size(), out);
    queue.groups.clear();
    take(queue.pinned, queue.pinned.size(), out);
  }
  return out;
}

}  // namespace queen::broker

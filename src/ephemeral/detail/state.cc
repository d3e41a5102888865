#include "ephemeral/detail/state.h"

namespace queen::ephemeral {

using detail::Cursor;
using detail::LeaseSet;
using detail::Ring;
using detail::Stored;

namespace {

// What stands around a payload, a queue, a partition and a cursor: their nodes, rounded up.
constexpr std::int64_t kMessageBytes = 160;
constexpr std::int64_t kQueueBytes = 1024;
constexpr std::int64_t kRingBytes = 1024;
constexpr std::int64_t kCursorBytes = 256;

std::int64_t cost_of(std::size_t payload_bytes) {
  return static_cast<std::int64_t>(payload_bytes) + kMessageBytes;
}
std::int64_t seconds(std::int64_t count) {
  return count * 1'000'000;
}

}  // namespace

Engine::State::Queue* Engine::State::find(const QueueName& name) {
  const auto at = queues.find(key_of(name.tenant, name.queue));
  return at == queues.end() ? nullptr : at->second.get();
}

tl::expected<Engine::State::Queue*, Refused> Engine::State::find_or_make(std::unique_lock<std::mutex>& lock,
                                                                         const QueueName& name,
                                                                         const TenantMax& max) {
  while (true) {
    if (Queue* known = find(name)) return known;
    if (held >= settings.node_bytes_max) return tl::unexpected(Refused::node_full);
    const auto tenant = tenants.find(name.tenant);
    if (max.queues > 0 && tenant != tenants.end() && tenant->second.queues >= max.queues)
      return tl::unexpected(Refused::tenant_full);
    const std::uint64_t seen = declarations;
    lock.unlock();
    const auto declared = lookup(name);
    lock.lock();
    if (seen == declarations && find(name) == nullptr) return &make(name, declared);
  }
}

Engine::State::Queue& Engine::State::make(const QueueName& name, const std::optional<Declaration>& declared) {
  auto made = std::make_unique<Queue>();
  Queue& queue = *made;
  queue.name = name;
  queue.declared = declared.has_value();
  queue.options = effective(declared, settings);
  queue.used_at = now();
  ++tenants[name.tenant].queues;
  std::string key = key_of(name.tenant, name.queue);
  hold(queue, kQueueBytes + 2 * static_cast<std::int64_t>(key.size()));
  queues.emplace(std::move(key), std::move(made));
  reschedule(queue);
  return queue;
}

void Engine::State::erase(Queue& queue) {
  while (!queue.waiting.empty()) {
    auto& group = queue.waiting.begin()->second;
    auto& list = group.everywhere.empty() ? group.pinned.begin()->second : group.everywhere;
    answer(places.at(list.front().ticket), {});
    prune(queue);
  }
  const auto tenant = tenants.find(queue.name.tenant);
  tenant->second.bytes -= queue.bytes;
  if (--tenant->second.queues == 0) tenants.erase(tenant);
  held -= queue.held;
  if (queue.due_at) due.erase({*queue.due_at, &queue});
  queues.erase(key_of(queue.name.tenant, queue.name.queue));
}

void Engine::State::hold(Queue& queue, std::int64_t bytes) {
  queue.held += bytes;
  held += bytes;
}

Ring& Engine::State::ring_of(Queue& queue, std::string_view partition) {
  const auto at = queue.rings.find(partition);
  if (at != queue.rings.end()) return *at->second;
  auto made = std::make_unique<Ring>(std::string(partition), random.next(), queue.leases);
  Ring& ring = *made;
  queue.rings.emplace(partition, std::move(made));
  hold(queue, kRingBytes + 2 * static_cast<std::int64_t>(partition.size()));
  queue.spare_since[&ring] = now();
  queue.spare.emplace(now(), &ring);
  // A subscriber that waits must not miss the first message (EP-3).
  for (const auto& [group, everywhere] : queue.groups) cursor_of(queue, ring, group);
  return ring;
}

// Without a cursor in a partition that it reads, others could have a message freed that it has not passed.
void Engine::State::meet_group(Queue& queue, const PopRequest& request) {
  auto known = queue.groups.find(request.group);
  if (known == queue.groups.end() && queue.groups.size() < kGroupsMax)
    known = queue.groups.emplace(request.group, false).first;
  if (request.partition) {
    const auto at = queue.rings.find(*request.partition);
    if (at != queue.rings.end()) cursor_of(queue, *at->second, request.group);
    return;
  }
  if (known != queue.groups.end() && known->second) return;
  for (auto& [partition, ring] : queue.rings) cursor_of(queue, *ring, request.group);
  if (known != queue.groups.end()) known->second = true;
}

Cursor& Engine::State::cursor_of(Queue& queue, Ring& ring, std::string_view group) {
  if (Cursor* known = ring.find(group)) return *known;
  hold(queue, kCursorBytes + static_cast<std::int64_t>(group.size()));
  return ring.cursor(group);
}

void Engine::State::append(Queue& queue, Ring& ring, detail::Payload payload, std::int64_t now_us) {
  const auto bytes = static_cast<std::int64_t>(payload->size());
  if (ring.empty()) {
    queue.heads.emplace(order, &ring);
    const auto since = queue.spare_since.find(&ring);
    queue.spare.erase({since->second, &ring});
    queue.spare_since.erase(since);
  }
  hold(queue, cost_of(payload->size()));
  ring.append({std::move(payload), now_us, order++});
  queue.bytes += bytes;
  ++queue.length;
  tenants.at(queue.name.tenant).bytes += bytes;
}

void Engine::State::drop(Queue& queue, Ring& ring, bool skip) {
  queue.heads.erase({ring.front().order, &ring});
  const Stored gone = ring.drop_front(skip);
  const auto bytes = static_cast<std::int64_t>(gone.payload->size());
  hold(queue, -cost_of(gone.payload->size()));
  queue.bytes -= bytes;
  --queue.length;
  tenants.at(queue.name.tenant).bytes -= bytes;
  if (!ring.empty()) {
    queue.heads.emplace(ring.front().order, &ring);
    return;
  }
  queue.spare_since[&ring] = now();
  queue.spare.emplace(now(), &ring);
}

void Engine::State::free_passed(Queue& queue, Ring& ring) {
  while (ring.front_passed()) drop(queue, ring, false);
}

void Engine::State::count_retry_drop(Queue& queue) {
  ++queue.drops.retry;
  ++drops.retry;
}

void Engine::State::freshen(Queue& queue, std::int64_t now_us) {
  const std::int64_t ttl_us = seconds(queue.options.ttl_seconds);
  while (ttl_us > 0 && !queue.heads.empty()) {
    Ring& ring = *queue.heads.begin()->second;
    if (ring.front().at_us + ttl_us > now_us) break;
    drop(queue, ring, false);
    free_passed(queue, ring);  // what was settled behind it
    ++queue.drops.ttl;
    ++drops.ttl;
  }
  std::set<Ring*> changed;
  while (!queue.leases.empty()) {
    const auto [until, ring, cursor, seq] = *queue.leases.begin();
    if (until > now_us) break;
    if (!ring->expire(*cursor, seq, static_cast<std::uint32_t>(queue.options.retry_limit)))
      count_retry_drop(queue);
    changed.insert(ring);
  }
  for (Ring* ring : changed) {
    free_passed(queue, *ring);
    serve(queue, ring, now_us);
  }
}

bool Engine::State::is_idle(const Queue& queue, std::int64_t now_us) const {
  return !queue.declared && settings.idle_seconds > 0 && queue.length == 0 && queue.waiting.empty() &&
         queue.used_at + seconds(settings.idle_seconds) <= now_us;
}

// A partition that was empty for so long would only cost memory; a group starts at its head again.
void Engine::State::drop_spare(Queue& queue, std::int64_t now_us) {
  while (settings.idle_seconds > 0 && !queue.spare.empty()) {
    const auto [since, ring] = *queue.spare.begin();
    if (since + seconds(settings.idle_seconds) > now_us) return;
    std::int64_t bytes = kRingBytes + 2 * static_cast<std::int64_t>(ring->name().size());
    for (const auto& [group, cursor] : ring->cursors())
      bytes += kCursorBytes + static_cast<std::int64_t>(group.size());
    hold(queue, -bytes);
    queue.spare.erase(queue.spare.begin());
    queue.spare_since.erase(ring);
    queue.rings.erase(ring->name());
  }
}

void Engine::State::reschedule(Queue& queue) {
  std::optional<std::int64_t> at;
  const auto by = [&at](std::int64_t us) {
    if (!at || us < *at) at = us;
  };
  const std::int64_t idle_us = seconds(settings.idle_seconds);
  if (!queue.wakes.empty()) by(queue.wakes.begin()->first);
  if (!queue.leases.empty()) by(std::get<0>(*queue.leases.begin()));
  if (queue.options.ttl_seconds > 0 && !queue.heads.empty())
    by(queue.heads.begin()->second->front().at_us + seconds(queue.options.ttl_seconds));
  if (idle_us > 0 && !queue.spare.empty()) by(queue.spare.begin()->first + idle_us);
  if (idle_us > 0 && !queue.declared && queue.length == 0 && queue.waiting.empty())
    by(queue.used_at + idle_us);
  if (at == queue.due_at) return;
  if (queue.due_at) due.erase({*queue.due_at, &queue});
  queue.due_at = at;
  if (!at) return;
  due.emplace(*at, &queue);
  arm();
}

// One timer stands for the nearest; one that comes too early finds nothing to do and arms the next.
void Engine::State::arm() {
  if (due.empty()) return;
  const std::int64_t at = due.begin()->first;
  if (armed_at && *armed_at <= at) return;
  armed_at = at;
  executor.post_at(at, [weak = weak_from_this(), at] {
    const auto state = weak.lock();
    if (!state) return;
    Ready answers;
    {
      const std::scoped_lock lock(state->mutex);
      if (state->armed_at == at) state->armed_at.reset();
      state->run_due();
      answers = std::exchange(state->ready, {});
    }
    for (auto& one : answers) one();
  });
}

void Engine::State::run_due() {
  const std::int64_t now_us = now();
  while (!due.empty() && due.begin()->first <= now_us) {
    Queue& queue = *due.begin()->second;
    freshen(queue, now_us);
    wake(queue, now_us);
    drop_spare(queue, now_us);
    if (is_idle(queue, now_us)) {
      erase(queue);
      continue;
    }
    reschedule(queue);
  }
  arm();
}

}  // namespace queen::ephemeral

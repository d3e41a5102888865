// Pops: what they are given, and how they wait.
#include <algorithm>

#include "ephemeral/detail/state.h"
#include "ephemeral/message_id.h"

namespace queen::ephemeral {

using detail::Given;
using detail::GroupWaiters;
using detail::Waiter;
using detail::Waiters;

namespace {

// Calls `visit(ring)` for the partitions that the pop may be served from, by name, until it gives false.
template <class Visit>
void each_ring(detail::Queue& queue, const PopRequest& request, detail::Ring* only, const Visit& visit) {
  if (only != nullptr) {
    if (!request.partition || *request.partition == only->name()) visit(*only);
    return;
  }
  if (request.partition) {
    const auto at = queue.rings.find(*request.partition);
    if (at != queue.rings.end()) visit(*at->second);
    return;
  }
  for (auto& [name, ring] : queue.rings)
    if (!visit(*ring)) return;
}

}  // namespace

std::uint64_t Engine::State::available(Queue& queue, const PopRequest& request, Ring* only) {
  std::uint64_t out = 0;
  each_ring(queue, request, only, [&](Ring& ring) {
    out += ring.available(cursor_of(queue, ring, request.group));
    return out < request.batch;
  });
  return out;
}

std::vector<Message> Engine::State::take(Queue& queue, const PopRequest& request, std::int64_t now_us,
                                         Ring* only) {
  std::vector<Message> out;
  const std::int64_t until = request.commit ? 0 : now_us + queue.options.lease_seconds * 1'000'000;
  each_ring(queue, request, only, [&](Ring& ring) {
    std::vector<Given> given;
    ring.take(cursor_of(queue, ring, request.group), request.batch - out.size(), until, given);
    for (Given& one : given)
      out.push_back(
          {to_text({ring.epoch(), ring.name(), one.seq}), ring.name(), one.attempts, std::move(one.payload)});
    if (request.commit && !given.empty()) free_passed(queue, ring);
    return out.size() < request.batch;
  });
  return out;
}

void Engine::State::park(Queue& queue, PopRequest request, PopDone done, std::uint64_t ticket) {
  GroupWaiters& group = queue.waiting[request.group];
  Waiters& list = request.partition ? group.pinned[*request.partition] : group.everywhere;
  queue.wakes.emplace(*request.wait_until_us, ticket);
  list.push_back({ticket, std::move(request), std::move(done), std::nullopt});
  places[ticket] = {&queue, &list, std::prev(list.end())};
}

void Engine::State::unpark(const Place& place) {
  const Waiter& waiter = *place.at;
  Queue& queue = *place.queue;
  queue.wakes.erase({*waiter.request.wait_until_us, waiter.ticket});
  if (waiter.window_until) queue.wakes.erase({*waiter.window_until, waiter.ticket});
  const std::uint64_t ticket = waiter.ticket;
  place.list->erase(place.at);
  places.erase(ticket);
}

void Engine::State::answer(const Place& place, std::vector<Message> messages) {
  place.queue->used_at = now();
  ready.emplace_back([done = std::move(place.at->done), messages = std::move(messages)]() mutable {
    done(std::move(messages));
  });
  const Place copy = place;  // `place` may stand in the table that the next line changes
  unpark(copy);
}

// Lists that nobody waits in any more go.
void Engine::State::prune(Queue& queue) {
  for (auto group = queue.waiting.begin(); group != queue.waiting.end();) {
    std::erase_if(group->second.pinned, [](const auto& one) { return one.second.empty(); });
    group = group->second.empty() ? queue.waiting.erase(group) : std::next(group);
  }
}

// A window makes a waiting pop fatter: it goes when the batch or the window's count is there, or when the
// window of the first message that it could take is over.
bool Engine::State::try_serve(Queue& queue, Waiter& waiter, Ring* changed, std::int64_t now_us) {
  const PopRequest& request = waiter.request;
  const std::int64_t window_us = queue.options.window_ms * 1000;
  if (window_us > 0) {
    const std::uint64_t there = available(queue, request, nullptr);
    if (there == 0) return false;
    std::uint64_t enough = request.batch;
    if (queue.options.window_count > 0)
      enough = std::min<std::uint64_t>(enough, static_cast<std::uint64_t>(queue.options.window_count));
    if (there < enough && !waiter.window_until) {
      waiter.window_until = now_us + window_us;
      queue.wakes.emplace(*waiter.window_until, waiter.ticket);
    }
    if (there < enough && *waiter.window_until > now_us) return false;
    changed = nullptr;
  }
  auto messages = take(queue, request, now_us, changed);
  if (messages.empty()) return false;
  answer(places.at(waiter.ticket), std::move(messages));
  return true;
}

void Engine::State::serve_group(Queue& queue, GroupWaiters& group, Ring* changed, std::int64_t now_us) {
  // The one that waits longest of those that wait for everything, and of those that wait for a partition.
  const auto serve_pinned = [&](Waiters* pinned) {
    while (true) {
      Waiter* first = group.everywhere.empty() ? nullptr : &group.everywhere.front();
      Waiter* second = pinned == nullptr || pinned->empty() ? nullptr : &pinned->front();
      if (first != nullptr && second != nullptr && second->ticket < first->ticket) std::swap(first, second);
      if (first != nullptr && try_serve(queue, *first, changed, now_us)) continue;
      if (second != nullptr && try_serve(queue, *second, changed, now_us)) continue;
      return;
    }
  };
  if (changed != nullptr) {
    const auto at = group.pinned.find(changed->name());
    return serve_pinned(at == group.pinned.end() ? nullptr : &at->second);
  }
  serve_pinned(nullptr);
  for (auto& [partition, list] : group.pinned) serve_pinned(&list);
}

void Engine::State::serve(Queue& queue, Ring* changed, std::int64_t now_us) {
  for (auto& [name, group] : queue.waiting) serve_group(queue, group, changed, now_us);
  prune(queue);
}

// Waits and windows that are over.
void Engine::State::wake(Queue& queue, std::int64_t now_us) {
  bool served = false;
  while (!queue.wakes.empty() && queue.wakes.begin()->first <= now_us) {
    const std::uint64_t ticket = queue.wakes.begin()->second;
    const Place place = places.at(ticket);
    Waiter& waiter = *place.at;
    // Only the first in line may take what the window has gathered; the others are just out of time.
    const bool first = place.at == place.list->begin();
    const bool over = *waiter.request.wait_until_us <= now_us;
    if (!over && !first) {
      queue.wakes.erase(queue.wakes.begin());
      waiter.window_until.reset();
      continue;
    }
    auto messages = first ? take(queue, waiter.request, now_us, nullptr) : std::vector<Message>();
    if (!over && messages.empty()) {  // somebody else took them: a new window begins with the next
      queue.wakes.erase(queue.wakes.begin());
      waiter.window_until.reset();
      continue;
    }
    answer(place, std::move(messages));
    served = true;
  }
  prune(queue);
  if (served) serve(queue, nullptr, now_us);
}

}  // namespace queen::ephemeral

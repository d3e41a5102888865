#include "ephemeral/engine.h"

#include <algorithm>

#include "ephemeral/detail/state.h"
#include "ephemeral/message_id.h"

namespace queen::ephemeral {

using detail::Ring;
using detail::Settled;

namespace {

// Holds the engine's mutex; answers that came up meanwhile run when it is gone.
class Turn {
 public:
  explicit Turn(Engine::State& state) : state_(state), lock_(state.mutex) {}
  ~Turn() {
    auto answers = std::exchange(state_.ready, {});
    lock_.unlock();
    for (auto& one : answers) one();
  }
  std::unique_lock<std::mutex>& lock() { return lock_; }

 private:
  Engine::State& state_;
  std::unique_lock<std::mutex> lock_;
};

detail::Verdict verdict_of(Status status) {
  switch (status) {
    case Status::done:
      return detail::Verdict::done;
    case Status::retry:
      return detail::Verdict::retry;
    default:
      return detail::Verdict::failed;
  }
}

}  // namespace

Engine::Engine(Settings settings, Executor& executor, Random& random, Lookup lookup)
    : state_(std::make_shared<State>(settings, executor, random, std::move(lookup))) {}
Engine::~Engine() = default;

tl::expected<std::size_t, Refused> Engine::push(const QueueName& name, std::string_view partition,
                                                std::vector<std::string> payloads, const TenantMax& max) {
  if (payloads.empty()) return 0U;
  const std::size_t count = payloads.size();
  std::vector<detail::Payload> ready;
  ready.reserve(count);
  std::int64_t bytes = 0, largest = 0;
  for (std::string& payload : payloads) {
    const auto size = static_cast<std::int64_t>(payload.size());
    bytes += size;
    largest = std::max(largest, size);
    ready.push_back(std::make_shared<const std::string>(std::move(payload)));
  }
  Turn turn(*state_);
  State& state = *state_;
  auto found = state.find_or_make(turn.lock(), name, max);
  if (!found) return tl::unexpected(found.error());
  State::Queue& queue = **found;
  const std::int64_t now = state.now();
  state.freshen(queue, now);
  queue.used_at = now;
  const Declaration& options = queue.options;
  const bool fits = queue.bytes + bytes <= options.max_bytes &&
                    queue.length + count <= static_cast<std::uint64_t>(options.max_length);
  std::optional<Refused> refused;
  if (largest > options.max_bytes || (options.policy == Policy::reject && !fits))
    refused = Refused::queue_full;
  else if (max.bytes > 0 && state.tenants.at(name.tenant).bytes + bytes > max.bytes)
    refused = Refused::tenant_full;
  else if (state.held + bytes > state.settings.node_bytes_max)
    refused = Refused::node_full;
  if (refused) {
    state.reschedule(queue);
    return tl::unexpected(*refused);
  }
  Ring& ring = state.ring_of(queue, partition);
  for (detail::Payload& payload : ready) {
    state.append(queue, ring, std::move(payload), now);
    // The oldest of the queue goes, whichever partition has it.
    while (queue.bytes > options.max_bytes || queue.length > static_cast<std::uint64_t>(options.max_length)) {
      Ring& oldest = *queue.heads.begin()->second;
      state.drop(queue, oldest, true);
      state.free_passed(queue, oldest);
      ++queue.drops.bounds;
      ++state.drops.bounds;
    }
  }
  state.serve(queue, &ring, now);
  state.reschedule(queue);
  return count;
}

Engine::PopId Engine::pop(PopRequest request, const TenantMax& max, PopDone done) {
  Turn turn(*state_);
  State& state = *state_;
  auto found = state.find_or_make(turn.lock(), request.name, max);
  if (found && state.held >= state.settings.node_bytes_max && !(*found)->groups.contains(request.group))
    found = tl::unexpected(Refused::node_full);
  if (!found) {
    state.ready.emplace_back(
        [done = std::move(done), error = found.error()]() mutable { done(tl::unexpected(error)); });
    return 0;
  }
  State::Queue& queue = **found;
  const std::int64_t now = state.now();
  state.freshen(queue, now);
  queue.used_at = now;
  state.meet_group(queue, request);
  const bool waits = request.wait_until_us && !state.released && *request.wait_until_us > now;
  const std::uint64_t ticket = ++state.tickets;
  if (!waits) {
    auto messages = state.take(queue, request, now, nullptr);
    state.ready.emplace_back(
        [done = std::move(done), messages = std::move(messages)]() mutable { done(std::move(messages)); });
  } else {
    const std::string group = request.group;
    state.park(queue, std::move(request), std::move(done), ticket);
    const State::Place place = state.places.at(ticket);
    // Whoever waits in the same line goes first.
    if (place.at == place.list->begin()) state.try_serve(queue, *place.at, nullptr, now);
    state.prune(queue);
  }
  const bool parked = state.places.contains(ticket);
  state.reschedule(queue);
  return parked ? ticket : 0;
}

bool Engine::cancel_pop(PopId id) {
  PopDone forgotten;  // destroyed without the lock
  State& state = *state_;
  Turn turn(state);
  const auto at = state.places.find(id);
  if (at == state.places.end()) return false;
  const State::Place place = at->second;
  const bool first = place.at == place.list->begin();
  forgotten = std::move(place.at->done);
  state.unpark(place);
  State::Queue& queue = *place.queue;
  state.prune(queue);
  // What a window had gathered is for the next in line.
  if (first) state.serve(queue, nullptr, state.now());
  state.reschedule(queue);
  return true;
}

std::vector<AckOutcome> Engine::ack(const QueueName& name, std::string_view group,
                                    std::span<const Ack> acks) {
  std::vector<AckOutcome> out(acks.size(), AckOutcome::stale);
  Turn turn(*state_);
  State& state = *state_;
  State::Queue* queue = state.find(name);
  if (queue == nullptr) return out;
  const std::int64_t now = state.now();
  state.freshen(*queue, now);
  queue->used_at = now;
  std::set<Ring*> changed, again;
  for (std::size_t i = 0; i < acks.size(); ++i) {
    const auto id = parse_message_id(acks[i].id);
    const auto at = id ? queue->rings.find(id->partition) : queue->rings.end();
    if (at == queue->rings.end() || at->second->epoch() != id->epoch) continue;
    Ring& ring = *at->second;
    detail::Cursor* cursor = ring.find(group);
    const auto limit = static_cast<std::uint32_t>(queue->options.retry_limit);
    const Settled settled = cursor == nullptr
                                ? Settled::unknown
                                : ring.settle(*cursor, id->seq, verdict_of(acks[i].status), limit);
    if (settled == Settled::given_up) state.count_retry_drop(*queue);
    if (settled == Settled::redelivered) again.insert(&ring);
    changed.insert(&ring);
    out[i] = settled == Settled::unknown       ? AckOutcome::unknown
             : settled == Settled::redelivered ? AckOutcome::redelivered
                                               : AckOutcome::acked;
  }
  for (Ring* ring : changed) state.free_passed(*queue, *ring);
  for (Ring* ring : again) state.serve(*queue, ring, now);
  state.reschedule(*queue);
  return out;
}

bool Engine::may_declare(const QueueName& name, const TenantMax& max) const {
  Turn turn(*state_);
  const auto tenant = state_->tenants.find(name.tenant);
  return state_->find(name) != nullptr || max.queues == 0 || tenant == state_->tenants.end() ||
         tenant->second.queues < max.queues;
}

tl::expected<void, Refused> Engine::declare(const QueueName& name, const Declaration& declaration,
                                            const TenantMax& max) {
  if (!may_declare(name, max)) return tl::unexpected(Refused::tenant_full);
  Turn turn(*state_);
  State& state = *state_;
  ++state.declarations;
  State::Queue* queue = state.find(name);
  if (queue == nullptr) queue = &state.make(name, declaration);
  queue->declared = true;
  queue->options = effective(declaration, state.settings);
  const std::int64_t now = state.now();
  state.freshen(*queue, now);
  state.serve(*queue, nullptr, now);
  state.reschedule(*queue);
  return {};
}

std::uint64_t Engine::reset(const QueueName& name) {
  Turn turn(*state_);
  State& state = *state_;
  State::Queue* queue = state.find(name);
  if (queue == nullptr) return 0;
  const std::uint64_t dropped = queue->length;
  for (auto& [partition, ring] : queue->rings) {
    while (!ring->empty()) state.drop(*queue, *ring, false);
    ring->clear();
  }
  queue->used_at = state.now();
  state.reschedule(*queue);
  return dropped;
}

bool Engine::remove(const QueueName& name) {
  Turn turn(*state_);
  ++state_->declarations;
  State::Queue* queue = state_->find(name);
  if (queue == nullptr) return false;
  state_->erase(*queue);
  return true;
}

std::vector<QueueView> Engine::queues(std::string_view tenant) {
  std::vector<QueueView> out;
  Turn turn(*state_);
  State& state = *state_;
  const std::int64_t now = state.now();
  for (auto at = state.queues.lower_bound(tenant); at != state.queues.end(); ++at) {
    State::Queue& queue = *at->second;
    if (queue.name.tenant != tenant) break;
    state.freshen(queue, now);
    state.reschedule(queue);
    std::set<std::string_view> groups;
    for (const auto& [name, ring] : queue.rings)
      for (const auto& [group, cursor] : ring->cursors()) groups.insert(group);
    for (const auto& [group, everywhere] : queue.groups) groups.insert(group);
    out.push_back({queue.name.queue, queue.declared, queue.length, queue.bytes, queue.rings.size(),
                   groups.size(), queue.drops, queue.options});
  }
  return out;
}

std::optional<DepthView> Engine::depth(const QueueName& name, std::string_view group) {
  Turn turn(*state_);
  State& state = *state_;
  State::Queue* queue = state.find(name);
  if (queue == nullptr) return std::nullopt;
  state.freshen(*queue, state.now());
  state.reschedule(*queue);
  DepthView out;
  out.declared = queue->declared;
  out.bytes = queue->bytes;
  std::map<std::string_view, DepthView::Group> groups;
  for (const auto& [known, everywhere] : queue->groups) groups[known];
  for (const auto& [partition, ring] : queue->rings) {
    const std::uint64_t pending = ring->pending(ring->find(group));
    out.pending += pending;
    if (pending > 0) ++out.partitions_pending;
    out.partitions.push_back({partition, pending, ring->bytes()});
    for (const auto& [of, cursor] : ring->cursors()) groups[of];
  }
  for (auto& [of, view] : groups) {
    view.name = of;
    for (const auto& [partition, ring] : queue->rings) {
      const detail::Cursor* cursor = ring->find(of);
      view.pending += ring->pending(cursor);
      if (cursor != nullptr) view.skipped += cursor->skipped;
    }
    out.groups.push_back(std::move(view));
  }
  return out;
}

std::int64_t Engine::bytes() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->held;
}

Drops Engine::drops() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->drops;
}

std::size_t Engine::parked() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->places.size();
}

void Engine::release_parked() {
  Turn turn(*state_);
  State& state = *state_;
  state.released = true;
  while (!state.places.empty()) {
    const State::Place place = state.places.begin()->second;
    State::Queue& queue = *place.queue;
    const bool first = place.at == place.list->begin();
    // What a window has gathered is given, as at the end of the wait.
    auto messages =
        first ? state.take(queue, place.at->request, state.now(), nullptr) : std::vector<Message>();
    state.answer(place, std::move(messages));
    state.prune(queue);
    state.reschedule(queue);
  }
}

}  // namespace queen::ephemeral

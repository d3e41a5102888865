#include "s3/memory_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <mutex>
#include <utility>

#include "base/text.h"
#include "s3/digests.h"

namespace queen::s3 {
namespace {

constexpr std::uint64_t kPartBytes = 16 << 20;

S3Error cancelled() {
  S3Error error;
  error.failure = Failure::cancelled;
  error.sentence = "the request was cancelled here";
  return error;
}

S3Error refused(int status) {
  S3Error error;
  error.failure = Failure::status;
  error.status = status;
  error.retriable = status == 408 || status == 429 || status >= 500;
  error.s3_code = status == 403 ? "AccessDenied" : status == 503 ? "SlowDown" : "";
  error.throttled = status == 429 || status == 503;
  error.sentence = fmt::format("put: status {}{}{}", status, error.s3_code.empty() ? "" : " ", error.s3_code);
  return error;
}

struct Failing {
  S3Error error;
  MemoryStore::Effect effect;
};

}  // namespace

struct MemoryStore::State {
  // One operation under way.
  struct Pending {
    Pending(Kind of_kind, std::string of_subject) : kind(of_kind), subject(std::move(of_subject)) {}
    virtual ~Pending() = default;
    virtual void apply(State& state) = 0;  // under the lock
    virtual void deliver(std::optional<S3Error> error) = 0;
    const Kind kind;
    const std::string subject;      // the key, or the prefix of a listing
    bool over = false;              // its outcome is given, or about to be
    UniqueFunction<void()> before;  // outside the lock, when due
  };
  template <class T>
  struct PendingFor;

  explicit State(Executor& on) : executor(on) {}
  static void begin(const std::shared_ptr<State>& state, std::shared_ptr<Pending> pending);
  static void due(const std::shared_ptr<State>& state, const std::shared_ptr<Pending>& pending);
  static void post_cancelled(State& state, const std::shared_ptr<Pending>& pending);
  std::optional<Failing> failure_of(Kind kind);
  bool hides_read();
  PutDone store(const std::string& key, const Bytes& body);
  Listing find(const std::string& prefix, const std::string& start_after, int max_keys);

  Executor& executor;
  mutable std::mutex mutex;  // guards everything below, and the pending ones
  std::map<std::string, Bytes, std::less<>> objects;
  std::vector<PutSeen> puts;
  std::array<std::uint64_t, 4> calls{};
  std::vector<std::shared_ptr<Pending>> in_flight;
  std::deque<std::shared_ptr<Pending>> held;
  std::array<std::deque<Failing>, 4> failures;
  std::optional<int> put_refusal;
  std::int64_t delay_us = 0;
  std::uint64_t threshold_bytes = 64 << 20;
  int puts_to_drop = 0;
  int reads_to_hide = 0;
  bool open = true;
  bool hanging = false;
  bool cancelled_puts_land = false;
};

template <class T>
struct MemoryStore::State::PendingFor final : Pending {
  using Effect = UniqueFunction<Outcome<T>(State&)>;
  PendingFor(Kind of_kind, std::string of_subject, Effect with_effect, Done<T> then)
      : Pending(of_kind, std::move(of_subject)), effect(std::move(with_effect)), done(std::move(then)) {}
  void apply(State& state) override { outcome = effect(state); }
  void deliver(std::optional<S3Error> error) override {
    done(error ? Outcome<T>{std::nullopt, std::move(error)} : std::move(outcome));
  }
  Effect effect;
  Done<T> done;
  Outcome<T> outcome;
};

void MemoryStore::State::post_cancelled(State& state, const std::shared_ptr<Pending>& pending) {
  pending->over = true;
  state.executor.post([pending] { pending->deliver(cancelled()); });
}

void MemoryStore::State::begin(const std::shared_ptr<State>& state, std::shared_ptr<Pending> pending) {
  const std::lock_guard lock(state->mutex);
  ++state->calls[static_cast<std::size_t>(pending->kind)];
  if (!state->open) return post_cancelled(*state, pending);
  state->in_flight.push_back(pending);
  auto work = [state, pending] { due(state, pending); };
  if (state->delay_us == 0) return state->executor.post(std::move(work));
  state->executor.post_after(state->delay_us, std::move(work));
}

void MemoryStore::State::due(const std::shared_ptr<State>& state, const std::shared_ptr<Pending>& pending) {
  std::unique_lock lock(state->mutex);
  if (state->hanging) return state->held.push_back(pending);
  if (pending->over) {
    if (pending->kind == Kind::put && state->cancelled_puts_land) pending->apply(*state);
    return;
  }
  std::erase(state->in_flight, pending);
  pending->over = true;
  std::optional<Failing> failing = state->failure_of(pending->kind);
  if (!failing && pending->before) {
    lock.unlock();
    pending->before();
    lock.lock();
  }
  if (!failing || failing->effect == Effect::happened) pending->apply(*state);
  lock.unlock();
  pending->deliver(failing ? std::optional(std::move(failing->error)) : std::nullopt);
}

std::optional<Failing> MemoryStore::State::failure_of(Kind kind) {
  auto& waiting = failures[static_cast<std::size_t>(kind)];
  if (!waiting.empty()) {
    Failing next = std::move(waiting.front());
    waiting.pop_front();
    return next;
  }
  if (kind == Kind::put && put_refusal) return Failing{refused(*put_refusal), Effect::none};
  return std::nullopt;
}

bool MemoryStore::State::hides_read() {
  if (reads_to_hide == 0) return false;
  --reads_to_hide;
  return true;
}

PutDone MemoryStore::State::store(const std::string& key, const Bytes& body) {
  const bool dropped = puts_to_drop > 0;
  if (dropped) --puts_to_drop;
  puts.push_back({key, sha256_hex(body), body.size(), dropped});
  if (!dropped) objects[key] = body;
  return {hex_lower(md5_raw(body))};
}

Listing MemoryStore::State::find(const std::string& prefix, const std::string& start_after, int max_keys) {
  Listing listing;
  if (hides_read()) return listing;
  const auto limit = static_cast<std::size_t>(std::clamp(max_keys, 1, 1000));
  auto at = std::max(prefix, start_after) == prefix ? objects.lower_bound(prefix)
                                                    : objects.upper_bound(start_after);
  if (at != objects.end() && at->first == start_after) ++at;  // the prefix itself was asked to be skipped
  for (; at != objects.end() && at->first.starts_with(prefix); ++at) {
    if (listing.keys.size() == limit) {
      listing.truncated = true;
      break;
    }
    listing.keys.push_back(at->first);
  }
  return listing;
}

MemoryStore::MemoryStore(Executor& executor) : state_(std::make_shared<State>(executor)) {}

MemoryStore::~MemoryStore() {
  MemoryStore::cancel();
}

void MemoryStore::put(std::string key, std::shared_ptr<const Bytes> body, PutOptions options,
                      Done<PutDone> done) {
  std::uint64_t gaps = 0;
  {
    const std::lock_guard lock(state_->mutex);
    if (body->size() > state_->threshold_bytes) gaps = (body->size() - 1) / kPartBytes;
  }
  auto pending = std::make_shared<State::PendingFor<PutDone>>(
      Kind::put, key,
      [key, body](State& state) { return Outcome<PutDone>{state.store(key, *body), std::nullopt}; },
      std::move(done));
  if (options.between_parts) {
    pending->before = [hook = std::move(options.between_parts), gaps] {
      for (std::uint64_t i = 0; i < gaps; ++i) hook();
    };
  }
  State::begin(state_, std::move(pending));
}

void MemoryStore::get(std::string key, std::uint64_t bytes_max, Done<std::optional<Bytes>> done) {
  using Got = Outcome<std::optional<Bytes>>;
  const auto effect = [key, bytes_max](State& state) -> Got {
    const auto at = state.objects.find(key);
    if (state.hides_read() || at == state.objects.end()) return {std::optional<Bytes>(), std::nullopt};
    if (at->second.size() <= bytes_max) return {at->second, std::nullopt};
    S3Error error;
    error.failure = Failure::body;
    error.status = 200;
    error.retriable = false;
    error.sentence = fmt::format("get of {}: the object is larger than it may be", key);
    return {std::nullopt, std::move(error)};
  };
  State::begin(state_, std::make_shared<State::PendingFor<std::optional<Bytes>>>(Kind::get, key, effect,
                                                                                 std::move(done)));
}

void MemoryStore::head(std::string key, Done<std::optional<std::uint64_t>> done) {
  using Size = std::optional<std::uint64_t>;
  const auto effect = [key](State& state) -> Outcome<Size> {
    const auto at = state.objects.find(key);
    if (state.hides_read() || at == state.objects.end()) return {Size(), std::nullopt};
    return {Size(at->second.size()), std::nullopt};
  };
  State::begin(state_, std::make_shared<State::PendingFor<Size>>(Kind::head, key, effect, std::move(done)));
}

void MemoryStore::list(std::string prefix, std::string start_after, int max_keys, Done<Listing> done) {
  const auto effect = [prefix, start_after = std::move(start_after), max_keys](State& state) {
    return Outcome<Listing>{state.find(prefix, start_after, max_keys), std::nullopt};
  };
  State::begin(state_,
               std::make_shared<State::PendingFor<Listing>>(Kind::list, prefix, effect, std::move(done)));
}

void MemoryStore::cancel() {
  const std::lock_guard lock(state_->mutex);
  state_->open = false;
  for (const auto& pending : state_->in_flight) State::post_cancelled(*state_, pending);
  state_->in_flight.clear();
}

void MemoryStore::cancel_keys(const std::vector<std::string>& prefixes) {
  const std::lock_guard lock(state_->mutex);
  std::erase_if(state_->in_flight, [&](const std::shared_ptr<State::Pending>& pending) {
    const bool meant = std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& prefix) {
      return pending->subject.starts_with(prefix);
    });
    if (meant) State::post_cancelled(*state_, pending);
    return meant;
  });
}

void MemoryStore::resume() {
  const std::lock_guard lock(state_->mutex);
  state_->open = true;
}

void MemoryStore::fail_next(Kind kind, int count, S3Error error, Effect effect) {
  const std::lock_guard lock(state_->mutex);
  auto& waiting = state_->failures[static_cast<std::size_t>(kind)];
  for (int i = 0; i < count; ++i) waiting.push_back({error, effect});
}

void MemoryStore::refuse_puts(std::optional<int> status) {
  const std::lock_guard lock(state_->mutex);
  state_->put_refusal = status;
}

void MemoryStore::delay(std::int64_t us) {
  const std::lock_guard lock(state_->mutex);
  state_->delay_us = us;
}

void MemoryStore::hang() {
  const std::lock_guard lock(state_->mutex);
  state_->hanging = true;
}

void MemoryStore::release() {
  const std::lock_guard lock(state_->mutex);
  state_->hanging = false;
  for (auto& pending : std::exchange(state_->held, {}))
    state_->executor.post([state = state_, pending = std::move(pending)] { State::due(state, pending); });
}

void MemoryStore::drop_next_puts(int count) {
  const std::lock_guard lock(state_->mutex);
  state_->puts_to_drop = count;
}

void MemoryStore::hide_next_reads(int count) {
  const std::lock_guard lock(state_->mutex);
  state_->reads_to_hide = count;
}

void MemoryStore::cancelled_puts_land(bool land) {
  const std::lock_guard lock(state_->mutex);
  state_->cancelled_puts_land = land;
}

void MemoryStore::multipart_threshold(std::uint64_t bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->threshold_bytes = bytes;
}

std::map<std::string, Bytes> MemoryStore::objects() const {
  const std::lock_guard lock(state_->mutex);
  return {state_->objects.begin(), state_->objects.end()};
}

std::optional<Bytes> MemoryStore::object(std::string_view key) const {
  const std::lock_guard lock(state_->mutex);
  const auto at = state_->objects.find(key);
  return at == state_->objects.end() ? std::nullopt : std::optional(at->second);
}

std::vector<MemoryStore::PutSeen> MemoryStore::puts() const {
  const std::lock_guard lock(state_->mutex);
  return state_->puts;
}

std::uint64_t MemoryStore::calls(Kind kind) const {
  const std::lock_guard lock(state_->mutex);
  return state_->calls[static_cast<std::size_t>(kind)];
}

std::size_t MemoryStore::in_flight() const {
  const std::lock_guard lock(state_->mutex);
  return state_->in_flight.size();
}

void MemoryStore::insert(std::string key, Bytes bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->objects[std::move(key)] = std::move(bytes);
}

void MemoryStore::erase(std::string_view key) {
  const std::lock_guard lock(state_->mutex);
  if (const auto at = state_->objects.find(key); at != state_->objects.end()) state_->objects.erase(at);
}

}  // namespace queen::s3

#include "broker/admission.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <vector>

namespace queen::broker {
namespace {

constexpr std::int64_t kLookUs = 100'000;
constexpr std::uint64_t kRefusalsPerLine = 1000;

}  // namespace

struct Admission::State : std::enable_shared_from_this<State> {
  State(Limits limits_in, Executor& timers_in, Random& random_in, Logger log_in)
      : limits(limits_in), timers(timers_in), random(random_in), log(std::move(log_in)) {}

  struct Waiting {
    std::uint64_t bytes;
    std::int64_t until;
    Decided decided;
  };

  bool fits(std::uint64_t bytes) const {
    return held == 0 || (bytes <= limits.bytes_max && held <= limits.bytes_max - bytes);
  }
  // A quarter more or less, so that those who came together do not come back together.
  std::int64_t hold_us() {
    const std::int64_t quarter = limits.hold_us / 4;
    if (quarter == 0) return limits.hold_us;
    return limits.hold_us - quarter +
           static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(2 * quarter));
  }
  void give_back(std::uint64_t bytes);
  void arm();
  void look();

  const Limits limits;
  Executor& timers;
  Random& random;
  Logger log;
  mutable std::mutex mutex;  // guards everything below
  std::uint64_t held = 0;
  std::deque<Waiting> waiting;
  bool armed = false, closed = false;
  std::uint64_t waited = 0, refused = 0;
};

void Admission::State::give_back(std::uint64_t bytes) {
  std::vector<Waiting> admitted;
  {
    const std::lock_guard lock(mutex);
    held -= bytes;
    while (!waiting.empty() && fits(waiting.front().bytes)) {
      held += waiting.front().bytes;
      admitted.push_back(std::move(waiting.front()));
      waiting.pop_front();
    }
  }
  for (auto& next : admitted) next.decided(Permit(shared_from_this(), next.bytes));
}

// With the lock held.
void Admission::State::arm() {
  if (armed) return;
  armed = true;
  timers.post_after(kLookUs, [weak = weak_from_this()] {
    if (const auto state = weak.lock()) state->look();
  });
}

void Admission::State::look() {
  std::vector<Decided> over;
  std::uint64_t before = 0;
  {
    const std::lock_guard lock(mutex);
    armed = false;
    const std::int64_t now = timers.clock().mono_us();
    std::deque<Waiting> left;
    for (auto& one : waiting) {
      if (one.until <= now) {
        over.push_back(std::move(one.decided));
      } else {
        left.push_back(std::move(one));
      }
    }
    waiting.swap(left);
    before = refused;
    refused += over.size();
    if (!waiting.empty()) arm();
  }
  if ((before + over.size() + kRefusalsPerLine - 1) / kRefusalsPerLine !=
      (before + kRefusalsPerLine - 1) / kRefusalsPerLine)
    log.warn("admission_refused", {{"times", before + over.size()}, {"budget_bytes", limits.bytes_max}});
  for (auto& decided : over) decided(std::nullopt);
  // Whoever stood behind one that is gone may fit now.
  give_back(0);
}

Admission::Permit& Admission::Permit::operator=(Permit&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  state_ = std::move(other.state_);
  bytes_ = other.bytes_;
  return *this;
}

void Admission::Permit::give_back() {
  if (const auto state = std::move(state_)) state->give_back(bytes_);
}

Admission::Admission(Limits limits, Executor& timers, Random& random, Logger log)
    : state_(std::make_shared<State>(limits, timers, random, std::move(log))) {}
Admission::~Admission() {
  close();
}

void Admission::enter(std::uint64_t bytes, Decided decided) {
  if (state_->limits.bytes_max == 0) return decided(Permit());
  bool closed = false;
  {
    const std::lock_guard lock(state_->mutex);
    closed = state_->closed;
    if (!closed && (!state_->waiting.empty() || !state_->fits(bytes))) {
      ++state_->waited;
      state_->waiting.push_back(
          {bytes, state_->timers.clock().mono_us() + state_->hold_us(), std::move(decided)});
      return state_->arm();
    }
    if (!closed) state_->held += bytes;
  }
  if (closed) return decided(std::nullopt);
  decided(Permit(state_, bytes));
}

void Admission::close() {
  std::deque<State::Waiting> waiting;
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
    waiting.swap(state_->waiting);
  }
  for (auto& one : waiting) one.decided(std::nullopt);
}

Admission::Figures Admission::figures() const {
  const std::lock_guard lock(state_->mutex);
  return {state_->held, state_->waiting.size(), state_->waited, state_->refused};
}

}  // namespace queen::broker

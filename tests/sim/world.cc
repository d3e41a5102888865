#include "world.h"

#include <algorithm>
#include <cstdlib>

#include "base/hash.h"
#include "base/invariant.h"

namespace queen::sim {
namespace {

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::uint64_t kNestedStepsMax = 50'000'000;
constexpr std::int64_t kNever = INT64_MAX;

}  // namespace

Dice::Dice(std::uint64_t seed, std::string_view stream) : random_(seed ^ xxh3_64(stream)) {
  random_.next();
}

std::int64_t SimClock::mono_us() {
  const std::int64_t now = world_.now_us();
  return now + now / kMillion * drift_ppm_ + now % kMillion * drift_ppm_ / kMillion;
}

std::int64_t SimClock::world_time_of(std::int64_t mono) const {
  std::int64_t guess = mono - mono / kMillion * drift_ppm_;
  const auto at = [this](std::int64_t now) {
    return now + now / kMillion * drift_ppm_ + now % kMillion * drift_ppm_ / kMillion;
  };
  while (at(guess) < mono) guess += std::max<std::int64_t>(1, (mono - at(guess)) / 2);
  return guess;
}

World::World(std::uint64_t seed) : dice_(seed, "world"), step_us_max_(dice_.pick({1, 5, 40, 400})) {}

std::shared_ptr<Lane> World::make_lane(std::string name) {
  auto lane = std::make_shared<Lane>();
  lane->name = std::move(name);
  lane->number = lanes_made_++;
  lanes_.push_back(lane);
  return lane;
}

void World::mix(std::uint64_t value) {
  digest_ = (digest_ ^ value) * 0x9E3779B97F4A7C15ULL;
  digest_ ^= digest_ >> 29;
}

void World::mix(std::string_view bytes) {
  mix(xxh3_64(bytes));
}

std::int64_t World::next_due() const {
  std::int64_t due = kNever;
  for (const auto& lane : lanes_) {
    if (lane->stopped || lane->depth > 0) continue;
    if (!lane->ready.empty()) due = std::min(due, lane->frozen_until);
    if (!lane->timers.empty()) due = std::min(due, std::max(lane->frozen_until, lane->timers.begin()->first));
  }
  return due;
}

void World::take_due() {
  for (const auto& lane : lanes_) {
    while (!lane->timers.empty() && lane->timers.begin()->first <= now_us_) {
      lane->ready.push_back(std::move(lane->timers.begin()->second));
      lane->timers.erase(lane->timers.begin());
    }
  }
}

// A lane that runs a piece of its own (which waits for others) is not ready: it is one thread.
Lane* World::pick_ready() {
  std::uint64_t weights = 0;
  for (const auto& lane : lanes_) {
    const bool can =
        !lane->stopped && lane->depth == 0 && !lane->ready.empty() && lane->frozen_until <= now_us_;
    if (can) weights += lane->weight;
  }
  if (weights == 0) return nullptr;
  std::uint64_t at = dice_.below(weights);
  for (const auto& lane : lanes_) {
    const bool can =
        !lane->stopped && lane->depth == 0 && !lane->ready.empty() && lane->frozen_until <= now_us_;
    if (!can) continue;
    if (at < lane->weight) return lane.get();
    at -= lane->weight;
  }
  return nullptr;
}

void World::run_one(Lane& lane) {
  std::size_t at = 0;
  if (lane.any_order) at = dice_.below(lane.ready.size());
  Executor::Work work = std::move(lane.ready[at]);
  lane.ready.erase(lane.ready.begin() + static_cast<std::ptrdiff_t>(at));
  mix(static_cast<std::uint64_t>(now_us_) << 8 | lane.number % 256);
  if (!lane.any_order) ++lane.depth;
  work();
  if (!lane.any_order) --lane.depth;
}

bool World::step() {
  ++steps_;
  if (steps_ % 64 == 0)  // those that nobody posts to any more
    std::erase_if(lanes_, [](const auto& lane) { return lane.use_count() == 1 && lane->depth == 0; });
  take_due();
  if (Lane* lane = pick_ready()) {
    // Shared: the piece may end the lane's owner.
    const auto held =
        *std::find_if(lanes_.begin(), lanes_.end(), [&](const auto& one) { return one.get() == lane; });
    run_one(*held);
    now_us_ += dice_.between(0, step_us_max_);
    return true;
  }
  const std::int64_t due = next_due();
  if (due == kNever) return false;
  now_us_ = std::max(now_us_, due);
  return true;
}

bool World::run_until(const std::function<bool()>& done, std::uint64_t steps_max) {
  for (std::uint64_t i = 0; i < steps_max; ++i) {
    if (done()) return true;
    if (!step()) return done();
  }
  return false;
}

void SimExecutor::stop() {
  lane_->stopped = true;
  // What is dropped may post, or drop more.
  auto ready = std::exchange(lane_->ready, {});
  auto timers = std::exchange(lane_->timers, {});
}

void SimExecutor::run_until(const std::function<bool()>& done) {
  INVARIANT(world_.run_until(done, kNestedStepsMax), "{} waits for what never comes", lane_->name);
}

SimPool::SimPool(World& world, std::string name) : world_(world), lane_(world.make_lane(std::move(name))) {
  lane_->any_order = true;
}

void SimPool::run_all(std::vector<UniqueFunction<void()>> pieces) {
  while (!pieces.empty()) {
    const auto at = static_cast<std::ptrdiff_t>(world_.dice().below(pieces.size()));
    auto piece = std::move(pieces[static_cast<std::size_t>(at)]);
    pieces.erase(pieces.begin() + at);
    piece();
  }
}

void SimPool::post(UniqueFunction<void()> work) {
  if (lane_->stopped) return work();
  lane_->ready.push_back(std::move(work));
}

void SimPool::stop() {
  if (lane_->stopped) return;
  lane_->stopped = true;
  while (!lane_->ready.empty()) {
    auto work = std::move(lane_->ready.front());
    lane_->ready.pop_front();
    work();
  }
}

namespace {

void weigh_lane(Lane& lane, std::uint64_t weights) {
  if (weights == 0) return;
  SeededRandom random(weights ^ xxh3_64(lane.name));
  random.next();
  const std::uint64_t draw = random.next() % 8;
  lane.weight = draw == 0 ? 1 : draw == 1 ? 64 : 8;
}

}  // namespace

std::unique_ptr<Executor> Process::thread(std::string name) {
  auto made = std::make_unique<SimExecutor>(world_, clock_, std::move(name));
  keep(made->shared_lane());
  return made;
}

std::unique_ptr<Pool> Process::pool(std::string name, std::size_t /*threads_max*/) {
  auto made = std::make_unique<SimPool>(world_, std::move(name));
  keep(made->shared_lane());
  return made;
}

void Process::keep(const std::shared_ptr<Lane>& lane) {
  weigh_lane(*lane, weights_);
  lanes_.push_back(lane);
}

void Process::freeze(std::int64_t us) {
  for (const auto& weak : lanes_) {
    if (const auto lane = weak.lock()) lane->frozen_until = world_.now_us() + us;
  }
}

}  // namespace queen::sim

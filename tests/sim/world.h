// Virtual time and the order in which things run: everything of one history runs in one thread, step by step,
// in an order that the seed picks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/executor.h"
#include "base/ids.h"

namespace queen::sim {

inline constexpr std::int64_t kMsUs = 1'000;
inline constexpr std::int64_t kSecondUs = 1'000'000;
inline constexpr std::int64_t kEpochUs = 1'794'041'997'000'000;  // 2026-11-07T08:59:57Z: an hour ends soon

// Draws of one stream. Streams of other names are independent: what one part draws moves no other part.
class Dice {
 public:
  Dice(std::uint64_t seed, std::string_view stream);
  std::uint64_t next() { return random_.next(); }
  Random& random() { return random_; }
  // 0..`end`-1; 0 when `end` is 0.
  std::uint64_t below(std::uint64_t end) { return end == 0 ? 0 : next() % end; }
  std::int64_t between(std::int64_t low, std::int64_t high) {  // both inclusive
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool chance(std::uint64_t percent) { return below(100) < percent; }
  // One of `values`, each as likely.
  template <class T>
  T pick(std::initializer_list<T> values) {
    return *(values.begin() + below(values.size()));
  }

 private:
  SeededRandom random_;
};

class World;

// The clock of one process: the world's time at a rate of its own, and a wall clock that can jump.
class SimClock final : public Clock {
 public:
  // `drift_ppm` parts per million faster than the world's.
  SimClock(const World& world, std::int64_t drift_ppm) : world_(world), drift_ppm_(drift_ppm) {}
  std::int64_t wall_us() override { return kEpochUs + mono_us() + jumped_us_; }
  std::int64_t mono_us() override;
  void jump_wall(std::int64_t us) {
    jumped_us_ += us;
    jumped_us_max_ = std::max(jumped_us_max_, jumped_us_);
  }
  std::int64_t jumped_us() const { return jumped_us_; }
  // The furthest that it ever was ahead of a clock that never jumped.
  std::int64_t jumped_us_max() const { return jumped_us_max_; }
  // The first time of the world at which mono_us() is `mono` or more.
  std::int64_t world_time_of(std::int64_t mono) const;

 private:
  const World& world_;
  const std::int64_t drift_ppm_;
  std::int64_t jumped_us_ = 0, jumped_us_max_ = 0;
};

// What waits to run in one place, and when. Lives as long as the world or its owner, whichever goes later.
struct Lane {
  std::string name;
  std::uint32_t number = 0;  // in the order made
  bool any_order = false;    // a pool: not in the order posted
  std::uint32_t weight = 1;  // how likely it is picked among those that are ready
  bool stopped = false;
  std::uint32_t depth = 0;        // pieces of it that run now
  std::int64_t frozen_until = 0;  // world time
  std::deque<Executor::Work> ready;
  std::multimap<std::int64_t, Executor::Work> timers;  // by world time
};

class World {
 public:
  explicit World(std::uint64_t seed);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::int64_t now_us() const { return now_us_; }
  // Time passes within a step: a slow call.
  void pass(std::int64_t us) { now_us_ += us; }
  Dice& dice() { return dice_; }

  std::shared_ptr<Lane> make_lane(std::string name);
  // Runs one piece that is ready, or moves to the next one that will be. False: there is nothing left to run.
  bool step();
  // Steps until `done`; false when nothing is left to run before, or after `steps_max` steps.
  bool run_until(const std::function<bool()>& done, std::uint64_t steps_max);
  std::uint64_t steps() const { return steps_; }

  // What happened so far as one number. The same seed ends on the same one.
  std::uint64_t digest() const { return digest_; }
  void mix(std::uint64_t value);
  void mix(std::string_view bytes);

 private:
  Lane* pick_ready();
  std::int64_t next_due() const;
  void take_due();
  void run_one(Lane& lane);

  Dice dice_;
  std::int64_t now_us_ = 0;
  std::int64_t step_us_max_;
  std::uint64_t steps_ = 0;
  std::uint64_t digest_ = 0;
  std::uint32_t lanes_made_ = 0;
  std::vector<std::shared_ptr<Lane>> lanes_;
};

// One lane as an executor. Several may share a clock.
class SimExecutor final : public Executor {
 public:
  SimExecutor(World& world, SimClock& clock, std::string name)
      : world_(world), clock_(clock), lane_(world.make_lane(std::move(name))) {}
  ~SimExecutor() override { stop(); }
  void post(Work work) override {
    if (!lane_->stopped) lane_->ready.push_back(std::move(work));
  }
  void post_at(std::int64_t mono_us, Work work) override {
    if (!lane_->stopped) lane_->timers.emplace(clock_.world_time_of(mono_us), std::move(work));
  }
  Clock& clock() override { return clock_; }
  void stop() override;
  void run_until(const std::function<bool()>& done) override;
  const std::shared_ptr<Lane>& shared_lane() const { return lane_; }

 private:
  World& world_;
  SimClock& clock_;
  std::shared_ptr<Lane> lane_;
};

class SimPool final : public Pool {
 public:
  SimPool(World& world, std::string name);
  ~SimPool() override { stop(); }
  void run_all(std::vector<UniqueFunction<void()>> pieces) override;
  void post(UniqueFunction<void()> work) override;
  void stop() override;
  const std::shared_ptr<Lane>& shared_lane() const { return lane_; }

 private:
  World& world_;
  std::shared_ptr<Lane> lane_;
};

// What one process runs on. Outlives what it made only as far as clock and world do.
class Process final : public Executors {
 public:
  // `weights`: seed of how fast each lane is; 0 = all alike.
  Process(World& world, SimClock& clock, std::uint64_t weights)
      : world_(world), clock_(clock), weights_(weights) {}
  std::unique_ptr<Executor> thread(std::string name) override;
  std::unique_ptr<Pool> pool(std::string name, std::size_t threads_max) override;
  // Nothing of it runs for `us`: a stopped virtual machine.
  void freeze(std::int64_t us);

 private:
  void keep(const std::shared_ptr<Lane>& lane);

  World& world_;
  SimClock& clock_;
  const std::uint64_t weights_;
  std::vector<std::weak_ptr<Lane>> lanes_;
};

}  // namespace queen::sim

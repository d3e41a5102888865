// Where work runs. A component posts steps and never starts threads, sleeps or waits on its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/pool.h"
#include "base/unique_function.h"

namespace queen {

// Runs posted work one piece at a time, in the order posted. post and post_at are thread-safe.
class Executor {
 public:
  using Work = UniqueFunction<void()>;
  virtual ~Executor() = default;
  virtual void post(Work work) = 0;
  // Runs `work` once mono_us() of the executor's clock has reached `mono_us`.
  virtual void post_at(std::int64_t mono_us, Work work) = 0;
  virtual Clock& clock() = 0;
  // Drops what is queued; the piece that runs is finished. Idempotent. Not from a piece of its own.
  virtual void stop() = 0;
  // Returns once `done` holds, which is looked at now and after each piece of work that runs here. `done` may
  // take locks under which others post. Not from a piece of its own, and not after stop().
  virtual void run_until(const std::function<bool()>& done) = 0;
  void post_after(std::int64_t us, Work work) { post_at(clock().mono_us() + us, std::move(work)); }
};

// What the parts of a node run on.
class Executors {
 public:
  virtual ~Executors() = default;
  virtual std::unique_ptr<Executor> thread(std::string name) = 0;
  virtual std::unique_ptr<Pool> pool(std::string name, std::size_t threads_max) = 0;
};

// One thread of its own, named `name` (at most 15 characters).
class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor(std::string name, Clock& clock);
  ~ThreadExecutor() override;
  void post(Work work) override;
  void post_at(std::int64_t mono_us, Work work) override;
  Clock& clock() override { return clock_; }
  // Joins the thread.
  void stop() override;
  void run_until(const std::function<bool()>& done) override;

 private:
  void run(const std::string& name);
  bool take_due();

  Clock& clock_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable wake_;
  std::deque<Work> ready_;
  std::multimap<std::int64_t, Work> timers_;
  std::uint64_t pieces_ = 0;     // that have run
  std::size_t watchers_ = 0;     // in run_until()
  std::condition_variable ran_;  // them
  bool stopping_ = false;
  std::thread thread_;
};

// Threads of the process.
class ThreadExecutors final : public Executors {
 public:
  explicit ThreadExecutors(Clock& clock) : clock_(clock) {}
  std::unique_ptr<Executor> thread(std::string name) override {
    return std::make_unique<ThreadExecutor>(std::move(name), clock_);
  }
  std::unique_ptr<Pool> pool(std::string name, std::size_t threads_max) override {
    return std::make_unique<ThreadPool>(std::move(name), threads_max);
  }

 private:
  Clock& clock_;
};

// For tests and simulation: runs in the caller's thread, in virtual time. Not thread-safe.
class ManualExecutor final : public Executor {
 public:
  explicit ManualExecutor(ManualClock& clock) : clock_(clock) {}
  void post(Work work) override { ready_.push_back(std::move(work)); }
  void post_at(std::int64_t mono_us, Work work) override { timers_.emplace(mono_us, std::move(work)); }
  Clock& clock() override { return clock_; }
  void stop() override {
    ready_.clear();
    timers_.clear();
  }
  // Moves the clock from timer to timer.
  void run_until(const std::function<bool()>& done) override;
  // Runs what is ready until nothing is; returns the number of pieces run.
  std::size_t run_ready();
  // Runs what is ready, then moves the clock to each timer in turn until `us` have passed.
  void run_for(std::int64_t us);
  bool idle() const { return ready_.empty() && timers_.empty(); }

 private:
  void take_due();
  bool run_one();

  ManualClock& clock_;
  std::deque<Work> ready_;
  std::multimap<std::int64_t, Work> timers_;
};

}  // namespace queen

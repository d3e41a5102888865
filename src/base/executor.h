// Where work runs. A component posts steps and never starts threads, sleeps or waits on its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
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
  void post_after(std::int64_t us, Work work) { post_at(clock().mono_us() + us, std::move(work)); }
};

// One thread of its own, named `name` (at most 15 characters). Work still queued when stop() is called is
// dropped; the piece that runs is finished.
class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor(std::string name, Clock& clock);
  ~ThreadExecutor() override;
  void post(Work work) override;
  void post_at(std::int64_t mono_us, Work work) override;
  Clock& clock() override { return clock_; }
  // Joins the thread. Idempotent. Not from the thread itself.
  void stop();

 private:
  void run(const std::string& name);
  bool take_due();

  Clock& clock_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable wake_;
  std::deque<Work> ready_;
  std::multimap<std::int64_t, Work> timers_;
  bool stopping_ = false;
  std::thread thread_;
};

// For tests and simulation: runs in the caller's thread, in virtual time. Not thread-safe.
class ManualExecutor final : public Executor {
 public:
  explicit ManualExecutor(ManualClock& clock) : clock_(clock) {}
  void post(Work work) override { ready_.push_back(std::move(work)); }
  void post_at(std::int64_t mono_us, Work work) override { timers_.emplace(mono_us, std::move(work)); }
  Clock& clock() override { return clock_; }
  // Runs what is ready until nothing is; returns the number of pieces run.
  std::size_t run_ready();
  // Runs what is ready, then moves the clock to each timer in turn until `us` have passed.
  void run_for(std::int64_t us);
  bool idle() const { return ready_.empty() && timers_.empty(); }

 private:
  ManualClock& clock_;
  std::deque<Work> ready_;
  std::multimap<std::int64_t, Work> timers_;
};

}  // namespace queen

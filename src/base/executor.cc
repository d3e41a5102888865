#include "base/executor.h"

#include <pthread.h>

#include <chrono>

#include "base/invariant.h"

namespace queen {

ThreadExecutor::ThreadExecutor(std::string name, Clock& clock) : clock_(clock) {
  thread_ = std::thread([this, name = std::move(name)] { run(name); });
}

ThreadExecutor::~ThreadExecutor() {
  stop();
}

void ThreadExecutor::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ThreadExecutor::post(Work work) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    wake = ready_.empty();
    ready_.push_back(std::move(work));
  }
  if (wake) wake_.notify_one();
}

void ThreadExecutor::post_at(std::int64_t mono_us, Work work) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    timers_.emplace(mono_us, std::move(work));
  }
  wake_.notify_one();
}

// Moves timers that are due behind the ready work. Called with the lock held.
bool ThreadExecutor::take_due() {
  const std::int64_t now = clock_.mono_us();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    ready_.push_back(std::move(timers_.begin()->second));
    timers_.erase(timers_.begin());
  }
  return !ready_.empty();
}

void ThreadExecutor::run(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!take_due()) {
      if (timers_.empty()) {
        wake_.wait(lock);
      } else {
        wake_.wait_for(lock, std::chrono::microseconds(timers_.begin()->first - clock_.mono_us() + 1));
      }
      continue;
    }
    Work work = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // destroyed outside the lock: its captures may post
    lock.lock();
    ++pieces_;
    if (watchers_ != 0) ran_.notify_all();
  }
  // Captures may post or take locks of their own when destroyed.
  auto ready = std::move(ready_);
  auto timers = std::move(timers_);
  lock.unlock();
}

// `done` is asked without the lock, which it may wait for under locks of its own.
void ThreadExecutor::run_until(const std::function<bool()>& done) {
  std::unique_lock lock(mutex_);
  ++watchers_;
  while (true) {
    const std::uint64_t seen = pieces_;
    lock.unlock();
    const bool holds = done();
    lock.lock();
    if (holds) break;
    ran_.wait(lock, [&] { return pieces_ != seen; });
  }
  --watchers_;
}

void ManualExecutor::take_due() {
  const std::int64_t now = clock_.mono_us();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    ready_.push_back(std::move(timers_.begin()->second));
    timers_.erase(timers_.begin());
  }
}

bool ManualExecutor::run_one() {
  take_due();
  if (ready_.empty()) return false;
  Work work = std::move(ready_.front());
  ready_.pop_front();
  work();
  return true;
}

std::size_t ManualExecutor::run_ready() {
  std::size_t count = 0;
  while (run_one()) ++count;
  return count;
}

void ManualExecutor::run_until(const std::function<bool()>& done) {
  while (!done()) {
    if (run_one()) continue;
    INVARIANT(!timers_.empty(), "nothing left to run, and what is waited for has not come");
    clock_.advance(timers_.begin()->first - clock_.mono_us());
  }
}

void ManualExecutor::run_for(std::int64_t us) {
  const std::int64_t end = clock_.mono_us() + us;
  run_ready();
  while (!timers_.empty() && timers_.begin()->first <= end) {
    clock_.advance(timers_.begin()->first - clock_.mono_us());
    run_ready();
  }
  if (clock_.mono_us() < end) clock_.advance(end - clock_.mono_us());
}

}  // namespace queen

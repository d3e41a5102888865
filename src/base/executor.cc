#include "base/executor.h"

#include <pthread.h>

#include <chrono>

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
  }
  // Captures may post or take locks of their own when destroyed.
  auto ready = std::move(ready_);
  auto timers = std::move(timers_);
  lock.unlock();
}

std::size_t ManualExecutor::run_ready() {
  std::size_t count = 0;
  while (true) {
    const std::int64_t now = clock_.mono_us();
    while (!timers_.empty() && timers_.begin()->first <= now) {
      ready_.push_back(std::move(timers_.begin()->second));
      timers_.erase(timers_.begin());
    }
    if (ready_.empty()) return count;
    Work work = std::move(ready_.front());
    ready_.pop_front();
    work();
    ++count;
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

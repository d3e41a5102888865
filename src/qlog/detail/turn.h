// The right to change a log's files, held by one thread at a time and across I/O.
#pragma once

#include <condition_variable>
#include <mutex>

namespace queen::qlog::detail {

// Lockable, as std::unique_lock takes it; any thread may give it back. Not a mutex: a group holds the turns
// of all its logs, in the order in which it met them, and there may be thousands. That cannot lock up, as
// nobody else waits for a turn, but ThreadSanitizer knows neither that rule nor more than 64 mutexes held at
// a time.
class Turn {
 public:
  // Blocks until the turn is free.
  void lock() {
    std::unique_lock held(mutex_);
    freed_.wait(held, [this] { return !taken_; });
    taken_ = true;
  }

  bool try_lock() {
    const std::lock_guard held(mutex_);
    if (taken_) return false;
    taken_ = true;
    return true;
  }

  void unlock() {
    // Told with the mutex held: who waits may be the last to keep this object alive.
    const std::lock_guard held(mutex_);
    taken_ = false;
    freed_.notify_one();
  }

 private:
  std::mutex mutex_;  // guards taken_; never held across I/O
  std::condition_variable freed_;
  bool taken_ = false;
};

}  // namespace queen::qlog::detail

// Log time: what entries are stamped from.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace queen::broker {

// Goes on at real speed whatever the wall clock does: max(wall, last + 1, last + monotonic time since)
// (HD-27); or, when asked to, follows the wall clock alone, and then stands nearly still after the wall clock
// went back. One thread; lead_us() from any.
class LogClock {
 public:
  enum class Follow : bool { monotonic, wall };  // QUEEN_RAFT_CLOCK
  LogClock(Clock& clock, Follow follow) : clock_(clock), follow_(follow) {}
  // Never below a stamp that was applied already.
  void raise(std::int64_t stamp_us) {
    last_ = std::max(last_, stamp_us);
    publish();
  }
  std::int64_t now_us() {
    const std::int64_t mono = clock_.mono_us();
    const bool real_speed = started_ && follow_ == Follow::monotonic;
    const std::int64_t passed = real_speed ? mono - mono_at_last_ : 0;
    last_ = std::max({clock_.wall_us(), last_ + 1, last_ + passed});
    mono_at_last_ = mono;
    started_ = true;
    publish();
    return last_;
  }
  // How far the next stamp would be ahead of the wall clock; 0 when it would be the wall clock's own.
  std::int64_t lead_us() const {
    const std::int64_t ahead = follow_ == Follow::monotonic
                                   ? clock_.mono_us() + ahead_of_mono_.load(std::memory_order_relaxed)
                                   : last_seen_.load(std::memory_order_relaxed);
    return std::max<std::int64_t>(ahead - clock_.wall_us(), 0);
  }

 private:
  void publish() {
    last_seen_.store(last_, std::memory_order_relaxed);
    ahead_of_mono_.store(last_ - (started_ ? mono_at_last_ : clock_.mono_us()), std::memory_order_relaxed);
  }

  Clock& clock_;
  const Follow follow_;
  std::int64_t last_ = 0;
  std::int64_t mono_at_last_ = 0;
  bool started_ = false;
  std::atomic<std::int64_t> last_seen_{0}, ahead_of_mono_{INT64_MIN / 2};
};

}  // namespace queen::broker

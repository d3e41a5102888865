// Log time: what entries are stamped from.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace queen::broker {

// Goes on at real speed whatever the wall clock does: max(wall, last + 1, last + monotonic time since)
// (HD-27). Not thread-safe.
class LogClock {
 public:
  explicit LogClock(Clock& clock) : clock_(clock) {}
  // Never below a stamp that was applied already.
  void raise(std::int64_t stamp_us) { last_ = std::max(last_, stamp_us); }
  std::int64_t now_us() {
    const std::int64_t mono = clock_.mono_us();
    const std::int64_t passed = started_ ? mono - mono_at_last_ : 0;
    last_ = std::max({clock_.wall_us(), last_ + 1, last_ + passed});
    mono_at_last_ = mono;
    started_ = true;
    return last_;
  }

 private:
  Clock& clock_;
  std::int64_t last_ = 0;
  std::int64_t mono_at_last_ = 0;
  bool started_ = false;
};

}  // namespace queen::broker

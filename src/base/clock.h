// Time is passed in. µs throughout.
#pragma once

#include <cstdint>

namespace queen {

class Clock {
 public:
  virtual ~Clock() = default;
  // µs since the epoch (UTC); may jump. Thread-safe.
  virtual std::int64_t wall_us() = 0;
  // µs since some start; never goes back. Thread-safe.
  virtual std::int64_t mono_us() = 0;
};

class SystemClock final : public Clock {
 public:
  std::int64_t wall_us() override;
  std::int64_t mono_us() override;
};

// For tests: stands still until moved. Not thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(std::int64_t wall_us = 1'700'000'000'000'000) : wall_(wall_us) {}
  std::int64_t wall_us() override { return wall_; }
  std::int64_t mono_us() override { return mono_; }
  void advance(std::int64_t us) {
    wall_ += us;
    mono_ += us;
  }
  void jump_wall(std::int64_t us) { wall_ += us; }

 private:
  std::int64_t wall_;
  std::int64_t mono_ = 0;
};

}  // namespace queen

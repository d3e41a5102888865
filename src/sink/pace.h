// Waiting and repeating: back-off steps, waits that a stop cuts short, and log lines that may repeat.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/task.h"

namespace queen::sink {

inline constexpr std::int64_t kSecondUs = 1'000'000;

// Uniform in [low, high).
double uniform(Random& random, double low, double high);
// 0..200 ms, in µs.
std::int64_t claim_jitter_us(Random& random);

// How far nodes and queues that have the same reason to ask the bucket at the same time are spread (HD-6):
// what starts, what restores, and every queue at once when an hour or a day ends.
inline constexpr std::int64_t kStartSpreadUs = 200'000;
inline constexpr std::int64_t kRestoreSpreadUs = 500'000;
inline constexpr std::int64_t kBoundarySpreadUs = 5 * kSecondUs;
// 0..`most_us`.
std::int64_t spread_us(Random& random, std::int64_t most_us);

// Waits of a call that is repeated (s3-sink.md 3.3): min(1 s × 2^(n-1), 60 s) × 0.75..1.25, or exactly what
// the answer asked for.
class Backoff {
 public:
  std::int64_t next_us(Random& random, std::optional<std::int64_t> retry_after_us);
  int attempts() const { return attempts_; }

 private:
  int attempts_ = 0;
};

// What may end the wait of one queue's task: the stop of its sink, or that the queue is given back. On one
// executor.
class Interrupt {
 public:
  explicit Interrupt(Executor& executor) : executor_(executor), wake_(executor) {}
  void stop();
  void hand_off();
  // The queue was given back: its task goes on without the signal.
  void hand_off_done();
  bool stopping() const { return stopping_; }
  bool any() const { return stopping_ || handing_off_; }

  // Until `us` have passed or a signal comes. After a signal at most `cut_us`.
  Task<void> pause(std::int64_t us, std::int64_t cut_us = 250'000);

 private:
  Executor& executor_;
  Signal wake_;
  bool stopping_ = false;
  bool handing_off_ = false;
};

// Lets a line through once per period and kind, and counts what it held back. On one executor.
class LogLimit {
 public:
  // How many lines of `kind` were held back since the last one; nothing when this one must be held back as
  // well.
  std::optional<std::uint64_t> pass(std::string_view kind, std::int64_t now_mono_us, std::int64_t period_us);

 private:
  struct Kind {
    std::int64_t next_us = 0;
    std::uint64_t suppressed = 0;
  };
  std::map<std::string, Kind, std::less<>> kinds_;  // a fixed set of kinds
};

}  // namespace queen::sink

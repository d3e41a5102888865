#include "broker/log_scrub.h"

#include <algorithm>

namespace queen::broker {
namespace {

constexpr std::int64_t kSecondUs = 1'000'000;
// Short steps: a disk that serves clients is never asked for much at once.
constexpr std::int64_t kStepUs = 100'000;
// A small directory is read in a moment; it need not be read all the time.
constexpr std::int64_t kBetweenRoundsUs = 600 * kSecondUs;

}  // namespace

LogScrub::LogScrub(qlog::QueueLogs& logs, Executor& executor, std::uint64_t bytes_per_second, Logger log)
    : executor_(executor),
      bytes_per_second_(bytes_per_second),
      log_(std::move(log)),
      scrub_(logs.make_scrub()) {}

void LogScrub::start() {
  if (bytes_per_second_ == 0) return;
  round_began_us_ = executor_.clock().mono_us();
  executor_.post_after(kStepUs, [this] { tick(); });
}

void LogScrub::tick() {
  if (stopping_.load(std::memory_order_relaxed)) return;
  const std::int64_t began = executor_.clock().mono_us();
  const auto wanted = static_cast<std::uint64_t>(kStepUs) * bytes_per_second_ / kSecondUs;
  const qlog::ScrubStep step = scrub_->step(std::max<std::uint64_t>(wanted, 1));
  round_bytes_ += step.bytes;
  round_files_ += step.files;
  if (step.round_done) {
    log_.info("log_scrub_round", {{"files", round_files_},
                                  {"bytes", round_bytes_},
                                  {"seconds", (began - round_began_us_) / kSecondUs}});
    round_bytes_ = round_files_ = 0;
    round_began_us_ = began + kBetweenRoundsUs;
    return executor_.post_at(round_began_us_, [this] { tick(); });
  }
  // A record is read whole: one that is longer than a step is paid for with a longer wait.
  const auto paid_us = static_cast<std::int64_t>(step.bytes * kSecondUs / bytes_per_second_);
  executor_.post_at(began + std::max(kStepUs, paid_us), [this] { tick(); });
}

}  // namespace queen::broker

#include "sink/pace.h"

#include <algorithm>

namespace queen::sink {
namespace {

constexpr std::int64_t kLongestStepUs = 60 * kSecondUs;
constexpr int kStepsToLongest = 7;  // 1 s × 2^6 is above a minute

}  // namespace

double uniform(Random& random, double low, double high) {
  const double unit = static_cast<double>(random.next() >> 11) * 0x1.0p-53;
  return low + (high - low) * unit;
}

std::int64_t claim_jitter_us(Random& random) {
  return spread_us(random, 200'000);
}

std::int64_t spread_us(Random& random, std::int64_t most_us) {
  return static_cast<std::int64_t>(uniform(random, 0, static_cast<double>(most_us)));
}

std::int64_t Backoff::next_us(Random& random, std::optional<std::int64_t> retry_after_us) {
  attempts_ = std::min(attempts_ + 1, kStepsToLongest);
  if (retry_after_us) return std::max<std::int64_t>(0, *retry_after_us);
  const std::int64_t step = std::min(kSecondUs << (attempts_ - 1), kLongestStepUs);
  return static_cast<std::int64_t>(static_cast<double>(step) * uniform(random, 0.75, 1.25));
}

void Interrupt::stop() {
  stopping_ = true;
  wake_.set();
}

void Interrupt::hand_off() {
  handing_off_ = true;
  wake_.set();
}

void Interrupt::hand_off_done() {
  handing_off_ = false;
  if (!stopping_) wake_.clear();
}

Task<void> Interrupt::pause(std::int64_t us, std::int64_t cut_us) {
  if (any()) {
    co_await sleep_for(executor_, std::min(us, cut_us));
  } else {
    co_await wake_.wait_for(us);
  }
}

std::optional<std::uint64_t> LogLimit::pass(std::string_view kind, std::int64_t now_mono_us,
                                            std::int64_t period_us) {
  auto found = kinds_.find(kind);
  if (found == kinds_.end()) found = kinds_.emplace(std::string(kind), Kind{}).first;
  Kind& line = found->second;
  if (now_mono_us < line.next_us) {
    ++line.suppressed;
    return std::nullopt;
  }
  line.next_us = now_mono_us + period_us;
  return std::exchange(line.suppressed, 0);
}

}  // namespace queen::sink

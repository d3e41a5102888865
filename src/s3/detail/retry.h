// How long to wait before trying again (s3-sink.md 17.5, HD-6).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/ids.h"

namespace queen::s3 {

inline constexpr int kAttemptsMax = 6;
// An answer that contradicts what was sent is asked for again only this often in all (HD-3).
inline constexpr int kIntegrityAttemptsMax = 3;

// Wait after failed attempt `attempt` (from 1), µs. Uniform in [step/10, step] with step = min(unit ×
// 2^(attempt-1), 60 units), but never under one unit; `retry_after_us` is a floor; never above 60 units, or
// 60 s when asked for by the server. `unit_us` is 1 s outside tests.
inline std::int64_t retry_wait_us(int attempt, std::int64_t unit_us,
                                  std::optional<std::int64_t> retry_after_us, Random& random) {
  constexpr std::int64_t kUnitsMax = 60;
  constexpr std::int64_t kRetryAfterUsMax = 60'000'000;
  const std::int64_t units =
      attempt > 6 ? kUnitsMax : std::min<std::int64_t>(1LL << (attempt - 1), kUnitsMax);
  const std::int64_t step = units * unit_us;
  const std::int64_t low = step / 10;
  const auto spread = static_cast<std::uint64_t>(step - low) + 1;
  const std::int64_t wait = low + static_cast<std::int64_t>(random.next() % spread);
  return std::max({wait, unit_us, std::min(retry_after_us.value_or(0), kRetryAfterUsMax)});
}

}  // namespace queen::s3

// Instants as requests send them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/text.h"

namespace queen::api {

// To the millisecond: fractions of one are dropped, downwards also before 1970. µs since the epoch.
inline std::optional<std::int64_t> parse_instant_ms(std::string_view text) {
  constexpr std::int64_t kMicrosPerMilli = 1000;
  const auto instant = parse_iso_micros(trim(text));
  if (!instant) return std::nullopt;
  return *instant - (*instant % kMicrosPerMilli + kMicrosPerMilli) % kMicrosPerMilli;
}

}  // namespace queen::api

// What an in-memory queue is declared with (api-state.md EP-12), and what of it counts on this node.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace queen::ephemeral {

enum class Policy : std::uint8_t { reject, drop_oldest };

// As asked. 0: this node's default for max_bytes, max_length, lease_seconds and retry_limit; off for the
// rest.
struct Declaration {
  std::int64_t max_bytes = 0, max_length = 0;
  Policy policy = Policy::reject;
  std::int64_t ttl_seconds = 0, lease_seconds = 0, retry_limit = 0;
  std::int64_t window_ms = 0, window_count = 0;
  bool operator==(const Declaration&) const = default;
};

inline constexpr std::int64_t kLeaseSecondsMax = 86'400;
inline constexpr std::int64_t kRetryLimitMax = 1000;
inline constexpr std::int64_t kWindowMsMax = 60'000;
inline constexpr std::int64_t kWindowCountMax = 10'000;

struct Settings {
  std::int64_t node_bytes_max = 256LL << 20;
  std::int64_t queue_bytes_max = 16LL << 20;  // default, and the most that a declaration may have
  std::int64_t queue_length_max = 10'000;     // the same, in messages
  std::int64_t lease_seconds = 30;
  std::int64_t retry_limit = 5;
  std::int64_t idle_seconds = 300;  // an undeclared queue that is empty and unused so long goes; 0 = never
};

// The declaration within the node's bounds. None is a queue that nobody declared.
inline Declaration effective(const std::optional<Declaration>& declared, const Settings& settings) {
  Declaration out = declared.value_or(Declaration{});
  const auto within = [](std::int64_t asked, std::int64_t otherwise, std::int64_t most) {
    return std::min(asked == 0 ? otherwise : asked, most);
  };
  out.max_bytes = within(out.max_bytes, settings.queue_bytes_max, settings.queue_bytes_max);
  out.max_length = within(out.max_length, settings.queue_length_max, settings.queue_length_max);
  out.lease_seconds = within(out.lease_seconds, settings.lease_seconds, kLeaseSecondsMax);
  out.retry_limit = within(out.retry_limit, settings.retry_limit, kRetryLimitMax);
  out.window_ms = std::min(out.window_ms, kWindowMsMax);
  out.window_count = std::min(out.window_count, kWindowCountMax);
  return out;
}

}  // namespace queen::ephemeral

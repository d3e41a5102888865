#include "broker/retention_holds.h"

#include <fmt/format.h>

#include <algorithm>

namespace queen::broker {

void RetentionHolds::add(const std::string& tenant, const std::string& queue, const std::string& sink,
                         std::uint64_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  RetentionHold& hold = counting_[{tenant, queue}];
  hold.tenant = tenant;
  hold.queue = queue;
  hold.sink = sink;
  hold.bytes += bytes;
}

void RetentionHolds::end_round() {
  const std::lock_guard lock(mutex_);
  shown_.swap(counting_);
  counting_.clear();
}

std::vector<RetentionHold> RetentionHolds::shown() const {
  const std::lock_guard lock(mutex_);
  std::vector<RetentionHold> out;
  for (const auto& [name, hold] : shown_) out.push_back(hold);
  return out;
}

std::optional<std::string> RetentionHolds::warning(std::uint64_t log_bytes) const {
  const std::vector<RetentionHold> holds = shown();
  std::uint64_t total = 0;
  for (const RetentionHold& hold : holds) total += hold.bytes;
  if (total == 0 || total < log_bytes / 2) return std::nullopt;
  const auto largest = std::max_element(holds.begin(), holds.end(), [](const auto& left, const auto& right) {
    return left.bytes < right.bytes;
  });
  return fmt::format(
      "the retention hold of sinks keeps {} of the {} bytes of the logs, most of it for queue {} (sink {}, "
      "{} bytes)",
      total, log_bytes, largest->queue, largest->sink, largest->bytes);
}

}  // namespace queen::broker

#include "sink/health.h"

#include <algorithm>

namespace queen::sink {

Health::Health(std::int64_t max_window_us)
    : limit_us_(std::max<std::int64_t>(3 * max_window_us, 30'000'000)) {}

void Health::begin(const std::string& queue, std::int64_t now_us) {
  queues_.try_emplace(queue, Queue{.since_us = now_us, .lag_us = 0});
}

void Health::report(const std::string& queue, std::int64_t lag_us, std::int64_t now_us) {
  const auto found = queues_.find(queue);
  if (found != queues_.end()) found->second = Queue{.since_us = now_us, .lag_us = lag_us};
}

void Health::forget(const std::string& queue) {
  queues_.erase(queue);
}

HealthVerdict Health::verdict(std::int64_t now_us) const {
  HealthVerdict out;
  out.queues = queues_.size();
  out.limit_us = limit_us_;
  for (const auto& [name, queue] : queues_) {
    const std::int64_t stale = queue.lag_us + (now_us - queue.since_us);
    if (stale <= limit_us_) continue;
    out.ok = false;
    out.queue = name;
    out.stale_us = stale;
    break;
  }
  return out;
}

}  // namespace queen::sink

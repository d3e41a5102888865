// Whether the queues that this node runs keep up (s3-sink.md 22). Times in µs of the monotonic clock. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace queen::sink {

struct HealthVerdict {
  bool ok = true;
  std::size_t queues = 0;  // that this node runs
  std::string queue;       // the first stale one by name, when not ok
  std::int64_t stale_us = 0;
  std::int64_t limit_us = 0;
};

class Health {
 public:
  explicit Health(std::int64_t max_window_us);
  // A queue starts here. One that is known already keeps its last report, which gets older.
  void begin(const std::string& queue, std::int64_t now_us);
  void report(const std::string& queue, std::int64_t lag_us, std::int64_t now_us);
  // It is held elsewhere, fenced, drained or missing. A failed queue is not forgotten.
  void forget(const std::string& queue);
  // Red when a queue is stale by strictly more than three windows, 30 s at least.
  HealthVerdict verdict(std::int64_t now_us) const;

 private:
  struct Queue {
    std::int64_t since_us = 0;  // of the report, or of the start without one
    std::int64_t lag_us = 0;
  };
  std::int64_t limit_us_;
  std::map<std::string, Queue> queues_;  // bounded by the queues of the sink
};

}  // namespace queen::sink

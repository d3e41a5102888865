// The log scrub at its pace, on a thread of its own: storage.md CR-6.
#pragma once

#include <atomic>
#include <memory>

#include "base/executor.h"
#include "base/log.h"
#include "qlog/queue_logs.h"

namespace queen::broker {

// start() and stop() from any thread; everything else happens on the executor.
class LogScrub {
 public:
  // All outlive it, and the executor has stopped before it is destroyed. 0 bytes a second: it never runs.
  LogScrub(qlog::QueueLogs& logs, Executor& executor, std::uint64_t bytes_per_second, Logger log);

  void start();
  // No further step begins.
  void stop() { stopping_.store(true, std::memory_order_relaxed); }

 private:
  void tick();

  Executor& executor_;
  const std::uint64_t bytes_per_second_;
  Logger log_;
  std::unique_ptr<qlog::LogScrub> scrub_;
  std::uint64_t round_bytes_ = 0, round_files_ = 0;
  std::int64_t round_began_us_ = 0;
  std::atomic<bool> stopping_{false};
};

}  // namespace queen::broker

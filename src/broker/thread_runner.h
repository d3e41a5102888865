// Blocking work on threads of its own: the fsync pool, and the threads that read messages for answers.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "qlog/queue_logs.h"

namespace queen::broker {

// Threads are started as they are needed, up to the limit, and kept. Thread-safe.
class ThreadPool final : public qlog::ParallelRunner {
 public:
  ThreadPool(std::string name, std::size_t threads_max);
  ~ThreadPool() override;
  // The caller's thread runs the first piece; returns when all have run.
  void run_all(std::vector<UniqueFunction<void()>> pieces) override;
  // Runs `work` on some thread, later; after stop() on the caller's, at once: whoever waits is always
  // answered.
  void post(UniqueFunction<void()> work);
  // Finishes what runs and what is queued, then joins. Idempotent.
  void stop();

 private:
  void run(std::size_t number);

  const std::string name_;
  const std::size_t threads_max_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable wake_;
  std::deque<UniqueFunction<void()>> queue_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace queen::broker

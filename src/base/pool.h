// Blocking work spread over threads: fsyncs, and reads for answers.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_function.h"

namespace queen {

class ParallelRunner {
 public:
  virtual ~ParallelRunner() = default;
  // Runs every piece exactly once; returns when all are done. The caller's thread may run some.
  virtual void run_all(std::vector<UniqueFunction<void()>> pieces) = 0;
};
// Inline, in order.
class InlineRunner final : public ParallelRunner {
 public:
  void run_all(std::vector<UniqueFunction<void()>> pieces) override {
    for (auto& piece : pieces) piece();
  }
};

class Pool : public ParallelRunner {
 public:
  // Runs `work` on some thread, later; after stop() on the caller's, at once: whoever waits is always
  // answered.
  virtual void post(UniqueFunction<void()> work) = 0;
  // Finishes what runs and what is queued. Idempotent.
  virtual void stop() = 0;
};

// Threads are started as they are needed, up to the limit, and kept. Thread-safe.
class ThreadPool final : public Pool {
 public:
  ThreadPool(std::string name, std::size_t threads_max);
  ~ThreadPool() override;
  // The caller's thread runs the first piece.
  void run_all(std::vector<UniqueFunction<void()>> pieces) override;
  void post(UniqueFunction<void()> work) override;
  void stop() override;

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

}  // namespace queen

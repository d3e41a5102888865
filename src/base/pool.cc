#include "base/pool.h"

#include <fmt/format.h>
#include <pthread.h>

#include <latch>
#include <memory>

namespace queen {

ThreadPool::ThreadPool(std::string name, std::size_t threads_max)
    : name_(std::move(name)), threads_max_(threads_max) {}
ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::run_all(std::vector<UniqueFunction<void()>> pieces) {
  if (pieces.size() > 1) {
    auto left = std::make_shared<std::latch>(static_cast<std::ptrdiff_t>(pieces.size() - 1));
    for (std::size_t i = 1; i < pieces.size(); ++i) {
      post([piece = std::move(pieces[i]), left]() mutable {
        piece();
        left->count_down();
      });
    }
    pieces[0]();
    left->wait();
  } else if (!pieces.empty()) {
    pieces[0]();
  }
}

void ThreadPool::post(UniqueFunction<void()> work) {
  {
    std::unique_lock lock(mutex_);
    if (stopping_) {
      lock.unlock();
      return work();
    }
    queue_.push_back(std::move(work));
    if (idle_ < queue_.size() && threads_.size() < threads_max_) {
      threads_.emplace_back([this, number = threads_.size()] { run(number); });
    }
  }
  wake_.notify_one();
}

void ThreadPool::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void ThreadPool::run(std::size_t number) {
  pthread_setname_np(pthread_self(), fmt::format("{}-{}", name_, number).substr(0, 15).c_str());
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_;
    if (queue_.empty()) return;
    auto work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace queen

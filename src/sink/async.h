// Small helpers for coroutines of one executor: permits that are waited for in turn, and waiting for a group.
#pragma once

#include <coroutine>
#include <deque>
#include <exception>
#include <utility>

#include "base/executor.h"
#include "base/task.h"

namespace queen::sink {

// `count` permits, given in the order asked for. All use is on one executor. A mutex is AsyncPermits of 1.
class AsyncPermits {
 public:
  AsyncPermits(Executor& executor, int count) : executor_(executor), free_(count) {}
  AsyncPermits(const AsyncPermits&) = delete;
  AsyncPermits& operator=(const AsyncPermits&) = delete;

  // Held until destroyed. Outlived by its AsyncPermits.
  class Permit {
   public:
    explicit Permit(AsyncPermits* owner) : owner_(owner) {}
    Permit(Permit&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    Permit& operator=(Permit&& other) noexcept {
      std::swap(owner_, other.owner_);
      return *this;
    }
    ~Permit() {
      if (owner_ != nullptr) owner_->give_back();
    }

   private:
    AsyncPermits* owner_;
  };

  class Awaiter {
   public:
    explicit Awaiter(AsyncPermits& owner) : owner_(owner) {}
    bool await_ready() noexcept {
      if (owner_.free_ == 0) return false;
      --owner_.free_;
      return true;
    }
    void await_suspend(std::coroutine_handle<> caller) { owner_.waiting_.push_back(caller); }
    Permit await_resume() noexcept { return Permit(&owner_); }

   private:
    AsyncPermits& owner_;
  };
  Awaiter take() { return Awaiter(*this); }

 private:
  // The permit goes straight to the first waiter, so that nobody who comes later takes it away.
  void give_back() {
    if (waiting_.empty()) {
      ++free_;
      return;
    }
    const std::coroutine_handle<> next = waiting_.front();
    waiting_.pop_front();
    executor_.post([next] { next.resume(); });
  }

  Executor& executor_;
  int free_;
  std::deque<std::coroutine_handle<>> waiting_;
};

// Tasks that run beside each other on one executor; one coroutine waits for the end of all of them. Must be
// waited for before it is destroyed. What a task throws, the wait throws once all have ended: the first of
// them.
class TaskGroup {
 public:
  explicit TaskGroup(Executor& executor) : executor_(executor) {}
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  void start(Task<void> task) {
    ++running_;
    spawn(executor_, guarded(std::move(task)), [this] { ended(); });
  }
  int running() const { return running_; }

  class Awaiter {
   public:
    explicit Awaiter(TaskGroup& group) : group_(group) {}
    bool await_ready() const noexcept { return group_.running_ == 0; }
    void await_suspend(std::coroutine_handle<> caller) { group_.waiter_ = caller; }
    void await_resume() const {
      if (auto failure = std::exchange(group_.failure_, nullptr)) std::rethrow_exception(failure);
    }

   private:
    TaskGroup& group_;
  };
  Awaiter all_ended() { return Awaiter(*this); }

 private:
  Task<void> guarded(Task<void> task) {
    try {
      co_await std::move(task);
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
  }
  void ended() {
    --running_;
    if (running_ > 0 || !waiter_) return;
    const auto waiter = std::exchange(waiter_, nullptr);
    executor_.post([waiter] { waiter.resume(); });
  }

  Executor& executor_;
  int running_ = 0;
  std::coroutine_handle<> waiter_;
  std::exception_ptr failure_;
};

}  // namespace queen::sink

// Coroutines on an Executor: long-running work written as plain code, run in steps. A Task starts when it
// is awaited or given to spawn(), and resumes only on the executor it was spawned on; so one spawned task
// and everything it awaits never run in parallel with themselves.
#pragma once

#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "base/executor.h"

namespace queen {

template <class T>
class [[nodiscard]] Task;

namespace detail {

struct TaskPromiseBase {
  std::coroutine_handle<> continuation;
  std::exception_ptr failure;
  std::suspend_always initial_suspend() noexcept { return {}; }
  struct Final {
    bool await_ready() noexcept { return false; }
    template <class P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> done) noexcept {
      auto next = done.promise().continuation;
      return next ? next : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  Final final_suspend() noexcept { return {}; }
  // Nothing of ours throws, but memory runs out and libraries throw: whoever awaits the task gets it.
  void unhandled_exception() noexcept { failure = std::current_exception(); }
};

template <class T>
struct TaskPromise : TaskPromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
};

template <>
struct TaskPromise<void> : TaskPromiseBase {
  Task<void> get_return_object();
  void return_void() {}
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    handle_.promise().continuation = caller;
    return handle_;
  }
  // Throws what the task ended with, if it threw.
  T await_resume() {
    if (handle_.promise().failure) std::rethrow_exception(handle_.promise().failure);
    if constexpr (!std::is_void_v<T>) return std::move(*handle_.promise().value);
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

namespace detail {

template <class T>
Task<T> TaskPromise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<TaskPromise<T>>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<TaskPromise<void>>::from_promise(*this));
}

struct Detached {
  struct promise_type {
    Detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() { std::terminate(); }
  };
};

inline Detached run_detached(Task<void> task, Executor::Work done) {
  co_await std::move(task);
  if (done) done();
}

}  // namespace detail

// Runs `task` on `executor`, then `done` there. A task that throws ends the process: who can go on without it
// catches inside. A task whose executor stops before it ends is never resumed and its frame is leaked; so
// owners wait for `done` before they stop the executor.
inline void spawn(Executor& executor, Task<void> task, Executor::Work done = nullptr) {
  auto held = std::make_shared<std::pair<Task<void>, Executor::Work>>(std::move(task), std::move(done));
  executor.post([held] { detail::run_detached(std::move(held->first), std::move(held->second)); });
}

// co_await callback_result<T>(executor, start): calls start(done) at once; resumes on `executor` with the
// value given to `done`, which must be called exactly once, from any thread.
template <class T, class Start>
class CallbackAwaiter {
 public:
  CallbackAwaiter(Executor& executor, Start start) : executor_(executor), start_(std::move(start)) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) {
    start_(UniqueFunction<void(T)>([this, caller](T value) {
      value_.emplace(std::move(value));
      executor_.post([caller] { caller.resume(); });
    }));
  }
  T await_resume() { return std::move(*value_); }

 private:
  Executor& executor_;
  Start start_;
  std::optional<T> value_;
};

template <class T, class Start>
CallbackAwaiter<T, Start> callback_result(Executor& executor, Start start) {
  return CallbackAwaiter<T, Start>(executor, std::move(start));
}

// co_await sleep_for(executor, us).
class SleepAwaiter {
 public:
  SleepAwaiter(Executor& executor, std::int64_t us) : executor_(executor), us_(us) {}
  bool await_ready() const noexcept { return us_ <= 0; }
  void await_suspend(std::coroutine_handle<> caller) {
    executor_.post_after(us_, [caller] { caller.resume(); });
  }
  void await_resume() const noexcept {}

 private:
  Executor& executor_;
  std::int64_t us_;
};
inline SleepAwaiter sleep_for(Executor& executor, std::int64_t us) {
  return {executor, us};
}

// A latch that tasks of ONE executor wait for, with a time-out; set() wakes them all. Only on that executor.
class Signal {
 public:
  explicit Signal(Executor& executor) : executor_(executor), state_(std::make_shared<State>()) {}
  void set() {
    state_->set = true;
    auto waiters = std::move(state_->waiters);
    state_->waiters.clear();
    for (auto& waiter : waiters) wake(executor_, waiter);
  }
  void clear() { state_->set = false; }
  bool is_set() const { return state_->set; }

  struct Waiter {
    std::coroutine_handle<> handle;
    bool woken = false;
  };
  struct State {
    bool set = false;
    std::deque<std::shared_ptr<Waiter>> waiters;
  };
  class Awaiter {
   public:
    Awaiter(Executor& executor, std::shared_ptr<State> state, std::int64_t us)
        : executor_(executor), state_(std::move(state)), us_(us) {}
    bool await_ready() const noexcept { return state_->set || us_ <= 0; }
    void await_suspend(std::coroutine_handle<> caller) {
      auto waiter = std::make_shared<Waiter>();
      waiter->handle = caller;
      state_->waiters.push_back(waiter);
      Executor& executor = executor_;
      executor_.post_after(us_, [waiter, state = state_, &executor] {
        std::erase(state->waiters, waiter);
        wake(executor, waiter);
      });
    }
    // True when the signal is set.
    bool await_resume() const noexcept { return state_->set; }

   private:
    Executor& executor_;
    std::shared_ptr<State> state_;
    std::int64_t us_;
  };
  // co_await signal.wait_for(us): until set or `us` have passed; gives is_set().
  Awaiter wait_for(std::int64_t us) { return {executor_, state_, us}; }

 private:
  static void wake(Executor& executor, const std::shared_ptr<Waiter>& waiter) {
    if (waiter->woken) return;
    waiter->woken = true;
    executor.post([handle = waiter->handle] { handle.resume(); });
  }
  Executor& executor_;
  std::shared_ptr<State> state_;
};

}  // namespace queen

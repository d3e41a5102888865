// One answer per request, from whoever comes first: the broker, or the request's deadline.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/executor.h"
#include "base/unique_function.h"
#include "http/server.h"

namespace queen::api {

// Where an answer goes. Over a connection it is an http::Responder.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void send(http::Response response) = 0;
  virtual void on_disconnect(UniqueFunction<void()> gone) = 0;
  virtual bool client_gone() const = 0;
};
std::unique_ptr<Reply> reply_to(http::Responder responder);

// Calls that run at a time unless cancelled first. One timer of the executor is armed for the nearest of
// them, so that thousands of requests with the same deadline cost one wake-up and a cancelled one frees its
// memory at once. Thread-safe.
class Deadlines {
 public:
  using Ticket = std::uint64_t;  // 0 = none
  explicit Deadlines(Executor& executor);
  ~Deadlines();
  // `late` runs on the executor once its clock has reached `mono_us`.
  Ticket add(std::int64_t mono_us, UniqueFunction<void()> late);
  // False when `late` has run, is running or was cancelled.
  bool cancel(Ticket ticket);
  std::size_t waiting() const;
  std::int64_t now_us() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // timers on the executor hold it weakly: they may outlive this object
};

// A request that is waiting for the broker. Thread-safe.
class Pending {
 public:
  Pending(Deadlines& deadlines, std::unique_ptr<Reply> reply)
      : deadlines_(deadlines), reply_(std::move(reply)) {}

  // `late` runs if nothing has been answered by `mono_us`. Before the request is handed to the broker, at
  // most once.
  void set_deadline(std::int64_t mono_us, UniqueFunction<void()> late) {
    ticket_ = deadlines_.add(mono_us, std::move(late));
  }
  // True for exactly one caller: the one who may call send().
  bool claim() { return !claimed_.exchange(true); }
  void send(http::Response response);
  // claim() and send() in one; false when somebody else answered.
  bool answer(http::Response response);
  // After a claim() that was true: the request is answered later by somebody else.
  std::unique_ptr<Reply> release();
  void on_disconnect(UniqueFunction<void()> gone) { reply_->on_disconnect(std::move(gone)); }
  bool client_gone() const { return reply_->client_gone(); }

 private:
  Deadlines& deadlines_;
  std::unique_ptr<Reply> reply_;
  std::atomic<Deadlines::Ticket> ticket_ = 0;  // atomic: a short deadline may pass while it is being set
  std::atomic<bool> claimed_ = false;
};

}  // namespace queen::api

// A client of the node: coroutines on a lane of their own, whose calls go through the network and may get no
// answer.
#pragma once

#include <coroutine>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/task.h"
#include "network.h"
#include "node.h"

namespace queen::sim {

inline constexpr std::uint32_t kNodeEnd = 0;  // of the network

// An answer, with the log time of the node when the call arrived and when its answer left.
template <class T>
struct Reply {
  T value;
  std::int64_t before_us = 0, after_us = 0;
};

// What all clients share.
struct ClientWorld {
  World& world;
  Network& network;
  SimNode& node;
  Executor& lane;
  Story& story;
  // Calls that wait for an answer, by their number.
  std::map<std::uint64_t, std::function<void()>> waiting = {};
  std::uint64_t calls = 0;

  // The node is gone, and most of those who wait for it are told so by its machine.
  void reset_connections() {
    for (const auto& [number, end] : waiting)
      if (world.dice().chance(80)) lane.post_after(world.dice().between(0, 20 * kMsUs), end);
  }
};

class Client {
 public:
  // `end` is its own in the network, from 1.
  Client(ClientWorld& shared, std::uint32_t end, std::uint64_t seed)
      : shared_(shared), end_(end), dice_(seed, "client" + std::to_string(end)) {}
  template <class T>
  using Start = std::function<void(broker::Broker&, UniqueFunction<void(T)>)>;

  // Nothing: no answer within `timeout_us`. The call may have been carried out, may still be, or never.
  template <class T>
  Task<std::optional<Reply<T>>> call(Start<T> start, std::int64_t timeout_us) {
    auto waiting = std::make_shared<Waiting<T>>();
    send<T>(std::move(start), waiting);
    const std::uint64_t number = ++shared_.calls;
    shared_.waiting[number] = [waiting] { waiting->end({}); };
    shared_.lane.post_after(timeout_us, [waiting] { waiting->end({}); });
    // Named: GCC 12 destroys aggregate temporaries of a co_await twice.
    Awaiter<T> answered(waiting);
    auto reply = co_await answered;
    shared_.waiting.erase(number);
    co_return reply;
  }
  SleepAwaiter sleep(std::int64_t us) { return sleep_for(shared_.lane, us); }
  Dice& dice() { return dice_; }
  Story& story() { return shared_.story; }
  SimNode& node() { return shared_.node; }
  Uuid uuid() { return make_uuid_v7(kEpochUs + shared_.world.now_us(), dice_.random()); }
  std::uint32_t end() const { return end_; }

 private:
  template <class T>
  struct Waiting {
    bool over = false;
    std::optional<Reply<T>> reply;
    std::coroutine_handle<> caller;
    void end(std::optional<Reply<T>> given) {
      if (over) return;
      over = true;
      reply = std::move(given);
      if (caller) caller.resume();
    }
  };
  template <class T>
  class Awaiter {
   public:
    explicit Awaiter(std::shared_ptr<Waiting<T>> given) : waiting(std::move(given)) {}
    bool await_ready() const { return waiting->over; }
    void await_suspend(std::coroutine_handle<> handle) { waiting->caller = handle; }
    std::optional<Reply<T>> await_resume() { return std::move(waiting->reply); }

   private:
    std::shared_ptr<Waiting<T>> waiting;
  };

  template <class T>
  void send(Start<T> start, std::shared_ptr<Waiting<T>> waiting) {
    shared_.network.send_once(end_, kNodeEnd, [this, start = std::move(start), waiting] {
      if (!shared_.node.up() || !*shared_.node.alive()) return;
      shared_.node.calls().post([this, start, waiting, alive = shared_.node.alive()] {
        const std::int64_t before = shared_.node.safe_time_us();
        start(shared_.node.broker(), [this, waiting, alive, before](T value) mutable {
          if (*alive) answer<T>(std::move(value), before, waiting, alive);
        });
      });
    });
  }
  // An answer that was on its way to the network when the power went never left.
  template <class T>
  void answer(T value, std::int64_t before, std::shared_ptr<Waiting<T>> waiting,
              std::shared_ptr<const bool> alive) {
    shared_.node.calls().post([this, value = std::move(value), before, waiting, alive]() mutable {
      if (!*alive || shared_.node.dark()) return;
      Reply<T> reply{std::move(value), before, shared_.node.safe_time_us()};
      auto held = std::make_shared<Reply<T>>(std::move(reply));
      shared_.network.send_once(kNodeEnd, end_, [this, held, waiting] {
        shared_.lane.post([held, waiting] { waiting->end(std::move(*held)); });
      });
    });
  }

  ClientWorld& shared_;
  const std::uint32_t end_;
  Dice dice_;
};

}  // namespace queen::sim

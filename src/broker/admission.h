// The byte budget of commands that grow the data and were not planned yet (storage.md 24): what does not fit
// waits its turn, without a thread, and is refused when its hold is over.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/executor.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/unique_function.h"

namespace queen::broker {

// Thread-safe.
class Admission {
 public:
  struct Limits {
    std::uint64_t bytes_max = 0;  // 0 = off: everything is admitted at once
    std::int64_t hold_us = 15'000'000;
  };
  struct State;

  // Bytes of the budget, given back when it is destroyed.
  class Permit {
   public:
    Permit() = default;
    Permit(std::shared_ptr<State> state, std::uint64_t bytes) : state_(std::move(state)), bytes_(bytes) {}
    Permit(Permit&&) noexcept = default;
    Permit& operator=(Permit&& other) noexcept;
    ~Permit() { give_back(); }

   private:
    void give_back();
    std::shared_ptr<State> state_;  // shared with the budget: a permit may outlive it
    std::uint64_t bytes_ = 0;
  };
  // A permit, or nothing once the hold is over.
  using Decided = UniqueFunction<void(std::optional<Permit>)>;

  Admission(Limits limits, Executor& timers, Random& random, Logger log);
  ~Admission();

  // First come, first served; a command larger than the whole budget goes when nothing else holds any of it
  // (BP-2). `decided` runs once: at once, on the thread of whoever gives bytes back, or on `timers`.
  void enter(std::uint64_t bytes, Decided decided);
  // Whoever waits is refused now, and everybody later.
  void close();

  struct Figures {
    std::uint64_t held_bytes = 0, waiting = 0, waited = 0, refused = 0;
  };
  Figures figures() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace queen::broker

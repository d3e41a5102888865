// Fires timers (api-state.md 3.4): every tick those that are due become messages, step after step while there
// are more; one that is scheduled when it is due already is not kept waiting for the tick (TM-5). The
// operator's switch holds all of them back.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/executor.h"
#include "broker/garbage.h"
#include "broker/payload_opener.h"
#include "broker/state_reads.h"

namespace queen::broker {

// One step is on its way at a time: no timer is ever submitted twice, and those of one partition keep their
// order. start() and scheduled() from any thread; everything else runs on `timers`, which is stopped before
// this goes. All references outlive it.
class TimerFire {
 public:
  struct World {
    const StateReads& state;
    Executor& timers;
    Clock& clock;
    Random& random;
    std::function<std::int64_t()> lead_us;  // of log time over the wall clock
    const auth::PayloadCipher* cipher;      // null = no key
    Logger log;
  };
  TimerFire(Submit submit, World world, TimerSettings settings, std::uint64_t entry_bytes_max);
  void start();
  // A timer that is due at `due_us` (stamp µs) is in the store now.
  void scheduled(std::int64_t due_us);

 private:
  struct Fired {
    bool refused = false;  // the whole command, for now
    bool moved = false;    // a timer went, or is due later
  };

  bool fires() const { return settings_.tick_us > 0; }
  std::int64_t now_us() const { return world_.clock.wall_us() + world_.lead_us(); }
  void tick();
  void look();
  void submit_step();
  Fired judge(const Answer<machine::Outcome>& answer);
  void settled(Fired fired);

  Submit submit_;
  World world_;
  const TimerSettings settings_;
  const std::uint64_t entry_bytes_max_;
  const PayloadOpener opener_;
  std::atomic<bool> woken_{false};
  // Of `timers` alone.
  std::size_t in_flight_ = 0;  // commands of the step
  bool moved_ = false;         // by one of them
  std::int64_t held_until_ = 0;
  std::string held_for_;  // the refusal that was logged; empty once a step went through
};

}  // namespace queen::broker

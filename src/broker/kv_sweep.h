// Takes expired key/value rows away (api-state.md 1.5): every QUEEN_RAFT_KV_SWEEP_MS, and again at once while
// there are more than one step takes, so that rows go as fast as they expire.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/executor.h"
#include "broker/garbage.h"
#include "store/store.h"

namespace queen::broker {

// One thread calls start(); ticks run on `timers`, which is stopped before this goes.
class KvSweep {
 public:
  // `step_rows`: of one step, at least 1.
  KvSweep(Submit submit, const store::Store& store, Executor& timers, Clock& clock, Random& random,
          std::int64_t every_us, std::uint32_t step_rows)
      : submit_(std::move(submit)),
        store_(store),
        timers_(timers),
        clock_(clock),
        random_(random),
        every_us_(every_us),
        step_rows_(step_rows) {}
  void start();

 private:
  void tick();
  // Whether a row has expired by the greatest stamp applied.
  bool more() const;

  Submit submit_;
  const store::Store& store_;
  Executor& timers_;
  Clock& clock_;
  Random& random_;
  const std::int64_t every_us_;
  const std::uint32_t step_rows_;
};

}  // namespace queen::broker

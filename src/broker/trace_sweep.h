// Drops traces that are too old (storage.md RT-16): once a second, and again at once while there are more.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/executor.h"
#include "broker/garbage.h"

namespace queen::broker {

// One thread calls start(); ticks run on `timers`, which is stopped before this goes.
class TraceSweep {
 public:
  TraceSweep(Submit submit, Executor& timers, Clock& clock, Random& random, TraceSettings settings)
      : submit_(std::move(submit)), timers_(timers), clock_(clock), random_(random), settings_(settings) {}
  void start();

 private:
  void tick();

  Submit submit_;
  Executor& timers_;
  Clock& clock_;
  Random& random_;
  const TraceSettings settings_;
};

}  // namespace queen::broker

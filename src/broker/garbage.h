// Deleting what is large in steps, and the rows of what was deleted (storage.md RT-15). Every step is an
// entry of its own, so that other commands come in between.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/executor.h"
#include "base/ids.h"
#include "broker/broker.h"

namespace queen::broker {

// Hands a command on its way; `done` runs exactly once, on any thread.
using Submit = std::function<void(machine::Command, UniqueFunction<void(Answer<machine::Outcome>)>)>;

// Runs a QueueDeleteCommand to its end: the answer is that of the last step, or the first refusal. What the
// steps before a refusal removed stays removed; the same call goes on.
void delete_queue(Submit submit, machine::Command first, Clock& clock, Random& random,
                  UniqueFunction<void(Answer<machine::Outcome>)> done);

// Asks for a chunk of garbage to be deleted: once a second, and again at once while there is more. One thread
// calls start(); ticks run on `timers`, which is stopped before this goes.
class GarbageTick {
 public:
  GarbageTick(Submit submit, Executor& timers, Clock& clock, Random& random);
  void start();

 private:
  void tick();

  Submit submit_;
  Executor& timers_;
  Clock& clock_;
  Random& random_;
};

}  // namespace queen::broker

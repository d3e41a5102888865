// Timers: clients that schedule, reschedule and cancel, several in a call and on the same keys.
#pragma once

#include "workload.h"

namespace queen::sim {

struct TimerQueuePlan {
  std::string name;
  std::int64_t partitions = 2;
  bool encrypted = false;
  bool configured = true;  // else the first message makes it
};
struct TimersPlan {
  std::vector<TimerQueuePlan> queues;
  std::int64_t clients = 2;
  std::int64_t calls = 10;  // of each client
  std::int64_t keys = 4;    // of each queue
  std::int64_t pause_us_max = 200 * kMsUs;
  std::int64_t delay_us_max = 2 * kSecondUs;
};

TimersPlan draw_timers(Dice& dice, bool small, bool encrypted);
std::unique_ptr<Workload> make_timers(Scene& scene, TimersPlan plan);

}  // namespace queen::sim

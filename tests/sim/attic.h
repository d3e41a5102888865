// Old messages: a queue whose appends leave memory after a second, and groups that go back to them by stamp,
// by offset and by policy, are forgotten, and begin anew.
#pragma once

#include "workload.h"

namespace queen::sim {

struct AtticPlan {
  std::string queue = "attic";
  std::int64_t partitions = 2, readers = 1;
  std::int64_t pushes = 6, calls = 8;
  std::int64_t pause_us_max = 300 * kMsUs;
  std::int64_t delay_seconds = 0;   // of delivery
  std::int64_t window_seconds = 0;  // messages wait for others
};
AtticPlan draw_attic(Dice& dice, bool small, bool encrypted);

std::unique_ptr<Workload> make_attic(Scene& scene, AtticPlan plan);

}  // namespace queen::sim

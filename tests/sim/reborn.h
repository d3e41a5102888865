// A queue that is deleted and made again while others push to it and read it: what was in it before is gone.
#pragma once

#include "workload.h"

namespace queen::sim {

struct RebornPlan {
  std::string queue = "reborn";
  std::int64_t partitions = 2, producers = 1, consumers = 1;
  std::int64_t pushes = 8;  // of each producer
  std::int64_t deletions = 3;
  std::int64_t pause_us_max = 200 * kMsUs;
};

RebornPlan draw_reborn(Dice& dice, bool small, bool encrypted);
std::unique_ptr<Workload> make_reborn(Scene& scene, RebornPlan plan);

}  // namespace queen::sim

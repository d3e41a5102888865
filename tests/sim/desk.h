// What operators and tools do at a node's desk: switches, quotas, declarations of in-memory queues, traces.
#pragma once

#include "workload.h"

namespace queen::sim {

struct DeskPlan {
  std::int64_t clients = 1, calls = 6;
  std::int64_t pause_us_max = 50 * kMsUs;
  std::int64_t trace_retention_us = 7LL * 86'400 * kSecondUs;  // of the node
};
DeskPlan draw_desk(Dice& dice, bool small, bool encrypted);

std::unique_ptr<Workload> make_desk(Scene& scene, DeskPlan plan);

}  // namespace queen::sim

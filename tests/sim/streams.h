// A streams query: workers that read a queue, keep a sum for each partition and push what they make of each
// message to another queue, all of it in cycles that take place together or not at all.
#pragma once

#include "workload.h"

namespace queen::sim {

struct StreamsPlan {
  std::string source = "flow", sink = "made", group = "stream";
  std::int64_t partitions = 2, workers = 2;
  std::int64_t pushes = 5;
  std::int64_t pause_us_max = 50 * kMsUs;
};
StreamsPlan draw_streams(Dice& dice, bool small, bool encrypted);

std::unique_ptr<Workload> make_streams(Scene& scene, StreamsPlan plan);

}  // namespace queen::sim

// The sink's side of a history: queues that are copied to the bucket, and what the bucket must then hold.
#pragma once

#include "sink/settings.h"
#include "workload.h"

namespace queen::sim {

struct LakePlan {
  std::optional<sink::SinkSettings> sink;  // nothing: no sink runs
  std::set<std::string> retained_queues;   // of those in the bucket: whose messages never leave the log
  std::set<std::string> held_queues;       // of those in the bucket: retention waits for the sink
};

std::unique_ptr<Workload> make_lake(Scene& scene, LakePlan plan);

}  // namespace queen::sim

// Producers and consumers: pushes with repeats, pops, acks of every kind, leases that run out, retention.
#pragma once

#include "workload.h"

namespace queen::sim {

struct MessageQueuePlan {
  std::string name;
  std::int64_t partitions = 3, consumers = 2;
  bool encrypted = false;
  std::int64_t retention_seconds = 0;
  std::int64_t completed_retention_seconds = 0;
  bool hold = false;  // retention waits for the sink
  std::int64_t retry_limit = 3;
  std::uint64_t failing_pct = 0;  // of claims whose first message fails
  bool dead_letters = true;
  bool in_bucket = false;
};
struct MessagesPlan {
  std::vector<MessageQueuePlan> queues;
  std::int64_t producers = 2;
  std::int64_t pushes = 20;                 // of each producer
  std::int64_t pause_us_max = 200 * kMsUs;  // between two of its pushes
  std::uint64_t twins_pct = 0;              // of pushes that are sent twice at the same time
};

std::unique_ptr<Workload> make_messages(Scene& scene, MessagesPlan plan);

}  // namespace queen::sim

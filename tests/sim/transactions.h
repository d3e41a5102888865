// Transactions: workers that take messages from one queue and put one for each into others, together with
// keys and timers; all of a transaction takes place or nothing does, and each message is worked on once.
#pragma once

#include "workload.h"

namespace queen::sim {

struct SinkQueuePlan {
  std::string name;
  std::int64_t partitions = 2;
  bool encrypted = false;
};
struct TransactionsPlan {
  std::string source = "work";
  std::int64_t source_partitions = 2;
  std::vector<SinkQueuePlan> sinks;
  std::int64_t workers = 2;
  std::int64_t pushes = 10;  // to the source
  std::int64_t pause_us_max = 200 * kMsUs;
};

TransactionsPlan draw_transactions(Dice& dice, bool small, bool encrypted);
std::unique_ptr<Workload> make_transactions(Scene& scene, TransactionsPlan plan);

}  // namespace queen::sim

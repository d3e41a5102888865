// Locks and semaphores, by the steps of the route for them: holders, renewals, and work that is guarded by a
// token.
#pragma once

#include "workload.h"

namespace queen::sim {

struct LocksPlan {
  std::int64_t clients = 3;
  std::vector<std::uint32_t> limits;  // of each lock: its permits
  std::int64_t rounds = 5;            // of each client: an acquire and what follows
  std::int64_t pause_us_max = 300 * kMsUs;
  std::int64_t ttl_seconds_max = 3;
};

LocksPlan draw_locks(Dice& dice, bool small, bool encrypted);
std::unique_ptr<Workload> make_locks(Scene& scene, LocksPlan plan);

}  // namespace queen::sim

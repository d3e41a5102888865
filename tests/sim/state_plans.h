// The kinds of use beside plain messages: what of them a history has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "attic.h"
#include "desk.h"
#include "keys.h"
#include "letters.h"
#include "locks.h"
#include "reborn.h"
#include "streams.h"
#include "timers.h"
#include "transactions.h"

namespace queen::sim {

struct StatePlans {
  std::optional<AtticPlan> attic;
  std::optional<DeskPlan> desk;
  std::optional<KeysPlan> keys;
  std::optional<LettersPlan> letters;
  std::optional<LocksPlan> locks;
  std::optional<RebornPlan> reborn;
  std::optional<StreamsPlan> streams;
  std::optional<TimersPlan> timers;
  std::optional<TransactionsPlan> transactions;
  bool any() const { return keys || letters || locks || reborn || timers || transactions; }
  bool any_rare() const { return attic || desk || streams; }
};

// Each from dice of its own.
StatePlans draw_state_plans(std::uint64_t seed, bool small, bool encrypted);
void make_state_workloads(Scene& scene, const StatePlans& plans,
                          std::vector<std::unique_ptr<Workload>>& workloads);

}  // namespace queen::sim

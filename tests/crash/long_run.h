// Crash points of workloads from other seeds, for as long as is wanted.
#pragma once

#include <cstdint>

namespace queen::crash {

// Adds the test CrashPoints.LongSeededRun: workloads of `seed`, `seed` + 1, ... until `points` crash points
// were seen.
void register_long_run(std::uint64_t seed, std::uint64_t points);

// Adds the test Faults.EveryCallOfEveryOperation, which samples nothing.
void register_every_call();

}  // namespace queen::crash

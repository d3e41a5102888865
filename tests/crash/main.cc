#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "long_run.h"

// QUEEN_CRASH_SEED adds a run of QUEEN_CRASH_POINTS (100,000) crash points from that seed on,
// QUEEN_CRASH_POINTS also a fault at every single call of the disk.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* seed = std::getenv("QUEEN_CRASH_SEED");
  const char* points = std::getenv("QUEEN_CRASH_POINTS");
  if (seed != nullptr || points != nullptr) {
    if (points != nullptr) queen::crash::register_every_call();
    queen::crash::register_long_run(seed != nullptr ? std::stoull(seed) : 1,
                                    points != nullptr ? std::stoull(points) : 100'000);
  }
  return RUN_ALL_TESTS();
}

// Keys and values: clients on a few keys, whose answers some order of their calls must explain.
#pragma once

#include "workload.h"

namespace queen::sim {

struct KeysPlan {
  std::int64_t clients = 3;
  std::int64_t keys = 2;
  std::int64_t calls = 10;  // of each client
  std::int64_t pause_us_max = 200 * kMsUs;
};

KeysPlan draw_keys(Dice& dice, bool small, bool encrypted);
std::unique_ptr<Workload> make_keys(Scene& scene, KeysPlan plan);

}  // namespace queen::sim

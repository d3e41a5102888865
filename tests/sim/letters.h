// Dead letters: messages that are failed on purpose, filed, sent back and deleted; and groups that are set
// back and forth.
#pragma once

#include "workload.h"

namespace queen::sim {

struct LettersPlan {
  std::string queue = "sick";
  std::int64_t partitions = 2, groups = 1, consumers = 2;
  bool encrypted = false;
  std::int64_t retry_limit = 1;
  std::int64_t pushes = 6;
  std::int64_t replays = 4;  // or deletions
  std::int64_t seeks = 0;
  std::int64_t pause_us_max = 200 * kMsUs;
};

LettersPlan draw_letters(Dice& dice, bool small, bool encrypted);
std::unique_ptr<Workload> make_letters(Scene& scene, LettersPlan plan);

}  // namespace queen::sim

// One history: a node with its clients from the first boot to the last look, and what it broke.
#pragma once

#include <cstdint>
#include <string>

#include "plan.h"
#include "story.h"

namespace queen::sim {

struct Verdict {
  std::uint64_t digest = 0;
  std::string rule, what;  // empty: nothing was broken
  std::string story;       // its end, when events were kept
  std::uint64_t steps = 0, lives = 0, messages = 0, calls = 0, answers = 0;
  std::int64_t virtual_us = 0;
  bool failed() const { return !rule.empty(); }
};

Verdict run_history(const HistoryPlan& plan, Story::Keep keep, std::size_t story_lines = 60);

}  // namespace queen::sim

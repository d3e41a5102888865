// Many histories, spread over processes: a history that ends its process is a failing history, and no more.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "history.h"

namespace queen::sim {

// One seed in thirty-two is a large history.
Size size_of(std::uint64_t seed);
HistoryPlan plan_of(std::uint64_t seed);

enum class Only : std::uint8_t {
  all,
  small,  // small histories of a node and its clients alone
  sink,   // histories with a sink, large ones too
};

struct RunOptions {
  std::uint64_t first = 1, last = 1;
  Only only = Only::all;                    // the other seeds are passed over
  std::optional<std::int64_t> seconds_max;  // stops early
  int jobs = 1;
  std::uint64_t twice_every = 0;    // every so many seeds run twice and must end alike; 0 = none
  std::uint64_t failures_max = 10;  // stops then
};
struct Failure {
  std::uint64_t seed = 0;
  std::string rule, what;
};
struct RunReport {
  std::uint64_t histories = 0, with_sink = 0, lives = 0, messages = 0, calls = 0, answers = 0, steps = 0,
                twice = 0;
  std::uint64_t digest = 0;  // of all histories that ran; no order in it
  std::int64_t virtual_us = 0;
  double seconds = 0, cpu_seconds = 0;
  std::vector<Failure> failures;  // by seed
};

// `before` runs in each process that runs histories, before the first.
RunReport run_seeds(const RunOptions& options, const std::function<void()>& before = nullptr);

// One history in a process of its own. The rule is "the process ends" when it does.
Verdict run_apart(const HistoryPlan& plan, Story::Keep keep, std::size_t story_lines);

}  // namespace queen::sim

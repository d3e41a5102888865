// The simulator's program; docs/simulation.md says how to use it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "history.h"

int main(int argc, char** argv) {
  using namespace queen::sim;
  const std::uint64_t from = argc > 1 ? std::stoull(argv[1]) : 1;
  const std::uint64_t to = argc > 2 ? std::stoull(argv[2]) : from;
  const bool trace = argc > 3;
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t virtual_us = 0;
  std::uint64_t lives = 0, messages = 0, steps = 0, answers = 0, failed = 0;
  for (std::uint64_t seed = from; seed <= to; ++seed) {
    const Size size = seed % 16 == 0 ? Size::large : Size::small;
    const auto verdict = run_history(make_plan(seed, size), trace ? Story::Keep::events : Story::Keep::nothing, 100000);
    if (trace) std::printf("%s", verdict.story.c_str());
    virtual_us += verdict.virtual_us;
    lives += verdict.lives;
    messages += verdict.messages;
    steps += verdict.steps;
    answers += verdict.answers;
    if (verdict.failed()) {
      ++failed;
      std::printf("seed %lu: %s: %s\n", seed, verdict.rule.c_str(), verdict.what.c_str());
    }
    if (from == to) std::printf("digest %016lx\n", verdict.digest);
  }
  const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%lu histories, %lu failed, %.1f/s, %.0f times real time, %lu lives, %lu messages, %lu answers, %lu steps\n",
              to - from + 1, failed, static_cast<double>(to - from + 1) / s, static_cast<double>(virtual_us) / 1e6 / s, lives, messages, answers, steps);
}

// The simulator's program; docs/simulation.md says how to use it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>

#include "base/planted_bugs.h"
#include "runner.h"
#include "shrink.h"

namespace queen::sim {
namespace {

constexpr int kShrinkTries = 400;
constexpr std::size_t kStoryLines = 40;

#ifdef QUEEN_PLANTED_BUGS
constexpr bool kPlanted = true;
void choose_bug(std::optional<PlantedBug> bug) {
  plant(bug);
}
#else
constexpr bool kPlanted = false;
void choose_bug(std::optional<PlantedBug> /*bug*/) {}
#endif

constexpr std::uint64_t kBugSeedsMax = 1000;    // within which each bug must be found
constexpr std::uint64_t kBugSeedsMedian = 200;  // and half of them

struct Arguments {
  std::string seeds = "1..10000";
  double minutes = 0;
  std::int64_t replay = -1;
  std::string cuts;
  std::string bug;
  Only only = Only::all;
  bool trace = false, no_shrink = false, bugs = false;
  int jobs = 2;
  std::uint64_t twice_every = 100;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) out.push_back(one);
  return out;
}

std::string join(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : ",") + name;
  return out;
}

void tell(const HistoryPlan& plan, const Verdict& verdict, std::size_t lines) {
  std::printf("the plan: %zu queues, %ld producers of %ld pushes, %ld ms of work, %zu faults\n",
              plan.messages.queues.size(), plan.messages.producers, plan.messages.pushes,
              plan.active_us / 1000, plan.faults.size());
  for (const auto& fault : plan.faults) std::printf("  fault: %s\n", to_string(fault).c_str());
  std::string story = verdict.story;
  std::size_t from = story.size();
  for (std::size_t i = 0; i <= lines && from != std::string::npos && from > 0; ++i)
    from = story.rfind('\n', from - 1);
  if (lines != SIZE_MAX && from != std::string::npos) story.erase(0, from + 1);
  std::printf("%s", story.c_str());
  if (verdict.failed())
    std::printf("BROKEN: %s: %s\n", verdict.rule.c_str(), verdict.what.c_str());
  else
    std::printf("ok, digest %016lx\n", verdict.digest);
}

int replay(const Arguments& arguments) {
  HistoryPlan plan = plan_of(static_cast<std::uint64_t>(arguments.replay));
  if (const auto unknown = apply_cuts(plan, split(arguments.cuts)); !unknown.empty()) {
    std::fprintf(stderr, "sim: no cut named %s here\n", unknown.c_str());
    return 2;
  }
  const std::size_t lines = arguments.trace ? SIZE_MAX : kStoryLines;
  const Verdict verdict = arguments.trace ? run_history(plan, Story::Keep::events, SIZE_MAX / 2)
                                          : run_apart(plan, Story::Keep::events, 100'000);
  tell(plan, verdict, lines);
  return verdict.failed() ? 1 : 0;
}

void explain(const Failure& failure, bool shrinks) {
  HistoryPlan plan = plan_of(failure.seed);
  std::vector<std::string> cuts;
  // What is left breaks the same rule: a smaller history that breaks another would tell another story.
  const auto fails = [&failure](const HistoryPlan& smaller) {
    const Verdict verdict = run_apart(smaller, Story::Keep::nothing, 0);
    return verdict.failed() && verdict.rule.starts_with(failure.rule);
  };
  if (shrinks) cuts = shrink(plan, fails, kShrinkTries);
  apply_cuts(plan, cuts);
  tell(plan, run_apart(plan, Story::Keep::events, 100'000), kStoryLines);
  std::printf("again: scripts/test sim --replay %lu%s%s\n", failure.seed, cuts.empty() ? "" : " --cuts ",
              join(cuts).c_str());
}

void print(const RunReport& report) {
  std::printf(
      "%lu histories in %.1f s (%.1f s of CPU: %.0f a second and core), %.0f times real time\n"
      "  %lu with a sink, %lu lives of nodes, %lu messages, %lu calls, %lu answers, %lu steps; %lu ran "
      "twice\n"
      "  digest of all: %016lx\n",
      report.histories, report.seconds, report.cpu_seconds,
      static_cast<double>(report.histories) / report.cpu_seconds,
      static_cast<double>(report.virtual_us) / 1e6 / report.cpu_seconds, report.with_sink, report.lives,
      report.messages, report.calls, report.answers, report.steps, report.twice, report.digest);
}

int run(const Arguments& arguments) {
  RunOptions options;
  const auto dots = arguments.seeds.find("..");
  options.first = std::stoull(arguments.seeds);
  options.only = arguments.only;
  options.last = dots == std::string::npos ? options.first : std::stoull(arguments.seeds.substr(dots + 2));
  if (arguments.minutes > 0) options.seconds_max = static_cast<std::int64_t>(arguments.minutes * 60);
  options.jobs = arguments.jobs;
  options.twice_every = arguments.twice_every;
  std::printf("sim: seeds %lu..%lu\n", options.first, options.last);
  const RunReport report = run_seeds(options);
  print(report);
  for (const auto& failure : report.failures)
    std::printf("seed %lu: %s: %s\n", failure.seed, failure.rule.c_str(), failure.what.c_str());
  if (report.failures.empty()) {
    std::printf("sim: %lu passed, 0 failed\n", report.histories);
    return 0;
  }
  explain(report.failures.front(), !arguments.no_shrink);
  return 1;
}

// After how many seeds each planted bug is found.
int find_bugs(const Arguments& arguments) {
  if (!kPlanted) {
    std::fprintf(stderr,
                 "sim: this build holds no planted bugs: scripts/test sim --bugs builds one that does\n");
    return 2;
  }
  std::vector<std::uint64_t> seeds;
  bool all = true;
  for (const PlantedBug bug : kAllPlantedBugs) {
    if (!arguments.bug.empty() && arguments.bug != name_of(bug)) continue;
    RunOptions options;
    options.last = kBugSeedsMax;
    options.jobs = arguments.jobs;
    options.failures_max = 1;
    const RunReport report = run_seeds(options, [bug] { choose_bug(bug); });
    const bool found = !report.failures.empty();
    all = all && found;
    seeds.push_back(found ? report.failures.front().seed : kBugSeedsMax + 1);
    std::printf("%-34s %s\n", std::string(name_of(bug)).c_str(),
                found ? fmt::format("seed {:4}  {}", seeds.back(), report.failures.front().rule).c_str()
                      : "NOT FOUND");
    std::fflush(stdout);
  }
  if (seeds.empty()) return 2;
  std::sort(seeds.begin(), seeds.end());
  const std::uint64_t median = seeds[seeds.size() / 2];
  std::printf("%zu bugs, %s within %lu seeds, the median at seed %lu (at most %lu)\n", seeds.size(),
              all ? "each" : "NOT each", kBugSeedsMax, median, kBugSeedsMedian);
  return all && median <= kBugSeedsMedian ? 0 : 1;
}

}  // namespace
}  // namespace queen::sim

int main(int argc, char** argv) {
  using namespace queen::sim;
  CLI::App app{"Runs seeded histories of a node, its sink and a bucket"};
  Arguments arguments;
  app.add_option("--seeds", arguments.seeds, "A..B, both inclusive")->capture_default_str();
  app.add_option("--minutes", arguments.minutes, "Stop after so many minutes; 0: when all seeds have run");
  app.add_option("--replay", arguments.replay, "Run this seed alone and tell its story");
  app.add_option("--cuts", arguments.cuts, "With --replay: what a failing run cut away, as it printed it");
  app.add_flag("--trace", arguments.trace, "With --replay: the whole story");
  app.add_flag("--no-shrink", arguments.no_shrink, "Tell the first failing seed as it is");
  app.add_option("--jobs", arguments.jobs, "Processes")->capture_default_str()->check(CLI::Range(1, 64));
  app.add_option("--twice", arguments.twice_every, "Every so many seeds run twice; 0: none")
      ->capture_default_str();
  const std::map<std::string, Only> kinds{{"all", Only::all}, {"small", Only::small}, {"sink", Only::sink}};
  app.add_option("--only", arguments.only,
                 "Pass over the seeds of other histories: small (a node alone), sink, all")
      ->transform(CLI::CheckedTransformer(kinds));
  app.add_flag("--bugs", arguments.bugs, "How many seeds find each planted bug, in a build that has them");
  app.add_option("--bug", arguments.bug, "With --bugs: this one alone; else: run with it");
  CLI11_PARSE(app, argc, argv);
  if (arguments.bugs) return find_bugs(arguments);
  if (!arguments.bug.empty()) {
    const auto bug = queen::planted_bug_named(arguments.bug);
    if (!bug || !kPlanted) {
      std::fprintf(stderr, "sim: no planted bug named %s in this build\n", arguments.bug.c_str());
      return 2;
    }
    choose_bug(bug);
  }
  return arguments.replay >= 0 ? replay(arguments) : run(arguments);
}

// A pop steps over what is not ready, and never over what is.
#include "machine/detail/ready_runs.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;
using detail::ReadyRuns;

TEST(ReadyRuns, StepsOverWhatIsQuietAndStopsAtWhatIsDueOrUnknown) {
  ReadyRuns runs;
  runs.learn(10, 20, 100, 4);
  std::int64_t earliest = ReadyRuns::kNever;
  EXPECT_EQ(runs.step_over(5, 50, 99, earliest), 5U);
  EXPECT_EQ(earliest, ReadyRuns::kNever);
  EXPECT_EQ(runs.step_over(12, 50, 99, earliest), 20U);
  EXPECT_EQ(earliest, 100);
  EXPECT_EQ(runs.step_over(12, 15, 99, earliest), 15U);
  EXPECT_EQ(runs.step_over(12, 50, 100, earliest), 12U);
  EXPECT_EQ(runs.next_run(5, 50), 10U);
  EXPECT_EQ(runs.next_run(5, 8), 8U);
}

TEST(ReadyRuns, AnEarlierRowMakesItsRunDue) {
  ReadyRuns runs;
  runs.learn(10, 20, 100, 4);
  runs.note(15, 200);
  runs.note(25, 1);
  std::int64_t earliest = ReadyRuns::kNever;
  EXPECT_EQ(runs.step_over(10, 50, 60, earliest), 20U);
  runs.note(15, 60);
  EXPECT_EQ(runs.step_over(10, 50, 60, earliest), 10U);
}

TEST(ReadyRuns, ShortNeighboursBecomeOneAndFullOnesStay) {
  ReadyRuns runs;
  runs.learn(0, 10, 100, 10);
  runs.learn(11, 20, 90, 9);
  EXPECT_EQ(runs.size(), 2U);
  runs.learn(10, 11, 95, 1);
  EXPECT_EQ(runs.size(), 1U);
  runs.learn(20, 600, 80, ReadyRuns::kRowsMax);
  EXPECT_EQ(runs.size(), 2U);
  std::int64_t earliest = ReadyRuns::kNever;
  EXPECT_EQ(runs.step_over(0, 1'000, 50, earliest), 600U);
  EXPECT_EQ(earliest, 80);
}

// Against what is really there: whatever was written and learnt, nothing ready is ever stepped over.
RC_GTEST_PROP(ReadyRuns, NeverHideAReadyRow, ()) {
  ReadyRuns runs;
  std::map<std::uint64_t, std::int64_t> rows;
  for (int step = 0; step < 60; ++step) {
    const auto pid = *rc::gen::inRange<std::uint64_t>(0, 40);
    const auto time = *rc::gen::inRange<std::int64_t>(0, 20);
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        rows[pid] = time;
        runs.note(pid, time);
        break;
      case 1:
        rows.erase(pid);
        break;
      default: {
        const auto end = *rc::gen::inRange<std::uint64_t>(pid, 45);
        std::int64_t earliest = ReadyRuns::kNever;
        std::size_t count = 0;
        for (auto at = rows.lower_bound(pid); at != rows.end() && at->first < end; ++at, ++count)
          earliest = std::min(earliest, at->second);
        runs.learn(pid, end, earliest, count);
      }
    }
    std::int64_t earliest = ReadyRuns::kNever;
    const auto to = runs.step_over(pid, 45, time, earliest);
    for (auto at = rows.lower_bound(pid); at != rows.end() && at->first < to; ++at) {
      RC_ASSERT(at->second > time);
      RC_ASSERT(at->second >= earliest);
    }
  }
}

// The view counts how many pending rows are read; the planner reads through the store.
TEST(ReadyRuns, APopStepsOverLeasedPartitionsAndFindsTheOneThatComesFree) {
  Node node;
  constexpr int kPartitions = 3'000;
  for (int i = 0; i < kPartitions; ++i) node.push("p" + std::to_string(i), {"a"});
  std::vector<Pid> held;
  for (int i = 0; i < kPartitions; i += 60) {
    PopCommand pop = node.pop_command(60);
    pop.partitions_max = 60;
    for (const PopClaim& claim : node.one<PopOutcome>(std::move(pop)).claims) held.push_back(claim.pid);
  }
  ASSERT_EQ(held.size(), static_cast<std::size_t>(kPartitions));
  const auto nothing = node.pop();
  EXPECT_TRUE(nothing.claims.empty());
  const std::int64_t first_end = *node.cursor(held.front())->lease_expires;
  EXPECT_EQ(nothing.look_again_at, first_end);
  EXPECT_EQ(node.pop().look_again_at, first_end);  // remembered
  for (const std::size_t at : {std::size_t{0}, std::size_t{1'700}, held.size() - 1}) {
    AckCommand retry;
    retry.items.push_back(node.ack_item(held[at], "a", AckStatus::retry, ""));
    ASSERT_TRUE(node.one<AckOutcome>(std::move(retry)).items[0].success);
    const auto found = node.pop();
    ASSERT_EQ(found.claims.size(), 1U) << at;
    EXPECT_EQ(found.claims[0].pid, held[at]);
    EXPECT_TRUE(node.pop().claims.empty());
  }
  node.now = first_end;
  EXPECT_EQ(node.pop().claims.size(), 1U);
}

TEST(ReadyRuns, AnEntryThatWasLostIsForgotten) {
  Node node;
  const Pid pid = node.push("p", {"a"}).pid;
  node.pop();  // leased
  node.now += 61 * kSecond;
  std::vector<Command> pops;
  pops.push_back(node.command(node.pop_command()));
  ASSERT_TRUE(node.plan(pops).entry.has_value());  // claims, and is lost
  std::vector<Command> again;
  again.push_back(node.command(node.pop_command()));
  node.plan(again);  // learns that the partition is leased
  node.planner.reset();
  EXPECT_EQ(node.pop().claims.at(0).pid, pid);
}

TEST(ReadyRuns, AShorterWindowLetsGoAtOnce) {
  Node node;
  node.configure({{"windowBuffer", 100}});
  node.push("p", {"a"});
  node.pop();
  node.push("p", {"b"});
  EXPECT_TRUE(node.pop().claims.empty());
  node.now += 2 * kSecond;
  node.configure({{"windowBuffer", 1}});
  EXPECT_EQ(node.pop().claims.size(), 1U);
}

}  // namespace
}  // namespace queen::machine

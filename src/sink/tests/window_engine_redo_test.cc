// The commit sequence, and what a new owner does with an intent it finds (s3-sink.md 10; [B16] to [B18],
// [B20], [B27]).
#include <gtest/gtest.h>

#include <random>

#include "sink/tests/fake_log.h"
#include "sink/window_engine.h"

namespace queen::sink::test {
namespace {

// Runs until the intent of a window is written, its upload is handed out, and stops there.
Shipped run_to_upload(Driver& driver) {
  for (int i = 0; i < 10'000; ++i) {
    driver.take();
    std::optional<std::size_t> next;
    for (std::size_t at = 0; at < driver.pending.size(); ++at) {
      if (const auto* upload = std::get_if<UploadAction>(&driver.pending[at]))
        return shipped_of(*upload->plan);
      if (!next || std::holds_alternative<IdleAction>(driver.pending[*next])) next = at;
    }
    if (!next) break;
    if (std::holds_alternative<IdleAction>(driver.pending[*next])) driver.log().tick(kSecond);
    driver.perform(*next);
  }
  ADD_FAILURE() << "no upload came";
  return {};
}

TEST(Commit, GoesIntentUploadCommitCheckpointAndNothingElseMeanwhile) {
  FakeLog log;
  log.push("a");
  log.tick(70 * kSecond);
  log.push("a");
  auto settings = small_windows();
  settings.checkpoint_every = 1;
  Driver driver(log, settings);
  driver.take();
  driver.perform(0);
  driver.take();
  driver.perform(0);
  for (const char* step : {"intent", "upload", "commit", "checkpoint"}) {
    ASSERT_EQ(driver.take(), 1U) << step;
    EXPECT_EQ(driver.trace.back(), step);
    EXPECT_EQ(driver.take(), 0U) << "while the " << step << " is owed";
    driver.perform(0);
  }
  // The checkpoint names the record that waits for the next window, and the incarnation.
  EXPECT_EQ(driver.checkpoint->positions,
            (std::vector<CheckpointPosition>{{"a", 1, log.partitions.at("a").id}}));
  EXPECT_EQ(driver.checkpoint->k, 1U);
}

TEST(Commit, WritesACheckpointOnlyEveryNWindows) {
  FakeLog log;
  auto settings = small_windows();
  settings.checkpoint_every = 3;
  Driver driver(log, settings);
  for (int i = 0; i < 7; ++i) {
    log.push("a");
    driver.settle();
    driver.idle_for(70 * kSecond, 10 * kSecond);
  }
  EXPECT_GE(driver.windows.size(), 6U);
  EXPECT_EQ(std::count(driver.trace.begin(), driver.trace.end(), "checkpoint"),
            static_cast<std::ptrdiff_t>(driver.windows.size() / 3));
  EXPECT_EQ(driver.checkpoint->k % 3, 0U);
}

// [B17]
TEST(Redo, RebuildsTheIdenticalPlanAlthoughTheLogMovedOn) {
  FakeLog log;
  for (int i = 0; i < 20; ++i) log.push("p" + std::to_string(i % 4));
  Driver driver(log, small_windows());
  const Shipped first = run_to_upload(driver);
  for (int i = 0; i < 20; ++i) log.push("p" + std::to_string(i % 6));
  log.tick(10 * kSecond);
  const auto intents = driver.intents;
  driver.restart();
  EXPECT_TRUE(driver.engine().status().redo);
  driver.settle();
  ASSERT_FALSE(driver.windows.empty());
  EXPECT_EQ(driver.windows[0], first);
  EXPECT_EQ(driver.intents, intents);
  driver.idle_for(80 * kSecond);
  EXPECT_EQ(driver.all_shipped().size(), 40U);
  EXPECT_FALSE(driver.engine().status().redo);
}

TEST(Redo, UnderLatestSeeksAndLeavesOutWhatWasQuietBeforeTheStart) {
  FakeLog log;
  log.push("quiet");
  log.push("busy");
  log.tick(10 * kSecond);
  auto settings = small_windows();
  settings.start = StartFrom::latest;
  Driver driver(log, settings);
  driver.settle();
  log.push("busy");
  log.push("fresh");
  log.tick(70 * kSecond);
  driver.pending.clear();
  driver.engine().on_idle_over();
  const Shipped first = run_to_upload(driver);
  EXPECT_EQ(first.records.size(), 2U);
  log.push("busy");
  log.push("quiet");
  log.tick(10 * kSecond);
  driver.restart();
  driver.settle();
  EXPECT_GT(driver.seeks, 0U);
  ASSERT_FALSE(driver.windows.empty());
  EXPECT_EQ(driver.windows[0], first);
  driver.idle_for(100 * kSecond);
  EXPECT_EQ(driver.all_shipped().size(), 4U);
}

// [B18] The new owner's node is behind: nothing of the window is applied there yet.
TEST(Redo, WaitsUntilThisNodeHasAppliedTheWindow) {
  FakeLog log;
  log.push("a");
  Driver driver(log, small_windows());
  const Shipped first = run_to_upload(driver);
  FakeLog behind;
  behind.now = kEpoch + kSecond;
  Driver other(behind, small_windows());
  other.intent = driver.intent;
  other.restart();
  other.settle();
  other.idle_for(4 * kSecond);
  EXPECT_TRUE(other.uploaded.empty());
  behind.now = kEpoch + 10 * kSecond;
  behind.push("a");
  behind.now = driver.intent->bounds.t_end + small_windows().guard_us - 1;
  other.idle(0);
  EXPECT_TRUE(other.uploaded.empty());
  other.idle(1);
  ASSERT_EQ(other.windows.size(), 1U);
  EXPECT_EQ(other.windows[0], first);
}

// HD-15: the pointer moves although nobody ever pushes again.
TEST(Redo, NeedsNoNewRecord) {
  FakeLog log;
  for (int i = 0; i < 5; ++i) log.push("a");
  Driver driver(log, small_windows());
  const Shipped first = run_to_upload(driver);
  driver.restart();
  driver.settle();
  ASSERT_EQ(driver.windows.size(), 1U);
  EXPECT_EQ(driver.windows[0], first);
}

// [B27]
TEST(Redo, AFinishedUploadIsCommittedWithoutDiscoveryReadOrUpload) {
  FakeLog log;
  log.push("a");
  auto settings = small_windows();
  settings.checkpoint_every = 1;
  Driver driver(log, settings);
  run_to_upload(driver);
  driver.perform(0);  // the upload is through, the commit never happens
  driver.restart();
  driver.trace.clear();
  driver.engine().adopt_finished();
  driver.take();
  driver.perform(0);
  EXPECT_EQ(driver.trace, (std::vector<std::string>{"commit"}));
  EXPECT_EQ(driver.committed->k, 1U);
  EXPECT_EQ(driver.committed->t_end, driver.intent->bounds.t_end);
  driver.settle();
  EXPECT_FALSE(driver.checkpoint.has_value());  // before a pass the positions are empty
  log.push("a");
  driver.idle_for(80 * kSecond);
  EXPECT_EQ(driver.all_shipped().size(), 2U);
}

TEST(Redo, AManifestThatLandsBeforeTheFirstPutIsTaken) {
  FakeLog log;
  log.push("a");
  Driver driver(log, small_windows());
  const Shipped first = run_to_upload(driver);
  driver.uploaded[1] = first;
  driver.restart();
  driver.trace.clear();
  EXPECT_EQ(run_to_upload(driver), first);
  driver.pending.clear();
  driver.engine().adopt_finished();
  driver.settle();
  ASSERT_EQ(driver.windows.size(), 1U);
  EXPECT_EQ(driver.windows[0], first);
  EXPECT_EQ(std::count(driver.trace.begin(), driver.trace.end(), "upload"), 1);
  log.push("a");
  driver.idle_for(80 * kSecond);
  EXPECT_EQ(driver.all_shipped().size(), 2U);
}

// [B24]
TEST(Redo, AStaleIntentIsIgnored) {
  FakeLog log;
  log.push("a");
  log.tick(70 * kSecond);
  Driver driver(log, small_windows());
  driver.settle();
  ASSERT_EQ(driver.windows.size(), 1U);
  driver.restart();  // intent and pointer both say 1
  EXPECT_FALSE(driver.engine().redo().has_value());
  driver.intent->bounds.k = 9;
  driver.restart();
  EXPECT_FALSE(driver.engine().redo().has_value());
}

// [B20]
TEST(Plan, DoesNotDependOnTheOrderInWhichReadsAreAnswered) {
  std::optional<Shipped> want;
  for (unsigned seed = 0; seed < 10; ++seed) {
    FakeLog log;
    for (int i = 0; i < 200; ++i) log.push("p" + std::to_string(i % 17));
    log.tick(70 * kSecond);
    log.records_per_answer = 3;
    auto settings = small_windows();
    settings.fetch_entries_max = 2;
    Driver driver(log, settings);
    std::mt19937 random(seed);
    while (driver.windows.empty()) {
      driver.take();
      driver.perform(random() % driver.pending.size());
    }
    if (!want) want = driver.windows[0];
    EXPECT_EQ(driver.windows[0], *want) << "seed " << seed;
    EXPECT_EQ(want->records.size(), 200U);
  }
}

TEST(Drain, CommitsTheOpenWindowOnceAndStops) {
  FakeLog log;
  log.push("a");
  log.tick(70 * kSecond);
  auto settings = small_windows();
  settings.checkpoint_every = 2;
  Driver driver(log, settings);
  driver.settle();
  log.push("a");
  driver.idle(10 * kSecond);
  ASSERT_EQ(driver.windows.size(), 1U);
  driver.engine().begin_drain(WindowEngine::FinishOpen::yes);
  driver.settle();
  EXPECT_EQ(driver.windows.size(), 2U);
  EXPECT_TRUE(driver.engine().committed_in_drain());
  EXPECT_EQ(driver.checkpoint->k, 2U);  // queued by that commit
  EXPECT_EQ(driver.take(), 0U);
}

TEST(Drain, AbandonsAnOpenWindowThatIsNotWorthIt) {
  FakeLog log;
  log.push("a");
  log.tick(70 * kSecond);
  Driver driver(log, small_windows());
  driver.settle();
  log.push("a");
  driver.idle(10 * kSecond);
  driver.engine().begin_drain(WindowEngine::FinishOpen::no);
  driver.settle();
  EXPECT_EQ(driver.windows.size(), 1U);
  driver.restart();
  driver.settle();
  driver.idle_for(60 * kSecond);
  EXPECT_EQ(driver.all_shipped().size(), 2U);
}

TEST(Drain, FinishesAWindowInItsCommitSequence) {
  FakeLog log;
  log.push("a");
  Driver driver(log, small_windows());
  run_to_upload(driver);
  driver.engine().begin_drain(WindowEngine::FinishOpen::no);
  driver.settle();
  EXPECT_EQ(driver.windows.size(), 1U);
  EXPECT_TRUE(driver.engine().committed_in_drain());
}

}  // namespace
}  // namespace queen::sink::test

// When windows close, what is read, and what discovery asks (s3-sink.md 8; the numbers in brackets are its
// scenarios).
#include "sink/window_engine.h"

#include <gtest/gtest.h>

#include "sink/tests/fake_log.h"

namespace queen::sink::test {
namespace {

using Pairs = std::vector<std::pair<std::string, std::uint64_t>>;

TEST(WindowEngine, ShipsAFirstWindowFromTheStartOfItsHour) {
  FakeLog log;
  log.push("cust-2");
  log.push("cust-1");
  log.push("cust-2");
  Driver driver(log, small_windows());
  driver.settle();
  EXPECT_TRUE(driver.windows.empty());  // younger than the guard
  driver.idle_for(10 * kSecond);
  ASSERT_EQ(driver.windows.size(), 1U);
  EXPECT_EQ(driver.windows[0].bounds.t_start, kEpoch);
  EXPECT_EQ(driver.windows[0].records, (Pairs{{"cust-1", 0}, {"cust-2", 0}, {"cust-2", 1}}));
  EXPECT_EQ(driver.engine().status().k, 1U);
}

// [B1] The pass's safeTime counts, not a newer one.
TEST(WindowEngine, NeverClosesAboveTheSafeTimeOfTheLastCompletePassLessTheGuard) {
  FakeLog log;
  log.pinned_safe = log.now + 20 * kSecond;
  log.push("a");
  log.tick(100 * kSecond);
  log.push("a");
  Driver driver(log, small_windows());
  driver.engine().force_close();
  driver.settle();
  ASSERT_EQ(driver.windows.size(), 1U);
  EXPECT_EQ(driver.windows[0].bounds.t_end, *log.pinned_safe - driver.settings().guard_us);
  EXPECT_EQ(driver.windows[0].records, (Pairs{{"a", 0}}));
}

// [B2] One partition answers one record at a time; its last stamp caps the window.
TEST(WindowEngine, TheSlowestPartitionCapsTheWindow) {
  FakeLog log;
  const auto first = log.push("slow");
  log.tick(kSecond);
  log.push("fast");
  log.tick(kSecond);
  log.push("slow");
  log.tick(100 * kSecond);
  log.records_per_answer = 1;
  Driver driver(log, small_windows());
  driver.take();
  driver.perform(0);  // discovery
  driver.take();
  ASSERT_EQ(driver.pending.size(), 1U);
  driver.perform(0);  // slow is known up to its first record, fast is caught up
  driver.engine().force_close();
  driver.take();
  // The cap is the stamp of slow's first record itself, and nothing lies below it.
  EXPECT_EQ(driver.intents, 0U);
  EXPECT_EQ(driver.engine().status().complete_through, std::nullopt);
  driver.settle();
  ASSERT_FALSE(driver.windows.empty());
  EXPECT_GT(driver.windows[0].bounds.t_end, first);
  EXPECT_EQ(driver.windows[0].records.size(), 3U);
}

// [B3, B4]
TEST(WindowEngine, StepsOverSilentHoursAndCrossesNoBoundary) {
  FakeLog log;
  log.push("a");
  log.tick(5 * kHour);
  log.push("a");
  log.tick(60 * kSecond);
  Driver driver(log, small_windows());
  driver.settle();
  driver.idle_for(100 * kSecond);
  ASSERT_EQ(driver.windows.size(), 2U);
  EXPECT_GE(driver.engine().status().boundaries_stepped, 4U);
  for (const Shipped& window : driver.windows) {
    EXPECT_FALSE(window.records.empty());
    EXPECT_LE(window.bounds.t_end, *next_boundary(Align::hour, window.bounds.t_start));
  }
  EXPECT_EQ(driver.windows[0].bounds.t_end, kEpoch + kHour);
  EXPECT_EQ(driver.windows[1].bounds.t_start, kEpoch + 5 * kHour);
}

// [B5]
TEST(WindowEngine, ASizeCloseEndsAtARecordStampAndWeighsAtLeastTheTarget) {
  FakeLog log;
  std::set<std::int64_t> stamps;
  for (int i = 0; i < 100; ++i) stamps.insert(log.push("p" + std::to_string(i % 3), std::string(100, '1')));
  log.tick(20 * kSecond);
  auto settings = small_windows();
  settings.target_bytes = 4000;
  settings.max_window_us = kHour;
  Driver driver(log, settings);
  driver.settle();
  ASSERT_GT(driver.windows.size(), 2U);
  for (std::size_t i = 0; i + 1 < driver.windows.size(); ++i) {
    EXPECT_GE(driver.windows[i].weight, settings.target_bytes);
    EXPECT_LT(driver.windows[i].weight, settings.target_bytes + 300);
    EXPECT_TRUE(stamps.contains(driver.windows[i].bounds.t_end)) << i;
    EXPECT_EQ(driver.windows[i].bounds.t_end, driver.windows[i + 1].bounds.t_start);
  }
}

// [B6]
TEST(WindowEngine, AnAgeCloseComesFarBelowTheTarget) {
  FakeLog log;
  log.push("a");
  Driver driver(log, small_windows());
  driver.settle();
  driver.idle_for(10 * kSecond);
  ASSERT_EQ(driver.windows.size(), 1U);
  log.push("a");
  driver.idle_for(50 * kSecond);
  EXPECT_EQ(driver.windows.size(), 1U);
  driver.idle_for(20 * kSecond);
  EXPECT_EQ(driver.windows.size(), 2U);
}

// A backlog older than the age limit is not cut at every answer: while it can be read on, only size and
// boundary close.
TEST(WindowEngine, AnAgeCloseWaitsForABacklogThatIsBeingRead) {
  FakeLog log;
  for (int i = 0; i < 200; ++i) log.push("p" + std::to_string(i % 7));
  log.tick(200 * kSecond);
  log.records_per_answer = 2;
  Driver driver(log, small_windows());
  driver.settle();
  ASSERT_EQ(driver.windows.size(), 1U);
  EXPECT_EQ(driver.windows[0].records.size(), 200U);
}

// [B7]
TEST(WindowEngine, APartitionWithoutARecordEmitsNothingAndIdles) {
  FakeLog log;
  log.make("empty");
  Driver driver(log, small_windows());
  driver.settle();
  driver.idle_for(3 * kHour, 60 * kSecond);
  EXPECT_TRUE(driver.windows.empty());
  EXPECT_TRUE(driver.fetches.empty());
  EXPECT_GT(driver.idles, 100U);
  EXPECT_LT(driver.engine().status().lag_us.value_or(kHour), 120 * kSecond);
}

// [B8]
TEST(WindowEngine, AStalePositionCostsAReadAndShipsNothingTwice) {
  FakeLog log;
  for (int i = 0; i < 10; ++i) log.push("a");
  log.tick(70 * kSecond);
  auto settings = small_windows();
  settings.checkpoint_every = 0;
  Driver driver(log, settings);
  driver.settle();
  ASSERT_EQ(driver.all_shipped().size(), 10U);
  driver.checkpoint = Checkpoint{1, driver.committed->t_end, {{"a", 0, std::nullopt}}};
  driver.restart();
  log.push("a");
  driver.idle_for(80 * kSecond);
  EXPECT_EQ(driver.fetches.back().requests.size(), 1U);
  ASSERT_EQ(driver.all_shipped().size(), 11U);
  EXPECT_EQ(driver.all_shipped().back().second, 10U);
}

// [B9]
TEST(WindowEngine, KeepsTheCeilingsOfEntriesAndCalls) {
  FakeLog log;
  for (int i = 0; i < 6000; ++i) log.push("p" + std::to_string(i));
  log.tick(70 * kSecond);
  Driver driver(log, small_windows());
  driver.settle();
  EXPECT_EQ(driver.entries_max, 1024U);
  EXPECT_EQ(driver.calls_out_max, 4U);
  EXPECT_EQ(driver.all_shipped().size(), 6000U);
  for (const FetchAction& call : driver.fetches) {
    std::uint64_t bytes = 0;
    for (const FetchRequest& request : call.requests) bytes += request.bytes_max;
    EXPECT_LE(bytes, driver.settings().fetch_call_bytes_max);
  }
}

// Runs a queue of `cold` quiet partitions and ten busy ones under `latest`; returns the highest buffered
// weight.
std::uint64_t peak_of(int cold) {
  FakeLog log;
  for (int i = 0; i < cold; ++i) log.push("cold" + std::to_string(i));
  log.tick(60 * kSecond);
  auto settings = small_windows();
  settings.start = StartFrom::latest;
  Driver driver(log, settings);
  driver.settle();
  std::uint64_t peak = 0;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 10; ++i) log.push("hot" + std::to_string(i), std::string(50, '7'));
    driver.idle(5 * kSecond);
    peak = std::max(peak, driver.engine().buffered_weight());
  }
  EXPECT_GT(driver.windows.size(), 1U);
  for (const FetchAction& call : driver.fetches)
    for (const FetchRequest& request : call.requests) EXPECT_TRUE(request.partition.starts_with("hot"));
  return peak;
}

// [B10] Cold partitions are neither read nor sought; a restart against the pointer does not seek them either.
TEST(WindowEngine, ColdPartitionsCostNoBufferAndNoSeek) {
  const std::uint64_t few = peak_of(5'000);
  EXPECT_EQ(peak_of(100'000), few);
  FakeLog log;
  for (int i = 0; i < 1000; ++i) log.push("cold" + std::to_string(i));
  log.tick(60 * kSecond);
  auto settings = small_windows();
  settings.start = StartFrom::latest;
  Driver driver(log, settings);
  driver.committed = Committed{3, log.now, "", 0, 0, 0};
  driver.restart();
  driver.settle();
  EXPECT_EQ(driver.seeks, 0U);
  EXPECT_TRUE(driver.fetches.empty());
}

// [B11]
TEST(WindowEngine, ACaughtUpPartitionIsNotReadAgainUntilDiscoveryNamesIt) {
  FakeLog log;
  log.push("a");
  Driver driver(log, small_windows());
  driver.settle();
  const auto reads = driver.fetches.size();
  driver.idle_for(30 * kSecond);
  EXPECT_EQ(driver.fetches.size(), reads);
  log.push("a");
  driver.settle();
  EXPECT_EQ(driver.fetches.size(), reads);
  driver.idle(2 * kSecond);
  EXPECT_EQ(driver.fetches.size(), reads + 1);
}

// [B12]
TEST(WindowEngine, SweepsInFullFirstAndEveryThirtiethPass) {
  FakeLog log;
  for (int i = 0; i < 25; ++i) log.push("p" + std::to_string(i));
  auto settings = small_windows();
  settings.discovery_page = 10;
  Driver driver(log, settings);
  driver.settle();
  EXPECT_EQ(driver.engine().status().swept_partitions, 25U);
  EXPECT_EQ(driver.engine().status().partitions, 25U);
  driver.idle_for(80 * kSecond);
  ASSERT_GT(driver.passes.size(), 35U);
  std::optional<std::size_t> first_incremental;
  for (std::size_t i = 0; i < driver.passes.size(); ++i) {
    if (i % 30 == 0) {
      EXPECT_FALSE(driver.passes[i].since_us.has_value()) << i;
    }
    if (driver.passes[i].since_us && !first_incremental) first_incremental = i;
  }
  ASSERT_TRUE(first_incremental.has_value());
  EXPECT_EQ(*driver.passes[*first_incremental].since_us, driver.windows[0].bounds.t_end - 2 * kSecond);
  // Until the first commit of `earliest` there is nothing to count from.
  EXPECT_GT(*first_incremental, 1U);
}

TEST(WindowEngine, AnIdleWaitPrecedesACadencePass) {
  FakeLog log;
  log.push("a");
  Driver driver(log, small_windows());
  driver.settle();
  EXPECT_EQ(driver.trace, (std::vector<std::string>{"discover", "fetch", "idle"}));
  driver.idle(kSecond);
  EXPECT_EQ(driver.trace, (std::vector<std::string>{"discover", "fetch", "idle", "discover", "idle"}));
}

TEST(WindowEngine, AFailedPageStartsThePassAgain) {
  FakeLog log;
  for (int i = 0; i < 5; ++i) log.push("p" + std::to_string(i));
  auto settings = small_windows();
  settings.discovery_page = 2;
  Driver driver(log, settings);
  driver.take();
  driver.perform(0);
  driver.take();
  EXPECT_EQ(std::get<DiscoverAction>(driver.pending.at(0)).request.after, "2");
  driver.pending.clear();
  driver.engine().on_discovery_failed();
  driver.take();
  EXPECT_EQ(std::get<DiscoverAction>(driver.pending.at(0)).request.after, "");
  driver.settle();
  EXPECT_EQ(driver.engine().status().swept_partitions, 5U);
}

// [B15]
TEST(WindowEngine, AnUnknownQueueIsTerminal) {
  FakeLog log;
  log.push("a");
  Driver by_discovery(log, small_windows());
  log.exists = false;
  by_discovery.settle();
  EXPECT_TRUE(by_discovery.engine().missing());
  log.exists = true;
  Driver by_fetch(log, small_windows());
  log.entry_errors["a"] = kErrorUnknown;
  by_fetch.settle();
  EXPECT_TRUE(by_fetch.engine().missing());
  EXPECT_EQ(by_fetch.take(), 0U);
}

TEST(WindowEngine, AnyOtherEntryErrorIsRetriedAndBlocksTheClose) {
  FakeLog log;
  log.push("bad");
  log.push("good");
  log.tick(100 * kSecond);
  log.entry_errors["bad"] = "BROKEN";
  Driver driver(log, small_windows());
  driver.settle();
  const auto before = driver.fetches.size();
  driver.idle_for(100 * kSecond);
  EXPECT_TRUE(driver.windows.empty());
  EXPECT_GT(driver.fetches.size(), before);
  EXPECT_LT(driver.fetches.size(), before + 60);  // at most once per idle wait
  log.entry_errors.clear();
  driver.idle(2 * kSecond);
  ASSERT_EQ(driver.windows.size(), 1U);
  EXPECT_EQ(driver.windows[0].records.size(), 2U);
}

// [B23]
TEST(WindowEngine, AFailedCallFreesItsPartitions) {
  FakeLog log;
  log.push("a");
  Driver driver(log, small_windows());
  driver.take();
  driver.perform(0);
  driver.take();
  const auto call = std::get<FetchAction>(driver.pending.at(0)).call;
  driver.pending.clear();
  EXPECT_EQ(driver.take(), 0U);  // one call per partition
  driver.engine().on_fetch_failed(call);
  driver.take();
  ASSERT_EQ(driver.pending.size(), 1U);
  EXPECT_NE(std::get<FetchAction>(driver.pending.at(0)).call, call);
}

// [B21]
TEST(WindowEngine, AForcedCloseIsEarlyButLegal) {
  FakeLog log;
  log.push("a");
  log.tick(70 * kSecond);
  Driver driver(log, small_windows());
  driver.settle();
  ASSERT_EQ(driver.windows.size(), 1U);
  log.push("a");
  driver.idle(10 * kSecond);
  EXPECT_EQ(driver.windows.size(), 1U);
  const auto safe = *driver.engine().status().safe_time;
  driver.engine().force_close();
  driver.settle();
  ASSERT_EQ(driver.windows.size(), 2U);
  EXPECT_EQ(driver.windows[1].bounds.t_end, safe - driver.settings().guard_us);
  driver.engine().force_close();  // nothing to close: nothing happens, now or later
  driver.settle();
  log.push("a");
  driver.idle(10 * kSecond);
  EXPECT_EQ(driver.windows.size(), 2U);
}

// [B22]
TEST(WindowEngine, LagOfAnIdleQueueStaysSmallAndPendingRecordsHoldIt) {
  FakeLog log;
  log.push("a");
  Driver driver(log, small_windows());
  driver.settle();
  driver.idle_for(70 * kSecond);
  for (int i = 0; i < 1500; ++i) {  // fifty windows' time
    driver.idle(2 * kSecond);
    ASSERT_LE(driver.engine().status().lag_us.value(), 10 * kSecond);
  }
  EXPECT_EQ(driver.windows.size(), 1U);
  // A record younger than a window that began long ago ships as soon as the guard allows; one right after it
  // waits.
  log.push("a");
  driver.idle_for(10 * kSecond);
  ASSERT_EQ(driver.windows.size(), 2U);
  log.push("a");
  driver.idle_for(30 * kSecond);
  EXPECT_GT(driver.engine().status().lag_us.value(), 30 * kSecond);
  driver.idle_for(40 * kSecond);
  EXPECT_EQ(driver.windows.size(), 3U);
  EXPECT_LE(driver.engine().status().lag_us.value(), 20 * kSecond);
}

// [B19]
TEST(WindowEngine, ForgetsAPartitionThatDiscoveryStoppedNaming) {
  FakeLog log;
  log.push("gone");
  log.push("stays");
  Driver driver(log, small_windows());
  driver.settle();
  EXPECT_EQ(driver.engine().status().partitions, 2U);
  log.forget("gone");
  for (int i = 0; i < 59; ++i) {
    log.push("stays");
    driver.idle_for(66 * kSecond, 33 * kSecond);
  }
  EXPECT_EQ(driver.engine().status().partitions, 2U);
  for (int i = 0; i < 10; ++i) {
    log.push("stays");
    driver.idle_for(66 * kSecond, 33 * kSecond);
  }
  EXPECT_EQ(driver.engine().status().partitions, 1U);
}

// Over its memory budget a queue still closes: what blocks the close is read, in small pieces, and nothing
// ahead of it.
TEST(WindowEngine, ANarrowPaceReadsOnlyWhatBlocksTheClose) {
  FakeLog log;
  for (int i = 0; i < 300; ++i) log.push("p" + std::to_string(i), std::string(3000, '1'));
  log.tick(70 * kSecond);
  log.push("p0");
  Driver driver(log, small_windows());
  driver.engine().set_read_pace(WindowEngine::ReadPace::narrow);
  driver.settle();
  EXPECT_EQ(driver.calls_out_max, 1U);
  EXPECT_LE(driver.entries_max, 256U);
  for (const FetchAction& call : driver.fetches)
    for (const FetchRequest& request : call.requests) EXPECT_LE(request.bytes_max, 4096U);
  EXPECT_EQ(driver.all_shipped().size(), 300U);
}

}  // namespace
}  // namespace queen::sink::test

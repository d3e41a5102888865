// What nodes ask of the bucket, when, and what a bucket that is slow, full of requests or gone does to them
// (s3-sink.md 1, 7.3, 18; HD-6, HD-10, HD-12 to HD-14; acceptance list G).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sink/object_builder.h"
#include "sink/tests/manager_rig.h"

namespace queen::sink::test {
namespace {

using ::testing::HasSubstr;
using Kind = StoreRequest::Kind;

std::vector<std::string> names(int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) out.push_back(fmt::format("q{:03}", i));
  return out;
}
UnitSettings unit_of(const std::vector<std::string>& queues) {
  UnitSettings unit = quick_unit();
  unit.queues = queues;
  return unit;
}
s3::S3Error status_error(int status) {
  s3::S3Error error;
  error.failure = s3::Failure::status;
  error.status = status;
  error.retriable = status >= 500;
  error.throttled = status == 503;
  error.sentence = fmt::format("status {}{}", status, status == 503 ? "; throttled" : "");
  return error;
}
std::uint64_t pointer_of(const Cell& cell, const std::string& queue) {
  const auto row = cell.broker.live(committed_key("default", queue));
  return row ? parse_committed(row->value)->k : 0;
}
std::size_t count(const std::vector<StoreRequest>& requests, Kind kind, const std::string& part = "") {
  return static_cast<std::size_t>(std::count_if(
      requests.begin(), requests.end(),
      [&](const StoreRequest& one) { return one.kind == kind && one.key.find(part) != std::string::npos; }));
}

// A listing serves the probe and the search for a checkpoint, nothing else. (The interface of a store has no
// call that deletes.)
void expect_no_listing_on_the_way(const std::vector<StoreRequest>& requests) {
  for (const StoreRequest& one : requests) {
    if (one.kind != Kind::list) continue;
    const bool probe = one.key == "queen/" && one.max_keys == 1;
    const bool checkpoint = one.key.starts_with("queen/_queen/tenant=") && one.key.ends_with("/checkpoint/");
    EXPECT_TRUE(probe || checkpoint) << one.key;
  }
}

TEST(Requests, ListOnlyForTheProbeAndTheSearchForACheckpoint) {
  Cell cell;
  std::vector<StoreRequest> all;
  for (int life = 0; life < 5; ++life) {
    NodeSettings settings = quick_node();
    cell.broker.push(kQueue, "p", "1");
    {
      Managed node(cell, quick_unit(), "node-1@a", settings);
      const std::uint64_t before = cell.committed_k();
      ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() > before; })) << life;
      cell.store.fail_next(s3::MemoryStore::Kind::put, 2, status_error(500));
      cell.broker.push(kQueue, "p", "2");
      ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() > before + 1; }));
      cell.broker.push(kQueue, "p", "3");
      cell.run_for(3 * kSecond);
      node.die();  // wherever it stands
      all.insert(all.end(), node.requests.begin(), node.requests.end());
    }
    cell.run_for(10 * kSecond);
  }
  expect_no_listing_on_the_way(all);
  EXPECT_EQ(count(all, Kind::list, "checkpoint"), 4U) << "once per start with a pointer";
  EXPECT_GT(count(all, Kind::put), 20U);
}

// HD-12 says once, and a queue that does not exist is looked for every five seconds.
TEST(Requests, ABucketIsAskedOnceWhetherItKnowsAQueueWithoutPointers) {
  Cell cell;
  Managed node(cell, quick_unit(), "node-1@a");
  cell.run_for(60 * kSecond);
  EXPECT_THAT(node.status(), HasSubstr(R"("state":"missing")"));
  EXPECT_EQ(count(node.requests, Kind::head, "windows/0000000001.json"), 1U);
}

// [G8]
TEST(Requests, AQueueMadeAfterBootShipsWithinSevenSeconds) {
  for (int phase = 0; phase < 6; ++phase) {
    Cell cell;
    NodeSettings settings = quick_node();
    settings.safe_guard_us = 0;
    settings.discovery_interval_us = 100'000;
    Managed node(cell, quick_unit(), "node-1@a", settings);
    cell.run_for((20 + phase) * kSecond);
    cell.broker.push(kQueue, "p", "1");
    EXPECT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }, 7 * kSecond)) << phase;
  }
}

// [G5] Thirty windows' time without a record.
TEST(Requests, AnIdleQueueStaysGreenAndItsLakeFollowsTheClock) {
  Cell cell;
  cell.broker.push(kQueue, "p", "1");
  Managed node(cell, quick_unit(), "node-1@a");
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  const auto through = [&] {
    simdjson::dom::parser parser;
    std::string_view text;
    const std::string status = node.status();
    EXPECT_EQ(parser.parse(status)["sinks"].at(0)["queues"].at(0)["completeThrough"].get(text),
              simdjson::SUCCESS);
    return parse_iso_micros_strict(text).value_or(0);
  };
  for (int window = 0; window < 30; ++window) {
    cell.run_for(10 * kSecond);
    ASSERT_TRUE(node.manager().healthy()) << window;
    ASSERT_LT(cell.clock.wall_us() - through(), 3 * kSecond) << window;
  }
  EXPECT_EQ(cell.committed_k(), 1U);
}

// [G6]
TEST(Requests, RefusedPutsTurnTheVerdictRedAtAboutThirtySecondsAndGreenAfter) {
  for (const int status : {503, 403}) {
    Cell cell;
    cell.broker.push(kQueue, "p", "1");
    Managed node(cell, quick_unit(), "node-1@a");
    ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
    cell.run_for(5 * kSecond);
    cell.store.refuse_puts(status);
    cell.broker.push(kQueue, "p", "2");
    const std::int64_t from = cell.clock.mono_us();
    ASSERT_TRUE(cell.run_until([&] { return !node.manager().healthy(); })) << status;
    const std::int64_t red_after = cell.clock.mono_us() - from;
    EXPECT_GE(red_after, 25 * kSecond) << status;
    EXPECT_LE(red_after, 40 * kSecond) << status;
    EXPECT_THAT(node.status(), HasSubstr(status == 503 ? R"("state":"upload")" : R"("state":"failed")"));
    cell.store.refuse_puts(std::nullopt);
    EXPECT_TRUE(cell.run_until([&] { return node.manager().healthy(); }, 120 * kSecond)) << status;
    EXPECT_EQ(cell.committed_k(), 2U) << status;
  }
}

// [G7] What tells of the present goes with the queue, what counts stays.
TEST(Requests, AQueueThatLeavesTakesItsGaugesButNotItsCounters) {
  Cell cell;
  cell.broker.push(kQueue, "p", "1");
  Node node(cell);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  cell.run_for(kSecond);
  EXPECT_TRUE(node.row().swept_partitions && node.row().lag_us);
  cell.broker.put_behind(lease_key("default", kQueue),
                         encode(LeaseRow{.instance = "node-2@b", .incarnation = "00", .since_ms = 1}));
  cell.run_for(60 * kSecond);
  const QueueRow row = node.row();
  EXPECT_EQ(row.state, QueueState::held);
  EXPECT_FALSE(row.swept_partitions || row.checkpoint_age_windows || row.lag_us || row.safe_time);
  EXPECT_EQ(row.buffered_bytes + row.partitions, 0U);
  EXPECT_EQ(row.windows_committed, 1U);
  EXPECT_EQ(row.records, 1U);
  EXPECT_GT(node.counters().queues[kQueue].fetch_ok, 0U);
  EXPECT_EQ(node.snapshot().health.queues, 0U);
}

// HD-13 for a sink of several queues: what the others have under way goes on.
TEST(Requests, ALostLeaseEndsTheRequestsOfItsOwnQueueOnly) {
  Cell cell;
  for (const char* queue : {"a", "ab"}) cell.broker.push(queue, "p", "1");
  Managed node(cell, unit_of({"a", "ab"}), "node-1@a");
  cell.store.hang();
  cell.store.release();
  ASSERT_TRUE(cell.run_until([&] { return pointer_of(cell, "a") == 1 && pointer_of(cell, "ab") == 1; }));
  for (const char* queue : {"a", "ab"}) cell.broker.push(queue, "p", "2");
  cell.store.hang();
  ASSERT_TRUE(cell.run_until([&] { return cell.store.in_flight() == 2; }));
  cell.broker.put_behind(lease_key("default", "a"),
                         encode(LeaseRow{.instance = "node-2@b", .incarnation = "00", .since_ms = 1}));
  cell.run_for(5 * kSecond);
  EXPECT_EQ(cell.store.in_flight(), 1U);
  const auto puts = cell.store.calls(s3::MemoryStore::Kind::put);
  cell.run_for(20 * kSecond);
  EXPECT_EQ(cell.store.calls(s3::MemoryStore::Kind::put), puts) << "neither of them asked again";
  cell.store.release();
  EXPECT_TRUE(cell.run_until([&] { return pointer_of(cell, "ab") == 2; }, 5 * kSecond));
  EXPECT_EQ(pointer_of(cell, "a"), 1U);
}

// HD-13 while restoring: the listing comes back after the lease is gone, and nothing follows it.
TEST(Requests, ALeaseLostWhileRestoringStartsNoFurtherRequest) {
  Cell cell;
  cell.broker.push(kQueue, "p", "1");
  {
    Managed first(cell, quick_unit(), "node-1@a");
    ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
    cell.broker.push(kQueue, "p", "2");
    ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 2; }));
    ASSERT_TRUE(cell.run_until([&] { return count(first.requests, Kind::put, "/checkpoint/") == 1; }));
  }
  Managed second(cell, quick_unit(), "node-1@a");
  ASSERT_TRUE(cell.run_until([&] { return count(second.requests, Kind::list) == 1; }));
  cell.run_for(1);
  cell.store.hang();
  ASSERT_TRUE(cell.run_until([&] { return count(second.requests, Kind::list, "/checkpoint/") == 1; }));
  cell.broker.put_behind(lease_key("default", kQueue),
                         encode(LeaseRow{.instance = "node-2@b", .incarnation = "00", .since_ms = 1}));
  cell.run_for(4 * kSecond);
  cell.store.release();
  cell.run_for(5 * kSecond);
  EXPECT_EQ(count(second.requests, Kind::get), 0U);
  EXPECT_EQ(count(second.requests, Kind::put), 0U);
}

// HD-10
TEST(Requests, AListingThatDoesNotAdvanceCostsTheCheckpointAndNothingElse) {
  Cell cell;
  cell.broker.push(kQueue, "p", "1");
  {
    Managed first(cell, quick_unit(), "node-1@a");
    ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
    cell.broker.push(kQueue, "p", "2");
    ASSERT_TRUE(cell.run_until([&] { return count(first.requests, Kind::put, "/checkpoint/") == 1; }));
  }
  Managed second(cell, quick_unit(), "node-1@a", quick_node(), Link{.lists_get_stuck = true});
  cell.broker.push(kQueue, "p", "3");
  EXPECT_TRUE(cell.run_until([&] { return cell.committed_k() == 3; }));
  EXPECT_EQ(second.log.count("queue_restored queue=rides committed_k=2 redo=false checkpoint_k=0"), 1U);
  EXPECT_EQ(count(second.requests, Kind::get, "/checkpoint/"), 0U);
}

// HD-6: throttled while it restores, the queue waits and takes its checkpoint all the same.
TEST(Requests, AThrottledRestoreWaitsAndTakesItsCheckpoint) {
  Cell cell;
  cell.broker.push(kQueue, "p", "1");
  {
    Managed first(cell, quick_unit(), "node-1@a");
    ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
    cell.broker.push(kQueue, "p", "2");
    ASSERT_TRUE(cell.run_until([&] { return count(first.requests, Kind::put, "/checkpoint/") == 1; }));
  }
  Managed second(cell, quick_unit(), "node-1@a");
  ASSERT_TRUE(cell.run_until([&] { return count(second.requests, Kind::list) == 1; }));
  cell.run_for(1);
  cell.store.fail_next(s3::MemoryStore::Kind::list, 2, status_error(503));
  cell.store.fail_next(s3::MemoryStore::Kind::get, 1, status_error(503));
  cell.run_for(2 * kSecond);
  EXPECT_THAT(second.status(), HasSubstr(R"("state":"restoring")"));
  EXPECT_THAT(second.status(), HasSubstr("throttled"));
  EXPECT_TRUE(cell.run_until([&] { return second.log.count("queue_restored") == 1; }, 30 * kSecond));
  EXPECT_EQ(second.log.count("queue_restored queue=rides committed_k=2 redo=false checkpoint_k=2"), 1U);
}

// When each request of `kind` went out.
std::vector<std::int64_t> times_of(Cell& cell, const Managed& node, Kind kind, const std::string& part,
                                   std::size_t wanted, std::int64_t within_us) {
  std::vector<std::int64_t> out;
  cell.run_until(
      [&] {
        const std::size_t seen = count(node.requests, kind, part);
        while (out.size() < seen) out.push_back(cell.clock.mono_us());
        return out.size() >= wanted;
      },
      within_us);
  return out;
}

// HD-6: forty queues whose leases are taken at once after a restart, and whose hour ends at once.
TEST(Requests, RestoresAndTheEndOfAnHourAreSpread) {
  Cell cell;
  const auto queues = names(40);
  UnitSettings unit = unit_of(queues);
  unit.max_window_us = 2 * kHour;
  cell.run_for(kHour - 400 * kSecond);
  for (const std::string& queue : queues) cell.broker.push(queue, "p", "1");
  {
    Managed first(cell, unit, "node-1@a");
    const auto shipped = [&] { return count(first.requests, Kind::put, "/windows/") == 40; };
    ASSERT_TRUE(cell.run_until(shipped, 600 * kSecond));
    first.die();  // its leases stay
  }
  Managed second(cell, unit, "node-1@a");
  const auto restores = times_of(cell, second, Kind::list, "/checkpoint/", 40, 60 * kSecond);
  ASSERT_EQ(restores.size(), 40U);
  EXPECT_GT(restores.back() - restores.front(), 300'000);
  EXPECT_GT(std::set<std::int64_t>(restores.begin(), restores.end()).size(), 20U);
  for (const std::string& queue : queues) cell.broker.push(queue, "p", "2");
  cell.run_for(kEpoch + kHour - 2 * kSecond - cell.clock.wall_us());
  const auto puts = times_of(cell, second, Kind::put, "/dt=", 40, 60 * kSecond);
  ASSERT_EQ(puts.size(), 40U);
  EXPECT_GT(puts.back() - puts.front(), 3 * kSecond);
  EXPECT_GT(std::set<std::int64_t>(puts.begin(), puts.end()).size(), 30U);
}

// Bytes of records that the sink holds, whatever it says about itself: the log's own copy of a text has a
// second owner then.
std::uint64_t bytes_held(const Cell& cell) {
  std::uint64_t held = 0;
  for (const auto& [queue, log] : cell.broker.queues)
    for (const auto& [name, partition] : log.partitions)
      for (const LogRecord& record : partition.records)
        if (record.text.use_count() > 1) held += record.text->size();
  return held;
}

// HD-14: sixty queues at the end of an hour, over a bucket that hangs.
TEST(Requests, MemoryStaysWithinTheBudgetAtTheEndOfAnHourOverABucketThatHangs) {
  Cell cell;
  const auto queues = names(60);
  UnitSettings unit = unit_of(queues);
  unit.max_window_us = 2 * kHour;
  NodeSettings settings = quick_node();
  settings.memory_bytes = 1ULL << 20;
  settings.lease_ttl_us = 30 * kSecond;
  settings.discovery_interval_us = 2 * kSecond;
  cell.run_for(kHour - 400 * kSecond);
  const std::string payload = "\"" + std::string(2'000, 'x') + "\"";
  for (const std::string& queue : queues) cell.broker.push(queue, "p", "1");
  Managed node(cell, unit, "node-1@a", settings);
  const auto shipped = [&] { return count(node.requests, Kind::put, "/windows/") == 60; };
  ASSERT_TRUE(cell.run_until(shipped, 300 * kSecond));
  cell.run_for(kEpoch + kHour - 20 * kSecond - cell.clock.wall_us());
  cell.store.hang();
  std::uint64_t most = 0;
  for (int second = 0; second < 60; ++second) {
    for (const std::string& queue : queues)
      cell.broker.push(queue, "p" + std::to_string(second % 3), payload);
    cell.run_for(kSecond);
    most = std::max(most, bytes_held(cell));
  }
  // 7.2 MB were pushed. Four windows are under way, and one read of the queue that holds the most may pass
  // the limit.
  const std::uint64_t window = 60 * payload.size();
  EXPECT_LE(most, settings.memory_bytes + (kWindowsAtOnce + 1) * window);
  EXPECT_GT(most, settings.memory_bytes / 2);
  cell.store.release();
  const auto all_moved = [&] {
    return std::all_of(queues.begin(), queues.end(),
                       [&](const std::string& queue) { return pointer_of(cell, queue) >= 2; });
  };
  EXPECT_TRUE(cell.run_until(all_moved, 600 * kSecond));
  EXPECT_LE(bytes_held(cell), settings.memory_bytes + (kWindowsAtOnce + 1) * window);
}

// HD-14: what is in flight comes on top of the budget, so it is a part of it.
TEST(Requests, ACallAsksForASixteenthOfTheBudgetAtMost) {
  Cell cell;
  for (int i = 0; i < 100; ++i) cell.broker.push("orders", "p" + std::to_string(i), "1");
  NodeSettings settings = quick_node();
  settings.memory_bytes = 64ULL << 20;
  Managed node(cell, unit_of({"orders"}), "node-1@a", settings);
  ASSERT_TRUE(cell.run_until([&] { return pointer_of(cell, "orders") >= 1; }, 300 * kSecond));
  EXPECT_LE(cell.broker.fetch_bytes_most, settings.memory_bytes / 16);
  EXPECT_GT(cell.broker.fetch_bytes_most, settings.memory_bytes / 32);
}

// What a library throws while an object is built costs the run and not the process (HD-20).
TEST(Requests, AThrowWhileAnObjectIsBuiltIsAnErrorOfThatObject) {
  const auto failed = guarded([]() -> Result<BuiltObject> { throw std::bad_alloc(); });
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().what, HasSubstr("cannot be built"));
}

}  // namespace
}  // namespace queen::sink::test

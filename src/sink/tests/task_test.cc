// A queue's task end to end over a fake broker and a bucket in memory, in virtual time (acceptance lists C
// and E).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sink/tests/task_rig.h"

namespace queen::sink::test {
namespace {

using ::testing::HasSubstr;

s3::S3Error answer(int status, bool retriable) {
  s3::S3Error error;
  error.failure = s3::Failure::status;
  error.status = status;
  error.retriable = retriable;
  error.sentence = "PUT answers " + std::to_string(status);
  return error;
}

void push_some(Cell& cell, int count) {
  for (int i = 0; i < count; ++i)
    cell.broker.push(kQueue, "p" + std::to_string(i % 3), R"({"n":)" + std::to_string(i) + R"(,"km":42.00})");
}

UnitSettings slow_unit() {
  UnitSettings unit = quick_unit();
  unit.max_window_us = 2 * kHour;
  return unit;
}

TEST(QueueTask, ShipsTwoHoursToTheExactKeys) {
  Cell cell;
  push_some(cell, 5);
  cell.run_for(kHour);
  push_some(cell, 4);
  cell.run_for(kHour);
  Node node(cell, quick_node(), slow_unit());
  cell.run_for(20 * kSecond);
  EXPECT_EQ(cell.committed_k(), 2U);
  const auto objects = cell.store.objects();
  const std::string data = "queen/tenant=t/queue=rides/dt=2027-01-15/";
  const std::string sidecars = "queen/_queen/tenant=t/queue=rides/";
  std::vector<std::string> keys;
  for (const auto& [key, body] : objects) keys.push_back(key);
  EXPECT_THAT(keys, ::testing::ElementsAre(
                        sidecars + "checkpoint/0000000002.json.zst", sidecars + "windows/0000000001.json",
                        sidecars + "windows/0000000002.json",
                        data + "hour=08/w-0000000001-1800000000000000-1800003600000000.jsonl.zst",
                        data + "hour=09/w-0000000002-1800003600000000-1800007200000000.jsonl.zst"));
  const LakeVerdict verdict = cell.check_lake();
  EXPECT_TRUE(verdict.right()) << verdict.text();
  EXPECT_EQ(verdict.records, 9U);
  const QueueRow row = node.row();
  EXPECT_EQ(row.windows_committed, 2U);
  EXPECT_EQ(row.records, 9U);
  EXPECT_EQ(row.state, QueueState::filling);
  EXPECT_TRUE(row.owned_here);
  EXPECT_EQ(row.checkpoint_age_windows, 0U);
}

TEST(QueueTask, ResumesNumberingAtThePointerAfterACleanRestart) {
  Cell cell;
  push_some(cell, 5);
  {
    Node first(cell);
    ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
    EXPECT_TRUE(first.stop());
    EXPECT_EQ(first.row().state, QueueState::drained);
  }
  EXPECT_FALSE(cell.broker.live(lease_key("default", kQueue))) << "the lease is released";
  push_some(cell, 5);
  Node second(cell);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 2; }));
  const LakeVerdict verdict = cell.check_lake();
  EXPECT_TRUE(verdict.right()) << verdict.text();
}

TEST(QueueTask, LatestShipsNothingStampedBeforeItSawTheQueue) {
  Cell cell;
  push_some(cell, 5);
  UnitSettings unit = quick_unit();
  unit.start = StartFrom::latest;
  Node node(cell, quick_node(), unit);
  cell.run_for(3 * kSecond);
  push_some(cell, 2);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  const LakeVerdict verdict = cell.check_lake(false);
  EXPECT_TRUE(verdict.right()) << verdict.text();
  EXPECT_EQ(verdict.records, 2U);
}

TEST(QueueTask, LastWindowBeforeSilenceClosesByAge) {
  Cell cell;
  push_some(cell, 1);
  Node node(cell);
  EXPECT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }, 30 * kSecond));
}

// C11
TEST(QueueTask, TheFigureOfDiscoveryIsAWholeSweepOverAllItsPages) {
  Cell cell;
  for (int i = 0; i < 1500; ++i) cell.broker.push(kQueue, "p" + std::to_string(i), "1");
  Node node(cell, quick_node(), slow_unit());
  std::set<std::uint64_t> shown;
  EXPECT_TRUE(cell.run_until([&] {
    if (const auto swept = node.row().swept_partitions) shown.insert(*swept);
    return !shown.empty();
  }));
  cell.run_for(5 * kSecond);
  shown.insert(*node.row().swept_partitions);
  EXPECT_EQ(shown, std::set<std::uint64_t>{1500}) << "never a page of it, never an incremental pass";
}

TEST(QueueTask, UnknownQueueIsMissingAndLookedForEveryFiveSeconds) {
  Cell cell;
  Node node(cell);
  cell.run_for(20 * kSecond);
  EXPECT_EQ(node.row().state, QueueState::missing);
  EXPECT_TRUE(cell.store.objects().empty());
  EXPECT_FALSE(cell.broker.live(lease_key("default", kQueue)));
  push_some(cell, 3);
  EXPECT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }, 30 * kSecond));
}

TEST(QueueTask, FailuresOfReadsKvAndBucketOnlyCostTime) {
  Cell cell;
  push_some(cell, 20);
  cell.broker.fail_kv = 4;
  Node node(cell);
  cell.run_for(5 * kSecond);
  cell.broker.fail_reads = 5;
  cell.store.fail_next(s3::MemoryStore::Kind::put, 3, answer(503, true));
  cell.store.fail_next(s3::MemoryStore::Kind::put, 1, answer(500, true), s3::MemoryStore::Effect::happened);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  EXPECT_TRUE(node.row().last_error.has_value()) << "the last error stays after recovery";
  const LakeVerdict verdict = cell.check_lake();
  EXPECT_TRUE(verdict.right()) << verdict.text();
}

TEST(QueueTask, RefusedPutFailsTheQueueWhichTriesAgainAfterAMinute) {
  Cell cell;
  push_some(cell, 3);
  cell.store.refuse_puts(403);
  Node node(cell);
  ASSERT_TRUE(cell.run_until([&] { return node.row().state == QueueState::failed; }));
  EXPECT_THAT(node.row().last_error->message, HasSubstr("put queen/tenant=t/queue=rides/"));
  EXPECT_FALSE(cell.broker.live(lease_key("default", kQueue)));
  cell.store.refuse_puts(std::nullopt);
  cell.run_for(55 * kSecond);
  EXPECT_EQ(cell.committed_k(), 0U);
  cell.run_for(15 * kSecond);
  EXPECT_EQ(cell.committed_k(), 1U);
  EXPECT_TRUE(cell.check_lake().right());
}

TEST(QueueTask, BudgetClosesTheWindowWhenNothingElseCan) {
  for (const std::uint64_t budget : {16ULL << 10, 512ULL << 20}) {
    Cell cell;
    NodeSettings settings = quick_node();
    settings.memory_bytes = budget;
    Node node(cell, settings, slow_unit());
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 1000; ++i) cell.broker.push(kQueue, "p" + std::to_string(i), R"({"a":1})");
      cell.run_for(10 * kSecond);
    }
    EXPECT_EQ(cell.committed_k() >= 2, budget == 16ULL << 10) << budget;
    const LakeVerdict verdict = cell.check_lake(false);
    EXPECT_TRUE(verdict.right()) << verdict.text();
  }
}

TEST(QueueTask, LostLeaseStopsItBeforeItWrites) {
  Cell cell;
  push_some(cell, 3);
  NodeSettings settings = quick_node();
  settings.lease_ttl_us = 60 * kSecond;  // the refresh comes after the window closes
  Node node(cell, settings);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  push_some(cell, 3);
  cell.run_for(3 * kSecond);
  const auto puts = cell.store.puts().size();
  cell.broker.put_behind(lease_key("default", kQueue),
                         encode(LeaseRow{.instance = "node-2@b", .incarnation = "00", .since_ms = 1}));
  cell.run_for(30 * kSecond);
  EXPECT_EQ(cell.store.puts().size(), puts);
  EXPECT_EQ(parse_intent(cell.broker.live(intent_key("default", kQueue))->value)->bounds.k, 1U);
  EXPECT_EQ(node.row().state, QueueState::fenced);
  EXPECT_EQ(node.counters().precondition_lost, 1U);
  EXPECT_TRUE(cell.broker.live(lease_key("default", kQueue))) << "another node's row is left alone";
}

TEST(QueueTask, LostLeaseEndsThePutUnderWay) {
  Cell cell;
  push_some(cell, 3);
  Node node(cell);
  ASSERT_TRUE(cell.run_until([&] { return node.row().state == QueueState::filling; }));
  cell.store.hang();
  ASSERT_TRUE(
      cell.run_until([&] { return node.row().state == QueueState::upload && cell.store.in_flight() > 0; }));
  cell.broker.put_behind(lease_key("default", kQueue),
                         encode(LeaseRow{.instance = "node-2@b", .incarnation = "00", .since_ms = 1}));
  cell.run_for(4 * kSecond);
  EXPECT_EQ(cell.store.in_flight(), 0U);
  EXPECT_EQ(node.row().state, QueueState::fenced);
  const auto calls = cell.store.calls(s3::MemoryStore::Kind::put);
  cell.run_for(8 * kSecond);
  EXPECT_EQ(cell.store.calls(s3::MemoryStore::Kind::put), calls) << "a lost handle starts no request";
}

TEST(QueueTask, HungBucketStopsNothingButTheUpload) {
  Cell cell;
  push_some(cell, 3);
  Node node(cell);
  ASSERT_TRUE(cell.run_until([&] { return node.row().state == QueueState::filling; }));
  cell.store.hang();
  cell.run_for(300 * kSecond);
  EXPECT_EQ(node.row().state, QueueState::upload);
  EXPECT_TRUE(cell.broker.live(lease_key("default", kQueue)))
      << "the lease is refreshed beside a hung upload";
  EXPECT_FALSE(node.snapshot().health.ok);
  cell.store.release();
  EXPECT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  EXPECT_TRUE(cell.check_lake().right());
}

TEST(QueueTask, RefusesABucketThatKnowsWindowsWhichTheKvForgot) {
  Cell cell;
  push_some(cell, 3);
  {
    Node first(cell);
    ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  }
  const auto before = cell.store.objects();
  cell.broker.rows.clear();
  Node second(cell);
  cell.run_for(20 * kSecond);
  EXPECT_EQ(second.row().state, QueueState::failed);
  EXPECT_THAT(
      second.row().last_error->message,
      ::testing::AllOf(HasSubstr("prefix queen"), HasSubstr("QUEEN_S3_PREFIX"), HasSubstr("data directory")));
  EXPECT_EQ(cell.store.objects(), before);
}

TEST(QueueTask, UnreadablePointerStopsTheQueueNamingTheKey) {
  Cell cell;
  push_some(cell, 3);
  cell.broker.put_behind(committed_key("default", kQueue), "{\"k\":");
  Node node(cell);
  cell.run_for(20 * kSecond);
  EXPECT_EQ(node.row().state, QueueState::failed);
  EXPECT_THAT(node.row().last_error->message, HasSubstr("s3:default:rides:committed"));
  EXPECT_TRUE(cell.store.objects().empty());
}

TEST(QueueTask, LossByRetentionIsRecordedAndCounted) {
  Cell cell;
  push_some(cell, 9);
  Node node(cell);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  push_some(cell, 9);
  cell.broker.queues[kQueue].trim("p0", 5);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 2; }));
  const auto manifest = parse_manifest(*cell.store.object(manifest_key(cell.path(), 2)));
  ASSERT_TRUE(manifest);
  EXPECT_EQ(manifest->lost, (std::vector<LostRange>{{.partition = "p0", .from = 3, .to = 4}}));
  EXPECT_EQ(node.row().records_lost, 2U);
}

// ---- drain ----

// One window is committed, because the first of an earliest start closes as soon as it can; the second holds
// records for `us` by then.
void hold_a_window(Cell& cell, std::int64_t us) {
  push_some(cell, 1);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  cell.run_for(2 * kSecond);
  push_some(cell, 5);
  cell.run_for(us);
  ASSERT_EQ(cell.committed_k(), 1U);
}

TEST(QueueTaskDrain, CommitsAWindowWorthFinishing) {
  Cell cell;
  Node node(cell, quick_node(), slow_unit());
  hold_a_window(cell, 15 * kSecond);
  EXPECT_TRUE(node.stop(5 * kSecond));
  EXPECT_EQ(cell.committed_k(), 2U);
  EXPECT_EQ(node.row().state, QueueState::drained);
  EXPECT_TRUE(cell.check_lake().right()) << cell.check_lake().text();
}

TEST(QueueTaskDrain, LeavesAYoungSmallWindowToTheNextRun) {
  Cell cell;
  {
    Node first(cell, quick_node(), slow_unit());
    hold_a_window(cell, 3 * kSecond);
    const auto puts = cell.store.puts().size();
    EXPECT_TRUE(first.stop(3 * kSecond));
    EXPECT_EQ(cell.committed_k(), 1U);
    EXPECT_EQ(cell.store.puts().size(), puts);
  }
  Node second(cell);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 2; }));
  EXPECT_TRUE(cell.check_lake().right()) << cell.check_lake().text();
}

TEST(QueueTaskDrain, FinishesAWindowInFlight) {
  Cell cell;
  push_some(cell, 5);
  Node node(cell);
  ASSERT_TRUE(cell.run_until([&] { return node.row().state == QueueState::filling; }));
  cell.store.hang();
  ASSERT_TRUE(cell.run_until([&] { return node.row().state == QueueState::upload; }));
  node.task().stop();
  cell.run_for(3 * kSecond);
  EXPECT_FALSE(node.ended());
  cell.store.release();
  EXPECT_TRUE(cell.run_until([&] { return node.ended(); }, 5 * kSecond));
  EXPECT_EQ(cell.committed_k(), 1U);
}

TEST(QueueTaskDrain, CommitsThroughSixFailedKvCalls) {
  Cell cell;
  Node node(cell, quick_node(), slow_unit());
  hold_a_window(cell, 15 * kSecond);
  cell.broker.fail_kv = 6;
  EXPECT_TRUE(node.stop(10 * kSecond));
  EXPECT_EQ(cell.broker.fail_kv, 0);
  EXPECT_EQ(cell.committed_k(), 2U);
  EXPECT_FALSE(cell.broker.live(lease_key("default", kQueue)));
}

TEST(QueueTaskDrain, HandOffReleasesAndWaitsTwoTtlsBeforeItClaimsAgain) {
  Cell cell;
  push_some(cell, 3);
  Node node(cell);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  node.task().hand_off();
  ASSERT_TRUE(cell.run_until([&] { return !cell.broker.live(lease_key("default", kQueue)); }, 5 * kSecond));
  cell.run_for(17 * kSecond);
  EXPECT_FALSE(node.row().owned_here);
  cell.run_for(3 * kSecond);
  EXPECT_TRUE(node.row().owned_here);
  EXPECT_EQ(node.counters().given_back, 1U);
}

}  // namespace
}  // namespace queen::sink::test

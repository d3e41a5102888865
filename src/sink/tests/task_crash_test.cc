// Killed at each point of the commit sequence and started again: the bucket ends as if nothing had happened
// (acceptance list D). A crash here ends the task where it stands, with its lease still in the KV.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sink/tests/task_rig.h"

namespace queen::sink::test {
namespace {

constexpr CrashPoint kPoints[] = {CrashPoint::after_intent, CrashPoint::mid_upload, CrashPoint::after_upload,
                                  CrashPoint::before_commit, CrashPoint::after_commit};

UnitSettings hourly_unit() {
  UnitSettings unit = quick_unit();
  unit.max_window_us =
      2 * kHour;  // only the hour closes windows, so that they do not depend on when a node ran
  return unit;
}

void push_rides(Cell& cell, int count) {
  for (int i = 0; i < count; ++i)
    cell.broker.push(kQueue, "p" + std::to_string(i % 3), "{\"n\": " + std::to_string(i) + ",\n\"x\":1.50}");
}

// A first node that dies at `point` of window 1. Everything of it is gone but KV and bucket.
void run_and_crash(Cell& cell, CrashPoint point) {
  NodeSettings settings = quick_node();
  settings.crash_at = point;
  Node node(cell, settings, hourly_unit());
  ASSERT_TRUE(cell.run_until([&] { return node.ended(); }, 2 * kHour));
  EXPECT_EQ(node.crashes(), 1);
  EXPECT_EQ(node.row().state, QueueState::crashed);
  EXPECT_TRUE(cell.broker.live(lease_key("default", kQueue))) << "a dead process releases nothing";
}

std::map<std::string, Bytes> two_hours(Cell& cell, CrashPoint point) {
  push_rides(cell, 7);
  if (point != CrashPoint::never) run_and_crash(cell, point);
  Node node(cell, quick_node(), hourly_unit());
  cell.run_for(kEpoch + kHour + 600 * kSecond - cell.clock.wall_us());
  push_rides(cell, 5);
  cell.run_for(kHour);
  EXPECT_EQ(cell.committed_k(), 2U) << name_of(point);
  const LakeVerdict verdict = cell.check_lake();
  EXPECT_TRUE(verdict.right()) << name_of(point) << "\n" << verdict.text();
  return cell.data_objects();
}

TEST(QueueTaskCrash, EveryPointEndsInTheSameBytes) {
  Cell untouched;
  const auto expected = two_hours(untouched, CrashPoint::never);
  ASSERT_EQ(expected.size(), 2U);
  for (const CrashPoint point : kPoints) {
    Cell cell;
    EXPECT_EQ(two_hours(cell, point), expected) << name_of(point);
  }
}

TEST(QueueTaskCrash, EveryPointIsFinishedInSilence) {
  for (const CrashPoint point : kPoints) {
    Cell cell;
    push_rides(cell, 7);
    run_and_crash(cell, point);
    Node node(cell, quick_node(), hourly_unit());
    EXPECT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }, 30 * kSecond)) << name_of(point);
    const LakeVerdict verdict = cell.check_lake();
    EXPECT_TRUE(verdict.right()) << name_of(point) << "\n" << verdict.text();
  }
}

struct Left {
  CrashPoint point;
  std::uint64_t intent_k, committed_k;
  std::size_t data, manifests;
};
TEST(QueueTaskCrash, LeavesExactlyWhatThePointSays) {
  for (const Left& left :
       {Left{CrashPoint::after_intent, 1, 0, 0, 0}, Left{CrashPoint::mid_upload, 1, 0, 1, 0},
        Left{CrashPoint::after_upload, 1, 0, 1, 1}, Left{CrashPoint::before_commit, 1, 0, 1, 1},
        Left{CrashPoint::after_commit, 1, 1, 1, 1}}) {
    Cell cell;
    push_rides(cell, 7);
    run_and_crash(cell, left.point);
    EXPECT_EQ(parse_intent(cell.broker.live(intent_key("default", kQueue))->value)->bounds.k, left.intent_k);
    EXPECT_EQ(cell.committed_k(), left.committed_k) << name_of(left.point);
    EXPECT_EQ(cell.data_objects().size(), left.data) << name_of(left.point);
    EXPECT_EQ(cell.store.objects().size(), left.data + left.manifests) << name_of(left.point);
  }
}

TEST(QueueTaskCrash, FinishedUploadIsCommittedWithoutReadOrPut) {
  Cell cell;
  push_rides(cell, 7);
  run_and_crash(cell, CrashPoint::after_upload);
  const auto puts = cell.store.puts().size();
  const auto fetches = cell.broker.fetch_calls;
  cell.broker.latency_us = kSecond;  // what comes after the commit has not begun to read when it is seen
  Node node(cell, quick_node(), hourly_unit());
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  EXPECT_EQ(cell.store.puts().size(), puts);
  EXPECT_EQ(cell.broker.fetch_calls, fetches);
  const auto pointer = parse_committed(cell.broker.live(committed_key("default", kQueue))->value);
  const auto manifest = parse_manifest(*cell.store.object(manifest_key(cell.path(), 1)));
  EXPECT_EQ(pointer->records, manifest->records);
  EXPECT_EQ(pointer->bytes, manifest->bytes);
  EXPECT_EQ(pointer->manifest, manifest_key(cell.path(), 1));
}

TEST(QueueTaskCrash, ForeignManifestIsReplacedByTheRebuiltOne) {
  for (const bool other_writer : {false, true}) {
    Cell cell;
    push_rides(cell, 7);
    run_and_crash(cell, CrashPoint::after_upload);
    const std::string key = manifest_key(cell.path(), 1);
    Manifest manifest = *parse_manifest(*cell.store.object(key));
    if (other_writer) manifest.writer += "0";
    if (!other_writer) manifest.bounds.t_end -= 1;
    cell.store.insert(key, encode(manifest));
    const auto puts = cell.store.puts().size();
    Node node(cell, quick_node(), hourly_unit());
    ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
    EXPECT_EQ(cell.store.puts().size(), puts + 2);
    EXPECT_TRUE(cell.check_lake().right()) << cell.check_lake().text();
  }
}

TEST(QueueTaskCrash, ManifestThatLandsDuringTheRedoIsTakenBeforeAnyPut) {
  Cell cell;
  push_rides(cell, 7);
  run_and_crash(cell, CrashPoint::after_upload);
  const std::string key = manifest_key(cell.path(), 1);
  const Bytes manifest = *cell.store.object(key);
  cell.store.erase(key);
  const auto puts = cell.store.puts().size();
  cell.broker.latency_us = 1 * kSecond;
  Node node(cell, quick_node(), hourly_unit());
  ASSERT_TRUE(cell.run_until([&] { return node.row().state == QueueState::filling && node.row().redo; }));
  cell.store.insert(key, manifest);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  EXPECT_EQ(cell.store.puts().size(), puts);
}

TEST(QueueTaskCrash, RedoUsesTheFormatOfTheIntent) {
  Cell cell;
  push_rides(cell, 7);
  run_and_crash(cell, CrashPoint::after_intent);
  UnitSettings plain = hourly_unit();
  plain.kind.codec = lake::Codec::none;
  Node node(cell, quick_node(), plain);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  EXPECT_TRUE(cell.data_objects().begin()->first.ends_with(".jsonl.zst"));
  cell.run_for(10 * kSecond);
  push_rides(cell, 3);
  cell.run_for(kHour);
  EXPECT_TRUE(cell.data_objects().rbegin()->first.ends_with(".jsonl"));
  EXPECT_TRUE(cell.check_lake().right()) << cell.check_lake().text();
}

TEST(QueueTaskCrash, IntentOfAnotherBuildStopsTheQueueNamingIt) {
  Cell cell;
  push_rides(cell, 7);
  cell.broker.put_behind(intent_key("default", kQueue),
                         encode(Intent{.bounds = {.k = 1, .t_start = kEpoch, .t_end = kEpoch + kHour},
                                       .format = "orc",
                                       .compression = "zstd",
                                       .layout = "merged",
                                       .writer = "w"}));
  Node node(cell, quick_node(), hourly_unit());
  cell.run_for(20 * kSecond);
  EXPECT_EQ(node.row().state, QueueState::failed);
  EXPECT_THAT(node.row().last_error->message,
              ::testing::AllOf(::testing::HasSubstr("s3:default:rides:intent"), ::testing::HasSubstr("orc")));
}

TEST(QueueTaskCrash, SecondOwnerFencesTheFirstAtItsIntent) {
  Cell cell;
  push_rides(cell, 7);
  NodeSettings slow = quick_node();
  slow.lease_ttl_us = 60 * kSecond;
  slow.checkpoint_every = 20;
  Node first(cell, slow);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  push_rides(cell, 7);
  cell.run_for(3 * kSecond);
  cell.broker.rows.erase(lease_key("default", kQueue));
  NodeSettings other = slow;
  other.instance = "node-2@b";
  Node second(cell, other);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() >= 2; }));
  cell.run_for(5 * kSecond);
  EXPECT_EQ(first.row().state, QueueState::fenced);
  EXPECT_GE(first.counters().precondition_lost, 1U);
  EXPECT_EQ(first.row().windows_committed, 1U);
  EXPECT_EQ(second.row().windows_committed, 1U);
  EXPECT_TRUE(second.row().owned_here);
  EXPECT_EQ(cell.store.puts().size(), 4U) << "one object and its manifest for each window";
  EXPECT_TRUE(cell.check_lake().right()) << cell.check_lake().text();
}

TEST(QueueTaskCrash, LeaseLostBetweenWindowsLeavesThePointer) {
  Cell cell;
  push_rides(cell, 7);
  Node node(cell);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  cell.broker.put_behind(lease_key("default", kQueue),
                         encode(LeaseRow{.instance = "node-2@b", .incarnation = "00", .since_ms = 1}));
  push_rides(cell, 7);
  cell.run_for(60 * kSecond);
  EXPECT_EQ(cell.committed_k(), 1U);
  EXPECT_FALSE(cell.store.object(manifest_key(cell.path(), 2)));
  EXPECT_EQ(node.row().held_by, "node-2@b");
}

TEST(QueueTaskCrash, UnreadableIntentIsIgnoredButItsVersionIsNot) {
  Cell cell;
  push_rides(cell, 7);
  cell.broker.put_behind(intent_key("default", kQueue), "{\"k\":");
  Node node(cell);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  EXPECT_EQ(node.counters().precondition_lost, 0U);
  EXPECT_TRUE(cell.check_lake().right());
}

TEST(QueueTaskCrash, RefreshesNeverFenceTheirOwnNode) {
  Cell cell;
  cell.broker.kv_latency_us = 40'000;
  NodeSettings settings = quick_node();
  settings.lease_ttl_us = 1 * kSecond;
  settings.discovery_interval_us = 50'000;
  settings.safe_guard_us = 0;
  UnitSettings unit = quick_unit();
  unit.max_window_us = 100'000;
  cell.broker.at(kQueue);
  Node node(cell, settings, unit);
  for (int i = 0; i < 400 && cell.committed_k() < 20; ++i) {
    push_rides(cell, 2);
    cell.run_for(100'000);
  }
  EXPECT_GE(cell.committed_k(), 20U);
  EXPECT_EQ(node.counters().precondition_lost, 0U);
  EXPECT_TRUE(node.row().owned_here);
  cell.broker.put_behind(lease_key("default", kQueue),
                         encode(LeaseRow{.instance = "node-2@b", .incarnation = "00", .since_ms = 1}));
  cell.run_for(500'000);
  EXPECT_FALSE(node.row().owned_here);
}

TEST(QueueTaskCrash, RedoWaitsUntilThisNodeHasAppliedTheWindow) {
  Cell cell;
  push_rides(cell, 7);
  run_and_crash(cell, CrashPoint::mid_upload);
  const auto before = cell.data_objects();
  const auto puts = cell.store.puts().size();
  // One guard short of the end.
  cell.broker.pinned_safe =
      parse_intent(cell.broker.live(intent_key("default", kQueue))->value)->bounds.t_end;
  Node node(cell, quick_node(), hourly_unit());
  cell.run_for(60 * kSecond);
  EXPECT_EQ(cell.store.puts().size(), puts);
  EXPECT_TRUE(node.row().redo);
  cell.broker.pinned_safe.reset();
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  EXPECT_EQ(cell.data_objects(), before);
}

}  // namespace
}  // namespace queen::sink::test

// Retention: what the planner lets go and what a watermark does to the rows (storage.md 17, B24, B25).
#include "machine/retention.h"

#include <gtest/gtest.h>

#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;
using store::Keyspace;

constexpr std::int64_t kMinute = 60 * kSecond;

store::QueueRow queue_row_of(std::int32_t retention, std::int32_t completed_after, std::int32_t wait) {
  store::QueueRow row;
  row.retention_enabled = true;
  row.retention_seconds = retention;
  row.completed_retention_seconds = completed_after;
  row.max_wait_time_seconds = wait;
  return row;
}

// RT-7 and the table of 17.2
TEST(Cutoffs, CountFromNowAndOnlyWhenTheirSettingIsOn) {
  const std::int64_t now = 1'000'000 * kSecond;
  const Cutoffs on = cutoffs_of(queue_row_of(10, 20, 30), now, {}, 900 * kSecond);
  EXPECT_EQ(on.all, now - 10 * kSecond);
  EXPECT_EQ(on.completed, now - 20 * kSecond);
  EXPECT_EQ(on.wait, now - 30 * kSecond);
  store::QueueRow off = queue_row_of(10, 20, 30);
  off.retention_enabled = false;
  const Cutoffs kept = cutoffs_of(off, now, {}, 0);
  EXPECT_EQ(kept.all, Cutoffs::kNever);
  EXPECT_EQ(kept.completed, Cutoffs::kNever);
  EXPECT_EQ(kept.wait, now - 30 * kSecond);
  EXPECT_EQ(cutoffs_of(queue_row_of(0, 0, 0), now, {}, 0).furthest(), Cutoffs::kNever);
}

// RT-2
TEST(Cutoffs, HashListsLiveForTheLongestOfTheirThreeTimes) {
  const std::int64_t now = 1'000'000 * kSecond;
  store::QueueRow row = queue_row_of(1, 50, 0);
  row.dedup_window_seconds = 100;
  EXPECT_EQ(cutoffs_of(row, now, {}, 10 * kSecond).txns, now - 100 * kSecond);
  EXPECT_EQ(cutoffs_of(row, now, {}, 900 * kSecond).txns, now - 900 * kSecond);
  row.dedup_window_seconds = 10;
  EXPECT_EQ(cutoffs_of(row, now, {}, 10 * kSecond).txns, now - 50 * kSecond);
}

TEST(Cutoffs, RowsStayForAsLongAsAPopJudgesADelayByThem) {
  const std::int64_t now = 1'000'000 * kSecond;
  store::QueueRow row;
  row.dedup_window_seconds = 10;
  row.delayed_processing = 3'600;
  const Cutoffs cutoffs = cutoffs_of(row, now, {}, 0);
  EXPECT_EQ(cutoffs.txns, now - 10 * kSecond);
  EXPECT_EQ(cutoffs.rows, now - 3'600 * kSecond);
}

// B25, RT-7
TEST(Cutoffs, ASinkHoldKeepsWhatTheSinkHasNotCommittedUpToItsCap) {
  const std::int64_t now = 1'000'000 * kSecond;
  store::QueueRow row = queue_row_of(10, 5, 10);
  row.retention_sink_hold = "default";
  row.retention_sink_hold_max_seconds = 3'600;
  const std::int64_t end = now - 5 * kMinute;
  const Cutoffs held = cutoffs_of(row, now, end, 0);
  EXPECT_EQ(held.all, end - kMinute);
  EXPECT_EQ(held.completed, end - kMinute);
  EXPECT_EQ(held.wait, now - 10 * kSecond);                           // ignores the hold
  EXPECT_EQ(cutoffs_of(row, now, {}, 0).all, now - 3'600 * kSecond);  // no pointer: the cap
  EXPECT_EQ(cutoffs_of(row, now, now - 9'999 * kSecond, 0).all, now - 3'600 * kSecond);  // stopped for good
  row.retention_seconds = 7'200;
  EXPECT_EQ(cutoffs_of(row, now, end, 0).all, now - 7'200 * kSecond);  // older than the hold anyway
  row.retention_sink_hold_max_seconds = 0;
  EXPECT_EQ(cutoffs_of(row, now, {}, 0).completed, now - 604'800 * kSecond);
}

// RT-7: the key and the document of s3-sink.md 5 and 13.
TEST(SinkEnd, IsReadFromTheQueuesCommitPointerToTheMillisecond) {
  Node node;
  store::QueueRow row;
  const auto end = [&] { return sink_end_us(node.store, kTenant, "a b/ü:c", row, node.now); };
  const auto pointer = [&](const std::string& value) {
    store::KvRow kv;
    kv.value = value;
    kv.version = 1;
    node.store.put(Keyspace::kv, store::kv_key(kTenant, "queen-s3", "s3:lake:a%20b%2F%C3%BC%3Ac:committed"),
                   kv.encode());
  };
  pointer(R"({"k": 57, "tEnd": "2026-11-07T09:04:51.004417Z", "manifest": "m"})");
  EXPECT_FALSE(end());  // the queue holds for nobody
  row.retention_sink_hold = "lake";
  EXPECT_EQ(end(), 1'794'042'291'004'000);
  row.retention_sink_hold = "other";
  EXPECT_FALSE(end());
  row.retention_sink_hold = "lake";
  for (const char* bad : {"7", "{", R"({"k":1})", R"({"tEnd": 1794042291004417})", R"({"tEnd": "soon"})"}) {
    pointer(bad);
    EXPECT_FALSE(end()) << bad;
  }
}

// A partition with one append of three messages a minute.
class Retention : public ::testing::Test {
 protected:
  void SetUp() override {
    node.configure({{"retentionEnabled", 1}, {"retentionSeconds", 150}, {"dedupWindowSeconds", 200}});
    for (int i = 0; i < 4; ++i) {
      const std::string n = std::to_string(i);
      pid = node.push("p", {"a" + n, "b" + n, "c" + n}).pid;
      stamps.push_back(partition().last_created_at);
      node.now += kMinute;
    }
  }
  store::PartitionRow partition() const {
    return *store::PartitionRow::decode(*node.store.get(Keyspace::partitions, store::partition_key(pid)));
  }
  std::int64_t retained() const {
    const auto bytes = node.store.get(
        Keyspace::counters, store::counter_key(store::CounterScope::queue, store::counter_id(kTenant, "q"),
                                               store::Counter::retained_bytes));
    return bytes ? *store::decode_i64_row(*bytes) : 0;
  }
  // Everything below the n-th append.
  RetentionMove below(std::size_t n) const {
    RetentionMove move;
    move.pid = pid;
    move.log_start_from = partition().log_start;
    move.log_start = move.txns_start = move.rows_start = static_cast<std::int64_t>(3 * n);
    move.log_stamp = move.txns_stamp = move.rows_stamp = stamps.at(n - 1);
    move.retained_bytes = static_cast<std::uint64_t>(12 * n);
    if (n < stamps.size()) move.oldest_live_at = stamps[n];
    return move;
  }
  RetentionOutcome run(RetentionMove move) {
    RetentionCommand command;
    command.moves = {std::move(move)};
    command.cleanup_us = cleanup_us;
    return node.one<RetentionOutcome>(std::move(command));
  }

  Node node;
  Pid pid;
  std::vector<std::int64_t> stamps;
  std::int64_t cleanup_us = 0;
};

// RT-8, RT-9, B24
TEST_F(Retention, EachWatermarkMovesAsFarAsItsOwnCutoffAndHashListsOutliveMessages) {
  EXPECT_EQ(run(below(2)).moved, 1U);  // 180 s old, and 240 s
  EXPECT_EQ(partition().log_start, 6);
  EXPECT_EQ(partition().txns_start, 0);  // the second is within the dedup window
  EXPECT_EQ(partition().oldest_live_at, stamps[2]);
  EXPECT_EQ(retained(), 24);
  RetentionMove move = below(1);
  move.log_stamp = 0;
  EXPECT_EQ(run(move).moved, 1U);
  EXPECT_EQ(partition().txns_start, 3);
  EXPECT_EQ(partition().rows_start, 3);
  EXPECT_EQ(node.store.rows(Keyspace::txns), 3U);
  // Its payload is gone, its id is not.
  EXPECT_EQ(node.push("p", {"a1"}).items[0].status, PushItemOutcome::Status::duplicate);
}

// RT-11, B24
TEST_F(Retention, MovesThatNoLongerHoldAreDropped) {
  EXPECT_EQ(run(below(3)).dropped, 1U);  // not due
  RetentionMove inside = below(2);
  inside.log_start = inside.txns_start = inside.rows_start = 5;  // within an append
  EXPECT_EQ(run(inside).dropped, 1U);
  RetentionMove wrong_stamp = below(2);
  wrong_stamp.log_stamp = wrong_stamp.txns_stamp = wrong_stamp.rows_stamp = 1;
  EXPECT_EQ(run(wrong_stamp).dropped, 1U);
  EXPECT_EQ(run(below(2)).moved, 1U);
  const auto log_only = [&](std::size_t n) {
    RetentionMove move = below(n);
    move.txns_stamp = move.rows_stamp = 0;
    return move;
  };
  EXPECT_EQ(run(log_only(1)).dropped, 1U);  // backwards
  node.now += kMinute;
  RetentionMove stale = log_only(3);
  stale.log_start_from = 0;  // its bytes were counted from elsewhere
  EXPECT_EQ(run(stale).dropped, 1U);
  EXPECT_EQ(partition().log_start, 6);
  EXPECT_EQ(run(log_only(3)).moved, 1U);
  RetentionMove unknown = below(2);
  unknown.pid = Pid{99};
  EXPECT_EQ(run(unknown).dropped, 1U);
}

// RT-11
TEST_F(Retention, OnePartitionMovesOnceInAnEntry) {
  RetentionCommand command;
  command.moves = {below(1), below(2)};
  command.moves[1].log_start_from = 3;
  const auto out = node.one<RetentionOutcome>(std::move(command));
  EXPECT_EQ(out.moved, 1U);
  EXPECT_EQ(out.dropped, 1U);
}

// 17.2: completed
TEST_F(Retention, CompletedMessagesGoWhenEveryGroupHasFinishedThem) {
  node.configure({{"retentionSeconds", 0}, {"completedRetentionSeconds", 30}});
  EXPECT_EQ(run(below(2)).dropped, 1U);  // no group: nothing is completed
  PopCommand pop = node.pop_command(6);
  node.consume(pop);
  EXPECT_EQ(run(below(3)).moved, 0U);  // consumed up to 6 only
  const auto read_late = [&](std::uint32_t messages) {
    PopCommand late = node.pop_command(messages);
    late.group = "late";
    late.subscription.mode = Subscription::Mode::all;
    node.consume(late);
  };
  read_late(1);
  EXPECT_EQ(run(below(2)).dropped, 1U);
  read_late(5);
  EXPECT_EQ(run(below(3)).dropped, 1U);
  EXPECT_EQ(run(below(2)).moved, 1U);
  EXPECT_EQ(partition().log_start, 6);
  EXPECT_TRUE(completed({5, {}}, 5, 10));
  EXPECT_FALSE(completed({4, {}}, 5, 10));
  EXPECT_FALSE(completed({5, 10}, 5, 10));  // a group that waits for what is stamped 10 and later
  EXPECT_TRUE(completed({5, 11}, 5, 10));
  EXPECT_FALSE(completed({}, 5, 10));
}

// RT-9 and HD-37: nothing is left of the gauges when nothing is left of the messages.
TEST_F(Retention, AnEmptiedPartitionRetainsNothing) {
  node.now += 10 * kMinute;
  RetentionMove all = below(4);
  all.retained_bytes = 1;  // whatever the proposer counted
  EXPECT_EQ(run(all).moved, 1U);
  EXPECT_EQ(retained(), 0);
  EXPECT_EQ(partition().log_start, 12);
  EXPECT_EQ(partition().rows_start, 12);
  EXPECT_FALSE(partition().oldest_live_at);
  EXPECT_EQ(node.store.rows(Keyspace::txns), 0U);
  EXPECT_TRUE(node.pop().claims.empty());
  EXPECT_EQ(node.cursor(pid)->committed, 11);
  EXPECT_FALSE(node.pending(pid));
  // Offsets go on, and the gauges with them.
  EXPECT_EQ(node.push("p", {"z"}).items[0].offset, 12U);
  EXPECT_EQ(retained(), 3);
}

// RT-9 with QUEEN_RAFT_ROWS_WINDOW, B24
TEST_F(Retention, RowsOfRetainedMessagesLeaveByTheDedupWindowAlone) {
  node.configure({{"retentionEnabled", 0}});
  node.now += 10 * kMinute;
  RetentionMove move = below(4);
  RetentionCommand off;
  off.moves = {move};
  off.rows_window = false;
  EXPECT_EQ(node.one<RetentionOutcome>(off).dropped, 1U);
  EXPECT_EQ(run(move).moved, 1U);
  EXPECT_EQ(partition().rows_start, 12);
  EXPECT_EQ(partition().txns_start, 0);
  EXPECT_EQ(partition().log_start, 0);
  EXPECT_EQ(node.store.rows(Keyspace::txns), 0U);
}

// api-messaging D-3, and the bound of storage.md 8.2 when it is asked for
TEST_F(Retention, DeadLettersOutliveTheirMessagesUnlessTheyAreToGo) {
  const auto out = node.pop(3);
  AckCommand ack;
  for (const char* id : {"a0", "b0"})
    ack.items.push_back(node.ack_item(out.claims[0].pid, id, AckStatus::dlq, node.last_lease));
  node.one<AckOutcome>(ack);
  EXPECT_EQ(node.dead_letters(), 2U);
  EXPECT_EQ(run(below(1)).moved, 1U);
  EXPECT_EQ(node.dead_letters(), 2U);
  RetentionCommand command;
  command.moves = {below(2)};
  command.dead_letters_max = 1;
  node.one<RetentionOutcome>(command);
  EXPECT_EQ(node.dead_letters(), 1U);
  EXPECT_EQ(node.store.rows(Keyspace::dlq_by_pos), 1U);
}

// RT-3, RT-13, RT-14
TEST_F(Retention, APartitionIsRemovedOnlyWhenNothingIsInIt) {
  RetentionMove remove;
  remove.pid = pid;
  remove.remove = true;
  EXPECT_EQ(run(remove).dropped, 1U);  // off
  cleanup_us = 30 * kMinute;
  node.now += 60 * kMinute;
  EXPECT_EQ(run(remove).dropped, 1U);  // retains messages
  node.one<PopOutcome>(node.pop_command(3));
  EXPECT_EQ(run(below(4)).moved, 1U);
  EXPECT_EQ(run(remove).dropped, 1U);  // a cursor of today
  node.now += 60 * kMinute;
  EXPECT_EQ(run(remove).removed, 1U);
  for (const Keyspace gone :
       {Keyspace::partitions, Keyspace::partitions_by_key, Keyspace::queue_partitions, Keyspace::cursors,
        Keyspace::leases_by_worker, Keyspace::pending, Keyspace::txns})
    EXPECT_EQ(node.store.rows(gone), 0U) << store::name_of(gone);
  EXPECT_EQ(run(remove).dropped, 1U);
  const auto again = node.push("p", {"a0"});
  EXPECT_NE(again.pid, pid);
  EXPECT_EQ(again.items[0].offset, 0U);
}

// RT-13
TEST_F(Retention, APartitionWithADeadLetterIsNotRemoved) {
  const auto out = node.pop(3);
  AckCommand ack;
  ack.items.push_back(node.ack_item(out.claims[0].pid, "a0", AckStatus::dlq, node.last_lease));
  node.one<AckOutcome>(ack);
  cleanup_us = 30 * kMinute;
  node.now += 120 * kMinute;
  EXPECT_EQ(run(below(4)).moved, 1U);
  RetentionMove remove;
  remove.pid = pid;
  remove.remove = true;
  EXPECT_EQ(run(remove).dropped, 1U);
}

}  // namespace
}  // namespace queen::machine

// Timers (api-state.md 3.4): what scheduling, cancelling and firing decide.
#include <gmock/gmock.h>

#include <limits>
#include <map>

#include "machine/check_state.h"
#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using Status = TimerOpOutcome::Status;

class Timers : public ::testing::Test {
 protected:
  void TearDown() override {
    FindingList found;
    check_state(node.store, "store", found);
    for (const Finding& finding : found.all) ADD_FAILURE() << finding.what;
  }

  TimerOp schedule_op(const std::string& key, std::int64_t delay_us, const std::string& id = {}) {
    TimerOp op;
    op.queue = "q";
    op.key = key;
    op.transaction_id = id.empty() ? "id of " + key : id;
    op.delay_us = delay_us;
    op.partition = "p";
    op.payload = "1";
    op.message_id = numbered_uuid(node.next_uuid++);
    return op;
  }
  static TimerOp cancel_op(const std::string& key, const std::string& id = {}) {
    TimerOp op;
    op.kind = TimerOp::Kind::cancel;
    op.queue = "q";
    op.key = key;
    op.transaction_id = id;
    return op;
  }
  std::vector<TimerOpOutcome> run(std::vector<TimerOp> ops) {
    return node.one<TimersOutcome>(TimersCommand{std::move(ops)}).ops;
  }
  TimerOpOutcome schedule(const std::string& key, std::int64_t delay_us, const std::string& id = {}) {
    return run({schedule_op(key, delay_us, id)}).at(0);
  }
  std::optional<store::TimerRow> row(const std::string& key) {
    const auto bytes = node.store.get(store::Keyspace::timers, store::timer_key(kTenant, "q", key));
    if (!bytes) return std::nullopt;
    return *store::TimerRow::decode(*bytes);
  }
  std::size_t due_rows() { return node.store.rows(store::Keyspace::timers_due); }

  // What a broker that read these timers now would submit.
  TimerFireCommand fire_of(const std::vector<std::string>& keys, const std::string& letter = {}) {
    TimerFireCommand fire;
    std::map<std::string, std::size_t> batches;
    for (const std::string& key : keys) {
      const store::TimerRow timer = row(key).value();
      const auto [at, fresh] = batches.try_emplace(timer.partition, batches.size());
      if (fresh) fire.push.batches.emplace_back().partition = timer.partition;
      PushBatch& batch = fire.push.batches[at->second];
      batch.queue = "q";
      TimerFireCommand::One one{
          "q", key, timer.message_id, at->second, static_cast<std::uint32_t>(batch.items()), std::nullopt};
      if (!letter.empty()) one.letter = letter;
      fire.timers.push_back(one);
      batch.hashes += xxh3_128(timer.transaction_id).view();
      batch.frames += "<" + timer.transaction_id + ">";
      batch.frame_ends.push_back(static_cast<std::uint32_t>(batch.frames.size()));
    }
    return fire;
  }
  TimerFireOutcome fire(const std::vector<std::string>& keys) {
    return node.one<TimerFireOutcome>(fire_of(keys));
  }
  std::optional<Pid> pid_of(const std::string& partition = "p") {
    const auto row =
        node.store.get(store::Keyspace::partitions_by_key, store::partition_by_key(kTenant, "q", partition));
    return row ? std::optional(*store::decode_pid_row(*row)) : std::nullopt;
  }
  std::int64_t last_offset(const std::string& partition = "p") {
    const auto pid = pid_of(partition);
    if (!pid) return -2;
    const auto row = node.store.get(store::Keyspace::partitions, store::partition_key(*pid));
    return store::PartitionRow::decode(*row)->last_offset;
  }
  void pass(std::int64_t us) { node.now += us; }

  Node node;
};

TEST_F(Timers, ScheduleAnswersItsStampPlusTheDelay) {
  const auto out = schedule("k", 900 * kSecond, "x");
  EXPECT_EQ(out.status, Status::scheduled);
  EXPECT_EQ(out.transaction_id, "x");
  EXPECT_EQ(out.deliver_at, node.entries.back().now_us + 900 * kSecond);
  const auto timer = row("k").value();
  EXPECT_EQ(timer.message_id, out.message_id);
  EXPECT_EQ(timer.deliver_at, out.deliver_at);
  EXPECT_EQ(timer.created, node.entries.back().now_us);
  EXPECT_EQ(due_rows(), 1U);
  // A timer makes no queue before it fires.
  EXPECT_EQ(node.store.rows(store::Keyspace::queues), 0U);
}

TEST_F(Timers, DelaysBeyondAllTimeAndBeforeItAreKept) {
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(schedule("far", kFar).deliver_at, kFar);
  EXPECT_EQ(schedule("past", -kFar).deliver_at, 0);
  EXPECT_EQ(fire({"past"}).fired, 1U);
}

TEST_F(Timers, RescheduleReplacesAllButCreation) {
  const auto first = schedule("k", kSecond, "x");
  const std::int64_t created = node.entries.back().now_us;
  TimerFireCommand failing = fire_of({"k"});
  failing.push.batch_bytes_max = 1;
  pass(2 * kSecond);
  EXPECT_EQ(node.one<TimerFireOutcome>(failing).refused, 1U);
  EXPECT_EQ(row("k")->attempts, 1U);
  TimerOp op = schedule_op("k", 5 * kSecond, "y");
  op.partition = "other";
  op.payload = "2";
  const auto second = run({op}).at(0);
  EXPECT_EQ(second.status, Status::rescheduled);
  const auto timer = row("k").value();
  EXPECT_EQ(timer.transaction_id, "y");
  EXPECT_EQ(timer.partition, "other");
  EXPECT_EQ(timer.payload, "2");
  EXPECT_NE(timer.message_id, first.message_id);
  EXPECT_EQ(timer.attempts, 0U);
  EXPECT_FALSE(timer.last_error || timer.visible_at);
  EXPECT_EQ(timer.created, created);
  EXPECT_EQ(timer.updated, node.entries.back().now_us);
  EXPECT_EQ(due_rows(), 1U);
}

TEST_F(Timers, CancelTellsTheTimersIdAndAbsentTheOneThatWasSent) {
  schedule("k", kSecond, "x");
  const auto out = run({cancel_op("k", "sent"), cancel_op("never", "sent")});
  EXPECT_EQ(out[0].status, Status::cancelled);
  EXPECT_EQ(out[0].transaction_id, "x");
  EXPECT_EQ(out[1].status, Status::absent);
  EXPECT_EQ(out[1].transaction_id, "sent");
  EXPECT_FALSE(row("k"));
  EXPECT_EQ(due_rows(), 0U);
}

TEST_F(Timers, OnlyAbsentCancelsWriteNothing) {
  EXPECT_EQ(run({cancel_op("a"), cancel_op("b")})[1].status, Status::absent);
  EXPECT_TRUE(node.entries.empty());
}

TEST_F(Timers, FireIsOneEntryOfTheMessageAndTheRemoval) {
  schedule("k", kSecond, "x");
  pass(kSecond);
  const std::size_t entries = node.entries.size();
  EXPECT_EQ(fire({"k"}).fired, 1U);
  EXPECT_EQ(node.entries.size(), entries + 1);
  EXPECT_EQ(last_offset(), 0);
  EXPECT_FALSE(row("k"));
  EXPECT_EQ(due_rows(), 0U);
  // The queue came with it, as with a push.
  EXPECT_EQ(node.store.rows(store::Keyspace::queues), 1U);
}

TEST_F(Timers, NeverFireBeforeTheyAreDue) {
  const auto out = schedule("k", kSecond);
  node.now = out.deliver_at - 1;
  EXPECT_EQ(fire({"k"}).passed, 1U);
  EXPECT_EQ(last_offset(), -2);
  node.now = out.deliver_at;
  EXPECT_EQ(fire({"k"}).fired, 1U);
}

TEST_F(Timers, FireOnceHoweverOftenTheyAreSubmitted) {
  schedule("k", 0, "x");
  pass(1);
  const TimerFireCommand read = fire_of({"k"});
  const std::vector<Outcome> both = node.run({node.command(read), node.command(read)});
  EXPECT_EQ(std::get<TimerFireOutcome>(both[0].body).fired, 1U);
  EXPECT_EQ(std::get<TimerFireOutcome>(both[1].body).passed, 1U);
  EXPECT_EQ(node.one<TimerFireOutcome>(read).passed, 1U);
  EXPECT_EQ(last_offset(), 0);
}

TEST_F(Timers, RescheduledOrCancelledBetweenReadAndFireAreLeft) {
  for (const char* key : {"a", "b", "c"}) schedule(key, 0);
  pass(1);
  const TimerFireCommand read = fire_of({"a", "b", "c"});
  // The second is due at once again, and still not what was read.
  run({cancel_op("a"), schedule_op("b", -kSecond, "new")});
  const auto out = node.one<TimerFireOutcome>(read);
  EXPECT_EQ(out.fired, 1U);
  EXPECT_EQ(out.passed, 2U);
  EXPECT_EQ(last_offset(), 0);
  EXPECT_EQ(row("b")->transaction_id, "new");
  EXPECT_FALSE(row("a") || row("c"));
  EXPECT_EQ(fire({"b"}).fired, 1U);
}

TEST_F(Timers, ACancelInTheSameEntryIsBeforeTheFireOrAfterIt) {
  schedule("k", 0, "x");
  pass(1);
  const TimerFireCommand read = fire_of({"k"});
  const auto first = node.run({node.command(TimersCommand{{cancel_op("k")}}), node.command(read)});
  EXPECT_EQ(std::get<TimersOutcome>(first[0].body).ops[0].status, Status::cancelled);
  EXPECT_EQ(std::get<TimerFireOutcome>(first[1].body).passed, 1U);
  EXPECT_EQ(last_offset(), -2);
  schedule("k", 0, "x");
  pass(1);
  const TimerFireCommand again = fire_of({"k"});
  const auto second = node.run({node.command(again), node.command(TimersCommand{{cancel_op("k", "s")}})});
  EXPECT_EQ(std::get<TimerFireOutcome>(second[0].body).fired, 1U);
  EXPECT_EQ(std::get<TimersOutcome>(second[1].body).ops[0].status, Status::absent);
  EXPECT_EQ(last_offset(), 0);
}

TEST_F(Timers, AnIdInTheWindowOfItsPartitionAppendsNothing) {
  node.push("p", {"x"});
  schedule("k", 0, "x");
  pass(1);
  const auto out = fire({"k"});
  EXPECT_EQ(out.duplicates, 1U);
  EXPECT_EQ(out.fired, 0U);
  EXPECT_FALSE(row("k"));
  EXPECT_EQ(last_offset(), 0);
}

TEST_F(Timers, TwoOfOneStepWithOneIdAreOneMessage) {
  schedule("a", 0, "x");
  schedule("b", 0, "x");
  pass(1);
  const auto out = fire({"a", "b"});
  EXPECT_EQ(out.fired, 1U);
  EXPECT_EQ(out.duplicates, 1U);
  EXPECT_EQ(last_offset(), 0);
}

// DD-2: without a window nothing is a duplicate, also not within a step.
TEST_F(Timers, TwoOfOneStepWithOneIdAreTwoMessagesWithoutAWindow) {
  node.configure({{"dedupWindowSeconds", 0}});
  schedule("a", 0, "x");
  schedule("b", 0, "x");
  pass(1);
  const auto first = fire({"a", "b"});
  EXPECT_EQ(first.fired, 1U);
  EXPECT_EQ(first.passed, 1U);
  EXPECT_EQ(fire({"b"}).fired, 1U);
  EXPECT_EQ(last_offset(), 1);
}

TEST_F(Timers, KeepTheirOrderWithinAPartition) {
  schedule("late", 2 * kSecond, "2");
  schedule("early", kSecond, "1");
  pass(3 * kSecond);
  fire({"early", "late"});
  EXPECT_EQ(last_offset(), 1);
  const auto first = node.store.get(store::Keyspace::txns, store::txns_key(pid_of().value(), 0));
  ASSERT_TRUE(first);
  const auto append = store::AppendRow::decode(*first).value();
  EXPECT_THAT(append.hashes, ElementsAre(xxh3_128("1"), xxh3_128("2")));
}

// TM-9: min · 2^attempts, at most max.
TEST_F(Timers, ARefusedFireWaitsTwiceAsLongEachTime) {
  schedule("k", 0);
  std::vector<std::int64_t> waits;
  for (int i = 0; i < 5; ++i) {
    node.now = std::max(node.now, row("k")->due()) + 1;
    TimerFireCommand failing = fire_of({"k"});
    failing.push.batch_bytes_max = 1;
    failing.attempts_max = 100;
    failing.backoff_min_us = 1'000;
    failing.backoff_max_us = 5'000;
    EXPECT_EQ(node.one<TimerFireOutcome>(failing).refused, 1U);
    waits.push_back(row("k")->due() - node.entries.back().now_us);
    // Not due before that: reading it too early passes it over.
    EXPECT_EQ(fire({"k"}).passed, 1U);
  }
  EXPECT_THAT(waits, ElementsAre(1'000, 2'000, 4'000, 5'000, 5'000));
  EXPECT_EQ(row("k")->attempts, 5U);
  EXPECT_EQ(row("k")->last_error, "the message is larger than an entry may be");
  EXPECT_EQ(due_rows(), 1U);
  EXPECT_EQ(last_offset(), -2);
}

TEST_F(Timers, InBackoffCanBeCancelled) {
  schedule("k", 0, "x");
  pass(1);
  TimerFireCommand failing = fire_of({"k"});
  failing.push.batch_bytes_max = 1;
  node.one<TimerFireOutcome>(failing);
  EXPECT_EQ(run({cancel_op("k")})[0].status, Status::cancelled);
  EXPECT_EQ(due_rows(), 0U);
}

TEST_F(Timers, TheLastRefusalFilesADeadLetter) {
  schedule("k", 0, "x");
  const Uuid message_id = row("k")->message_id;
  for (int i = 0; i < 3; ++i) {
    node.now = std::max(node.now, row("k")->due()) + 1;
    TimerFireCommand failing = fire_of({"k"}, i < 2 ? "" : "{\"as\":\"filed\"}");
    failing.push.batch_bytes_max = 1;
    failing.attempts_max = 3;
    const auto out = node.one<TimerFireOutcome>(failing);
    EXPECT_EQ(out.refused, i < 2 ? 1U : 0U);
    EXPECT_EQ(out.filed, i < 2 ? 0U : 1U);
  }
  EXPECT_FALSE(row("k"));
  ASSERT_EQ(node.dead_letters(), 1U);
  node.store.scan(store::Keyspace::dlq, {}, {}, [&](BytesView, BytesView value) {
    const auto letter = store::DeadLetterRow::decode(value).value();
    EXPECT_EQ(letter.group, "__timer__");
    EXPECT_EQ(letter.offset, -1);
    EXPECT_EQ(letter.message_id, message_id);
    EXPECT_EQ(letter.transaction_id, "x");
    EXPECT_EQ(letter.payload, "{\"as\":\"filed\"}");
    EXPECT_EQ(letter.retry_count, 3U);
    return true;
  });
}

TEST_F(Timers, SeveralOfOneStepAreFiledEachInItsPartition) {
  TimerOp other = schedule_op("b", 0);
  other.partition = "p2";
  run({schedule_op("a", 0), other, schedule_op("c", 0)});
  pass(1);
  TimerFireCommand failing = fire_of({"a", "b", "c"}, "1");
  failing.attempts_max = 1;
  failing.push.batch_bytes_max = 1;
  // Two share a batch, of which nobody knows which one is too large: they stay.
  const auto out = node.one<TimerFireOutcome>(failing);
  EXPECT_EQ(out.filed, 1U);
  EXPECT_EQ(out.passed, 2U);
  EXPECT_TRUE(row("a") && row("c"));
  for (const char* key : {"a", "c"}) {
    TimerFireCommand alone = fire_of({key}, "1");
    alone.attempts_max = 1;
    alone.push.batch_bytes_max = 1;
    EXPECT_EQ(node.one<TimerFireOutcome>(alone).filed, 1U);
  }
  EXPECT_EQ(node.dead_letters(), 3U);
  EXPECT_EQ(last_offset("p2"), -1);
}

// A letter that was not prepared, because another refusal came in between, waits for the next time.
TEST_F(Timers, WithoutALetterNothingIsFiled) {
  schedule("k", 0);
  pass(1);
  TimerFireCommand failing = fire_of({"k"});
  failing.push.batch_bytes_max = 1;
  failing.attempts_max = 1;
  EXPECT_EQ(node.one<TimerFireOutcome>(failing).refused, 1U);
  EXPECT_TRUE(row("k"));
}

TEST_F(Timers, AnEncryptedQueueRefusesPlaintextAndFiresWhatWasPendingBefore) {
  schedule("before", 0);
  node.configure({{"encryptionEnabled", 1}});
  const std::size_t entries = node.entries.size();
  const auto refused = node.run({node.command(TimersCommand{{cancel_op("x"), schedule_op("k", 0)}})});
  EXPECT_EQ(refused[0].code, "encryption_required");
  EXPECT_EQ(node.entries.size(), entries);
  TimerOp sealed = schedule_op("sealed", 0);
  sealed.encrypted = true;
  EXPECT_EQ(run({sealed})[0].status, Status::scheduled);
  pass(1);
  EXPECT_EQ(fire({"before", "sealed"}).fired, 2U);
}

TEST_F(Timers, OfTwoTenantsAreTwo) {
  schedule("k", 0, "x");
  const std::string other = "00000000-0000-0000-0000-0000000000aa";
  const auto out = node.one<TimersOutcome>(TimersCommand{{schedule_op("k", 0, "y")}}, other);
  EXPECT_EQ(out.ops[0].status, Status::scheduled);
  EXPECT_EQ(run({cancel_op("k")})[0].transaction_id, "x");
  EXPECT_EQ(due_rows(), 1U);
}

TEST_F(Timers, OfATransactionShareItsFate) {
  schedule("pending", 60 * kSecond, "x");
  TransactionCommand lost;
  lost.timers.ops = {cancel_op("pending"), schedule_op("new", kSecond)};
  Position nowhere;
  nowhere.queue = "none";
  nowhere.partition = "p";
  nowhere.group = "g";
  nowhere.offset = 0;
  lost.positions.push_back(nowhere);
  const auto before = node.store.digest();
  EXPECT_EQ(node.one<TransactionOutcome>(lost).reason, "queue_not_found");
  EXPECT_EQ(node.store.digest(), before);
  lost.positions.clear();
  const auto out = node.one<TransactionOutcome>(lost);
  EXPECT_EQ(out.reason, "");
  EXPECT_EQ(out.timers.ops[0].status, Status::cancelled);
  EXPECT_EQ(out.timers.ops[1].status, Status::scheduled);
  EXPECT_FALSE(row("pending"));
  EXPECT_TRUE(row("new"));
}

// TX-6: of several refusals the KV one is told before that of the timers.
TEST_F(Timers, OfATransactionAreJudgedLast) {
  node.configure({{"encryptionEnabled", 1}});
  TransactionCommand command;
  command.timers.ops = {schedule_op("k", 0)};
  KvOp marker;
  marker.kind = KvKind::put;
  marker.ns = "n";
  marker.key = "m";
  marker.value = "1";
  marker.expect = 7;
  marker.required = true;
  command.kv.ops = {marker};
  EXPECT_EQ(node.one<TransactionOutcome>(command).reason, "kv_precondition");
  command.kv.ops.clear();
  EXPECT_EQ(node.one<TransactionOutcome>(command).reason, "encryption_required");
  EXPECT_FALSE(row("k"));
}

TEST_F(Timers, AppliedTellsWhenTheFirstScheduledOneIsDue) {
  const std::vector<Command> commands{node.command(
      TimersCommand{{schedule_op("late", 9 * kSecond), schedule_op("soon", kSecond), cancel_op("x")}})};
  const PlannedCycle cycle = node.plan(commands);
  const Applied applied = node.apply(*cycle.entry);
  EXPECT_EQ(applied.timer_due, cycle.entry->now_us + kSecond);
  const std::vector<Command> cancels{node.command(TimersCommand{{cancel_op("late")}})};
  EXPECT_FALSE(node.apply(*node.plan(cancels).entry).timer_due);
}

}  // namespace
}  // namespace queen::machine

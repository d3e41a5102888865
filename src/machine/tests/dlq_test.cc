// Dead letters after their filing: deletion in steps and replay (api-messaging.md 12).
#include <gtest/gtest.h>

#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;
using store::Keyspace;
using Verdict = DeadLetterReplayOutcome::Verdict;

struct Filed {
  Pid pid;
  Uuid id;
};
// Pushes a message and files it.
Filed file(Node& node, const std::string& transaction_id, const std::string& partition = "p") {
  const Pid pid = node.push(partition, {transaction_id}).pid;
  node.pop();
  AckCommand ack;
  ack.items.push_back(node.ack_item(pid, transaction_id, AckStatus::dlq, node.last_lease));
  const Uuid id = ack.items[0].dlq_id;
  EXPECT_TRUE(node.one<AckOutcome>(ack).items[0].dlq);
  return {pid, id};
}
DeadLetterReplayCommand replay_of(const Uuid& id, const std::string& queue = "q",
                                  const std::string& partition = "p") {
  DeadLetterReplayCommand replay{"q", id, {}};
  replay.copy.batches.push_back(batch_of(queue, partition, {"dlq:" + id.str()}));
  return replay;
}
std::int64_t counted(const Node& node) {
  const auto bytes = node.store.get(
      Keyspace::counters, store::counter_key(store::CounterScope::queue, store::counter_id(kTenant, "q"),
                                             store::Counter::dlq_count));
  return bytes ? *store::decode_i64_row(*bytes) : 0;
}
std::int64_t last_offset(const Node& node, Pid pid) {
  return store::PartitionRow::decode(*node.store.get(Keyspace::partitions, store::partition_key(pid)))
      ->last_offset;
}

// M-2
TEST(DeadLetterDelete, RemovesWhatItNamesAndCountsWhatWasThere) {
  Node node;
  const Filed first = file(node, "a");
  const Filed second = file(node, "b");
  const DeadLetterDeleteCommand body{"q", {first.id, numbered_uuid(9'999)}};
  EXPECT_EQ(node.one<DeadLetterDeleteOutcome>(body).removed, 1U);
  EXPECT_EQ(node.dead_letters(), 1U);
  EXPECT_EQ(node.store.rows(Keyspace::dlq_by_pos), 1U);
  EXPECT_EQ(counted(node), 1);
  EXPECT_TRUE(node.store.get(Keyspace::dlq, store::dlq_key(kTenant, "q", second.id)).has_value());
  // The log is never edited.
  EXPECT_EQ(last_offset(node, first.pid), 1);
  // With nothing to do nothing is logged (EN-7).
  const std::size_t entries = node.entries.size();
  EXPECT_EQ(node.one<DeadLetterDeleteOutcome>(body).removed, 0U);
  EXPECT_EQ(node.entries.size(), entries);
}

TEST(DeadLetterDelete, OfAnotherTenantIsNotThere) {
  Node node;
  const Filed filed = file(node, "a");
  const std::string stranger = "018f2b3c-0000-7000-8000-0000000000aa";
  const DeadLetterDeleteCommand body{"q", {filed.id}};
  EXPECT_EQ(node.one<DeadLetterDeleteOutcome>(body, stranger).removed, 0U);
  EXPECT_EQ(node.one<DeadLetterReplayOutcome>(replay_of(filed.id), stranger).verdict, Verdict::gone);
  EXPECT_EQ(node.dead_letters(), 1U);
}

// D-1
TEST(DeadLetterReplay, AppendsTheCopyAndRemovesTheDeadLetterInOneEntry) {
  Node node;
  const Filed filed = file(node, "a");
  const std::size_t entries = node.entries.size();
  const auto out = node.one<DeadLetterReplayOutcome>(replay_of(filed.id));
  EXPECT_EQ(out.verdict, Verdict::moved);
  EXPECT_EQ(out.offset, 1U);
  ASSERT_EQ(node.entries.size(), entries + 1);
  const auto& effects = node.entries.back().effects;
  ASSERT_EQ(effects.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<Append>(effects[0]));
  EXPECT_TRUE(std::holds_alternative<DlqDelete>(effects[1]));
  EXPECT_EQ(node.dead_letters(), 0U);
  EXPECT_EQ(node.store.rows(Keyspace::dlq_by_pos), 0U);
  EXPECT_EQ(counted(node), 0);
  const auto again = node.pop();
  ASSERT_EQ(again.claims.size(), 1U);
  EXPECT_EQ(again.claims[0].first, 1U);
}

// D-2, and 12: `gone`
TEST(DeadLetterReplay, IsGoneOnceMovedAndStoresNothing) {
  Node node;
  const Filed filed = file(node, "a");
  node.one<DeadLetterReplayOutcome>(replay_of(filed.id));
  const std::size_t entries = node.entries.size();
  EXPECT_EQ(node.one<DeadLetterReplayOutcome>(replay_of(filed.id)).verdict, Verdict::gone);
  EXPECT_EQ(node.entries.size(), entries);
  EXPECT_EQ(last_offset(node, filed.pid), 1);
}

// Two calls in one entry: the second sees what the first planned.
TEST(DeadLetterReplay, OfTwoCallsAtOnceOneMoves) {
  Node node;
  const Filed filed = file(node, "a");
  const auto out = node.run({node.command(replay_of(filed.id)), node.command(replay_of(filed.id))});
  EXPECT_EQ(std::get<DeadLetterReplayOutcome>(out[0].body).verdict, Verdict::moved);
  EXPECT_EQ(std::get<DeadLetterReplayOutcome>(out[1].body).verdict, Verdict::gone);
  EXPECT_EQ(last_offset(node, filed.pid), 1);
}

// D-2: the destination has that id already; the dead letter stays.
TEST(DeadLetterReplay, AnswersDuplicateWhenTheDestinationHasThatReplay) {
  Node node;
  const Filed filed = file(node, "a");
  node.push("p", {"dlq:" + filed.id.str()});
  const std::size_t entries = node.entries.size();
  const auto out = node.one<DeadLetterReplayOutcome>(replay_of(filed.id));
  EXPECT_EQ(out.verdict, Verdict::duplicate);
  EXPECT_EQ(out.offset, 1U);
  EXPECT_EQ(node.dead_letters(), 1U);
  EXPECT_EQ(node.entries.size(), entries);
}

TEST(DeadLetterReplay, MakesTheQueueAndPartitionThatItIsSentTo) {
  Node node;
  const Filed filed = file(node, "a");
  const auto out = node.one<DeadLetterReplayOutcome>(replay_of(filed.id, "other", "x"));
  EXPECT_EQ(out.verdict, Verdict::moved);
  EXPECT_EQ(out.offset, 0U);
  EXPECT_TRUE(node.store.get(Keyspace::queues, store::queue_key(kTenant, "other")).has_value());
  EXPECT_EQ(node.dead_letters(), 0U);
  EXPECT_EQ(last_offset(node, filed.pid), 0);
}

// 12: refused by the engine; nothing is changed.
TEST(DeadLetterReplay, IsRefusedWhereAPushWouldBe) {
  Node node;
  const Filed filed = file(node, "a");
  node.configure({{"encryptionEnabled", 1}}, "secret");
  const std::size_t entries = node.entries.size();
  auto out = node.run({node.command(replay_of(filed.id, "secret"))});
  EXPECT_EQ(out[0].code, "encryption_required");
  DeadLetterReplayCommand large = replay_of(filed.id);
  large.copy.batch_bytes_max = 16;
  out = node.run({node.command(std::move(large))});
  EXPECT_EQ(out[0].code, "too_large");
  EXPECT_EQ(node.dead_letters(), 1U);
  EXPECT_EQ(node.entries.size(), entries);
}

// D-4
TEST(DeadLetterReplay, TakesOneOfTwoDeadLettersAtOnePosition) {
  Node node;
  const Filed filed = file(node, "a");
  store::DeadLetterRow row =
      *store::DeadLetterRow::decode(*node.store.get(Keyspace::dlq, store::dlq_key(kTenant, "q", filed.id)));
  Entry twin;
  twin.now_us = node.now + 60 * kSecond;
  twin.pid_base = 2;
  twin.kv_version_base = 1;
  twin.commands.push_back({numbered_uuid(7'000), 0, 1});
  twin.effects.emplace_back(DlqInsert{numbered_uuid(7'001), kTenant, "q", row});
  node.apply(twin);
  ASSERT_EQ(node.dead_letters(), 2U);
  EXPECT_EQ(node.one<DeadLetterReplayOutcome>(replay_of(filed.id)).verdict, Verdict::moved);
  EXPECT_EQ(node.dead_letters(), 1U);
  EXPECT_EQ(node.one<DeadLetterReplayOutcome>(replay_of(numbered_uuid(7'001))).verdict, Verdict::moved);
  EXPECT_EQ(last_offset(node, filed.pid), 2);
}

}  // namespace
}  // namespace queen::machine

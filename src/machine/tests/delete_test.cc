// Deleting queues and groups, and the garbage they leave (storage.md 8.2, RT-15; api-messaging.md G-6, Q-4).
#include <gtest/gtest.h>

#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;
using store::Keyspace;

QueueDeleteOutcome delete_queue(Node& node, int* steps = nullptr) {
  QueueDeleteCommand command{"q", 0};
  for (;;) {
    const auto out = node.one<QueueDeleteOutcome>(command);
    if (steps != nullptr) ++*steps;
    if (out.done) return out;
    command.pid_end = out.pid_end;
  }
}

std::vector<std::pair<std::string, std::size_t>> rows_left(const Node& node) {
  std::vector<std::pair<std::string, std::size_t>> out;
  for (std::size_t i = 0; i < store::kKeyspaceCount; ++i) {
    const auto keyspace = static_cast<Keyspace>(i);
    if (keyspace != Keyspace::meta && node.store.rows(keyspace) > 0)
      out.emplace_back(store::name_of(keyspace), node.store.rows(keyspace));
  }
  return out;
}

// A queue with messages, two groups, a lease and a dead letter.
void fill(Node& node) {
  for (const char* partition : {"p1", "p2", "p3"}) node.push(partition, {"a", "b", "c"});
  const auto out = node.pop(2);
  AckCommand ack;
  ack.items.push_back(node.ack_item(out.claims[0].pid, "a", AckStatus::dlq, node.last_lease));
  node.one<AckOutcome>(ack);
  PopCommand named = node.pop_command(2);
  named.group = "g";
  named.subscription.mode = Subscription::Mode::all;
  node.one<PopOutcome>(named);
}

// Q-4, RT-14
TEST(QueueDelete, EverythingIsGoneWhenItAnswersAndTheNameIsFree) {
  Node node;
  fill(node);
  const auto out = delete_queue(node);
  EXPECT_TRUE(out.existed);
  for (const Keyspace gone : {Keyspace::queues, Keyspace::groups, Keyspace::partitions, Keyspace::dlq,
                              Keyspace::partitions_by_key, Keyspace::queue_partitions, Keyspace::pending})
    EXPECT_EQ(node.store.rows(gone), 0U) << store::name_of(gone);
  AckCommand ack;
  ack.items.push_back(node.ack_item(Pid{1}, "b", AckStatus::completed, ""));
  EXPECT_EQ(node.one<AckOutcome>(ack).items[0].error, "no partition 1");
  EXPECT_FALSE(delete_queue(node).existed);
  // Made again before the garbage is gone: nothing of the old one shows.
  const auto again = node.push("p1", {"a"});
  EXPECT_EQ(again.items[0].status, PushItemOutcome::Status::queued);
  EXPECT_EQ(again.items[0].offset, 0U);
  const auto popped = node.pop();
  ASSERT_EQ(popped.claims.size(), 1U);
  EXPECT_EQ(popped.claims[0].pid, again.pid);
}

// RT-15, ST-6
TEST(QueueDelete, ChunksTakeEveryRowThatIsLeftAndNothingElse) {
  Node node;
  node.push("other", {"x"}, "kept");
  const auto kept = rows_left(node);
  fill(node);
  delete_queue(node);
  EXPECT_EQ(node.store.rows(Keyspace::garbage), 3U);
  EXPECT_FALSE(node.one<GarbageOutcome>(GarbageCommand{}).more);
  EXPECT_EQ(rows_left(node), kept);
  // With nothing to do nothing is logged (EN-7).
  const std::size_t entries = node.entries.size();
  node.one<GarbageOutcome>(GarbageCommand{});
  EXPECT_EQ(node.entries.size(), entries);
}

// RT-15, AP-5
TEST(DeleteChunk, TakesAtMostItsLimitAndGoesOnWhereItStopped) {
  Node node;
  for (int i = 0; i < 2'500; ++i) node.push("p", {"m" + std::to_string(i)});
  delete_queue(node);
  std::size_t before = node.store.rows(Keyspace::txns);
  int chunks = 0;
  bool more = true;
  while (more) {
    more = node.one<GarbageOutcome>(GarbageCommand{}).more;
    ++chunks;
    EXPECT_LE(before - node.store.rows(Keyspace::txns), kDeleteChunkRowsMax);
    before = node.store.rows(Keyspace::txns);
  }
  EXPECT_EQ(chunks, 3);
  EXPECT_TRUE(rows_left(node).empty());
}

// RT-15: no step is long, however many partitions there are, and pushes meanwhile cannot keep it from ending.
TEST(QueueDelete, GoesInBoundedStepsWhileMessagesComeIn) {
  Node node;
  for (int i = 0; i < 25; ++i) {
    PushCommand push;
    for (int j = 0; j < 100; ++j)
      push.batches.push_back(batch_of("q", "p" + std::to_string(100 * i + j), {"a"}));
    node.one<PushOutcome>(std::move(push));
  }
  QueueDeleteCommand command{"q", 0};
  auto out = node.one<QueueDeleteOutcome>(command);
  EXPECT_FALSE(out.done);
  EXPECT_EQ(node.store.rows(Keyspace::queue_partitions), 1'500U);
  node.push("late", {"a"});
  command.pid_end = out.pid_end;
  out = node.one<QueueDeleteOutcome>(command);
  EXPECT_FALSE(out.done);
  EXPECT_TRUE(node.one<QueueDeleteOutcome>(command).done);
  EXPECT_EQ(node.store.rows(Keyspace::partitions), 0U);
  for (const Entry& entry : node.entries) EXPECT_LE(entry.effects.size(), 1'001U);
  while (node.one<GarbageOutcome>(GarbageCommand{}).more) {
  }
  EXPECT_TRUE(rows_left(node).empty());
}

GroupDeleteOutcome delete_group(Node& node, bool keep_registration) {
  GroupDeleteCommand command;
  command.queue = "q";
  command.group = "g";
  command.keep_registration = keep_registration;
  return node.one<GroupDeleteOutcome>(command);
}

// G-6
TEST(GroupDelete, CursorsLeasesAndRegistrationAreGoneAndTheNextPopStartsAnew) {
  Node node;
  fill(node);
  PopCommand pop = node.pop_command(100);
  pop.group = "g";
  pop.partitions_max = 64;
  node.consume(pop);
  const std::size_t letters = node.dead_letters();
  const auto out = delete_group(node, false);
  EXPECT_TRUE(out.registration_deleted);
  EXPECT_EQ(out.cursors, 3U);
  EXPECT_FALSE(out.again);
  EXPECT_EQ(node.dead_letters(), letters);
  for (std::uint64_t pid = 1; pid <= 3; ++pid) {
    EXPECT_FALSE(node.cursor(Pid{pid}, "g"));
    EXPECT_FALSE(node.pending(Pid{pid}, "g"));
  }
  pop = node.pop_command(100);
  pop.group = "g";
  pop.partitions_max = 64;
  pop.subscription.mode = Subscription::Mode::all;
  EXPECT_EQ(node.one<PopOutcome>(pop).claims.size(), 3U);
}

// G-6 with deleteMetadata=false
TEST(GroupDelete, AKeptRegistrationStartsEveryPartitionAgain) {
  Node node;
  fill(node);
  PopCommand pop = node.pop_command(100);
  pop.group = "g";
  pop.partitions_max = 64;
  node.consume(pop);
  EXPECT_FALSE(delete_group(node, true).registration_deleted);
  for (std::uint64_t pid = 1; pid <= 3; ++pid) EXPECT_TRUE(node.pending(Pid{pid}, "g"));
  pop = node.pop_command(100);
  pop.group = "g";
  pop.partitions_max = 64;
  EXPECT_EQ(node.one<PopOutcome>(pop).claims.size(), 3U);
}

// 8.2: deletes of absent rows are no error.
TEST(Deletions, OfWhatIsNotThereChangeNothing) {
  Node node;
  fill(node);
  Entry entry;
  entry.now_us = node.now + kSecond;
  entry.pid_base = 4;
  entry.kv_version_base = 1;
  Watermark mark;
  mark.pid = Pid{99};
  mark.log_start = 5;
  entry.effects = {mark,
                   PartitionDelete{Pid{99}},
                   CursorDelete{Pid{99}, "g"},
                   CursorDelete{Pid{1}, "nobody"},
                   GroupDelete{kTenant, "q", "nobody"},
                   DlqDelete{kTenant, "q", numbered_uuid(12345)},
                   QueueDelete{kTenant, "nothing"},
                   GarbageAdd{numbered_uuid(1), 1, {Pid{99}}},
                   DeleteChunk{10, {Pid{1}, Pid{99}}}};
  entry.commands = {{numbered_uuid(9'000), 0, 9}};
  const auto before = rows_left(node);
  node.apply(entry);
  EXPECT_EQ(rows_left(node), before);
}

}  // namespace
}  // namespace queen::machine

// Transactions (api-messaging.md 7): what each part does, and that the first that refuses drops all of them.
#include <gmock/gmock.h>

#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;

constexpr AckStatus kOk = AckStatus::completed;
const std::string kMode{kQueueMode};

class Transaction : public ::testing::Test {
 protected:
  AckCommand acks(std::vector<AckItem> items, const std::string& group = kMode) {
    AckCommand ack;
    ack.group = group;
    ack.items = std::move(items);
    return ack;
  }
  static PushCommand pushes(std::vector<PushBatch> batches) {
    PushCommand push;
    push.batches = std::move(batches);
    return push;
  }
  static KvOp put(const std::string& key, const std::string& value) {
    KvOp op;
    op.kind = KvKind::put;
    op.ns = "n";
    op.key = key;
    op.value = value;
    return op;
  }
  static KvOp marker(const std::string& key) {
    KvOp op = put(key, "1");
    op.kind = KvKind::put_if_absent;
    op.required = true;
    return op;
  }
  static Position position(std::optional<std::int64_t> offset, const std::string& partition = "p") {
    Position out;
    out.queue = "q";
    out.partition = partition;
    out.group = "audit";
    out.offset = offset;
    return out;
  }
  // One message "a", leased.
  Pid leased(const std::string& partition = "p") {
    const Pid pid = node.push(partition, {"a"}).pid;
    EXPECT_EQ(node.pop().claims.size(), 1U);
    return pid;
  }
  TransactionOutcome run(TransactionCommand command) {
    return node.one<TransactionOutcome>(std::move(command));
  }
  // Runs it and expects that it left nothing, also in what is planned right behind it in the same entry.
  std::string reason_of(TransactionCommand command) {
    const std::uint64_t before = node.store.digest();
    const std::size_t entries = node.entries.size();
    const auto out = run(std::move(command));
    EXPECT_EQ(node.store.digest(), before);
    EXPECT_EQ(node.entries.size(), entries);
    EXPECT_EQ(out.reason.empty(), out.error.empty());
    return out.reason;
  }
  std::int64_t last_offset(const std::string& queue, const std::string& partition) {
    const auto pid = node.store.get(store::Keyspace::partitions_by_key,
                                    store::partition_by_key(kTenant, queue, partition));
    if (!pid) return -2;
    return store::PartitionRow::decode(*node.store.get(store::Keyspace::partitions,
                                                       store::partition_key(*store::decode_pid_row(*pid))))
        ->last_offset;
  }
  Node node;
};

TEST_F(Transaction, TakesPlaceInOneCommandOfOneEntry) {
  const Pid pid = leased();
  TransactionCommand command;
  command.acks.push_back(acks({node.ack_item(pid, "a", kOk, node.last_lease)}));
  command.push = pushes({batch_of("r", "x", {"1", "2"}), batch_of("s", "y", {"3"})});
  command.positions.push_back(position(1));
  command.kv.ops = {put("k", "7"), marker("m")};
  const auto out = run(std::move(command));
  EXPECT_EQ(out.reason, "");
  EXPECT_FALSE(out.undecided);
  EXPECT_EQ(node.cursor(pid)->committed, 0);
  EXPECT_FALSE(node.cursor(pid)->worker);
  EXPECT_EQ(last_offset("r", "x"), 1);
  EXPECT_EQ(last_offset("s", "y"), 0);
  EXPECT_EQ(out.push.batches[0].items[1].offset, 1U);
  EXPECT_EQ(node.cursor(pid, "audit")->committed, 0);
  EXPECT_TRUE(out.kv.ops[0].applied && out.kv.ops[1].applied);
  EXPECT_EQ(node.entries.back().commands.size(), 1U);
}

// 7.3: every way in which an ack can fail
TEST_F(Transaction, RollsBackOnAnAckThatFails) {
  const Pid pid = leased();
  const auto with = [&](const AckItem& item, const std::string& group = kMode) {
    TransactionCommand command;
    command.push = pushes({batch_of("r", "x", {"1"})});
    command.acks.push_back(acks({item}, group));
    return command;
  };
  const std::string lease = node.last_lease;
  EXPECT_EQ(reason_of(with(node.ack_item(pid, "a", kOk, numbered_uuid(9'999).str()))), "rejected_ack");
  EXPECT_EQ(reason_of(with(node.ack_item(pid, "never", kOk, lease))), "rejected_ack");
  EXPECT_EQ(reason_of(with(node.ack_item(pid, "never", kOk, ""))), "rejected_ack");
  EXPECT_EQ(reason_of(with(node.ack_item(Pid{99}, "a", kOk, ""))), "rejected_ack");
  EXPECT_EQ(reason_of(with(node.ack_item(pid, "a", kOk, ""), "other")), "rejected_ack");
  node.now += 61 * kSecond;
  EXPECT_EQ(reason_of(with(node.ack_item(pid, "a", kOk, lease))), "rejected_ack");
  EXPECT_EQ(run(with(node.ack_item(pid, "a", kOk, ""))).reason, "");
  // Finished: a `completed` is a no-op, everything else is too late.
  EXPECT_EQ(reason_of(with(node.ack_item(pid, "a", AckStatus::failed, ""))), "rejected_ack");
  TransactionCommand noop = with(node.ack_item(pid, "a", kOk, ""));
  noop.push = pushes({batch_of("r", "x", {"2"})});
  const auto out = run(std::move(noop));
  EXPECT_EQ(out.reason, "");
  EXPECT_TRUE(out.acks[0].items[0].noop);
  EXPECT_EQ(last_offset("r", "x"), 1);
}

// 7.3: A-12 does not apply, so that a transaction sent again cannot push twice (T-5)
TEST_F(Transaction, RefusesTheRepeatUnderTheLeaseThatItReleased) {
  const Pid pid = leased();
  TransactionCommand command;
  command.acks.push_back(acks({node.ack_item(pid, "a", kOk, node.last_lease)}));
  EXPECT_EQ(run(command).reason, "");
  EXPECT_EQ(reason_of(command), "rejected_ack");
  EXPECT_TRUE(node.one<AckOutcome>(command.acks[0]).items[0].success);
}

// T-3: one target per (group, lease), groups apart; several acks of one lease settle together
TEST_F(Transaction, AcksOfOneLeaseAreOneTargetAndGroupsAreApart) {
  node.configure({{"retryLimit", 0}});
  const Pid pid = node.push("p", {"a", "b", "c"}).pid;
  PopCommand pop = node.pop_command();
  pop.group = "g";
  pop.subscription.mode = Subscription::Mode::all;
  const std::string other_lease = node.last_lease;
  node.one<PopOutcome>(pop);
  node.pop();
  TransactionCommand command;
  command.acks.push_back(acks({node.ack_item(pid, "a", AckStatus::failed, node.last_lease),
                               node.ack_item(pid, "b", AckStatus::dlq, node.last_lease),
                               node.ack_item(pid, "c", kOk, node.last_lease)}));
  command.acks.push_back(acks({node.ack_item(pid, "b", kOk, other_lease)}, "g"));
  const auto out = run(std::move(command));
  EXPECT_EQ(out.reason, "");
  EXPECT_TRUE(out.acks[0].items[0].dlq && out.acks[0].items[1].dlq && !out.acks[0].items[2].dlq);
  EXPECT_EQ(node.cursor(pid)->committed, 2);
  EXPECT_EQ(node.cursor(pid, "g")->committed, 1);
  EXPECT_EQ(node.cursor(pid, "g")->worker, other_lease);
  EXPECT_EQ(node.dead_letters(), 2U);
}

// semantics suite 12
TEST_F(Transaction, RetryCostsNoBudgetAndDlqFilesAtOnce) {
  node.configure({{"retryLimit", 2}});
  const Pid pid = node.push("p", {"a"}).pid;
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(node.pop().claims.size(), 1U);
    TransactionCommand command;
    const AckStatus status = i < 5 ? AckStatus::retry : AckStatus::dlq;
    command.acks.push_back(acks({node.ack_item(pid, "a", status, node.last_lease)}));
    EXPECT_EQ(run(std::move(command)).reason, "");
    EXPECT_EQ(node.dead_letters(), i < 5 ? 0U : 1U);
  }
  EXPECT_TRUE(node.pop().claims.empty());
}

TEST_F(Transaction, RollsBackOnAStoredIdAndOnNoOther) {
  node.push("p", {"a"});
  TransactionCommand command;
  command.kv.ops = {put("k", "1")};
  command.push = pushes({batch_of("new", "x", {"1"}), batch_of("q", "p", {"b", "a"})});
  EXPECT_EQ(reason_of(command), "duplicate");
  // P-9: a repeat inside the call is told and stored once.
  command.push = pushes({batch_of("q", "p", {"b", "b", "c"})});
  const auto out = run(command);
  EXPECT_EQ(out.reason, "");
  EXPECT_EQ(out.push.batches[0].items[1].first_in_batch, 0U);
  EXPECT_EQ(last_offset("q", "p"), 2);
}

// What a dropped transaction would have stored is not taken for stored (T-1), however the ids are remembered.
TEST_F(Transaction, ForgetsTheIdsOfARolledBackPush) {
  std::vector<std::string> many;
  for (int i = 0; i < 40; ++i) many.push_back("m" + std::to_string(i));
  node.push("p", many);
  node.push("p", {"so that the ids are indexed"});
  TransactionCommand command;
  command.push = pushes({batch_of("q", "p", {"a"})});
  command.positions.push_back(position(0));
  command.positions.back().queue = "missing";
  EXPECT_EQ(reason_of(command), "queue_not_found");
  const auto item = node.push("p", {"a"}).items[0];
  EXPECT_EQ(item.status, PushItemOutcome::Status::queued);
  EXPECT_EQ(item.offset, 41U);
  // The ids of one that took place are known.
  command.positions.clear();
  command.push = pushes({batch_of("q", "p", {"b"})});
  EXPECT_EQ(run(command).reason, "");
  EXPECT_EQ(node.push("p", {"b"}).items[0].status, PushItemOutcome::Status::duplicate);
}

TEST_F(Transaction, RollsBackOnWhatIsTooLarge) {
  TransactionCommand command;
  command.push = pushes({batch_of("q", "p", {"a"})});
  command.push.batch_bytes_max = 10;
  EXPECT_EQ(reason_of(command), "too_large");
  node.push("p", {"b"});
  command.push = {};
  command.positions = {position(0), position(1)};
  command.positions_bytes_max = 300;
  EXPECT_EQ(reason_of(command), "too_large");
}

TEST_F(Transaction, RollsBackOnAnEncryptedQueue) {
  node.configure({{"encryptionEnabled", 1}});
  TransactionCommand command;
  command.push = pushes({batch_of("other", "p", {"a"}), batch_of("q", "p", {"b"})});
  EXPECT_EQ(reason_of(command), "encryption_required");
}

TEST_F(Transaction, ALostRequiredOperationDropsAllAndTellsWhatItMet) {
  TransactionCommand command;
  command.kv.ops = {put("a", "5"), marker("m")};
  EXPECT_EQ(run(command).reason, "");
  command.kv.ops = {put("a", "6"), marker("m")};
  command.push = pushes({batch_of("q", "p", {"a"})});
  const std::uint64_t before = node.store.digest();
  const auto out = run(command);
  EXPECT_EQ(out.reason, "kv_precondition");
  EXPECT_EQ(out.kv.failed_index, 1U);
  EXPECT_EQ(out.kv.failed_reason, "exists");
  EXPECT_EQ(out.kv.failed_row->value, "1");
  EXPECT_EQ(node.store.digest(), before);
  // Without `required` it is told in the results and the rest commits (TX-5).
  command.kv.ops[1].required = false;
  const auto rest = run(command);
  EXPECT_EQ(rest.reason, "");
  EXPECT_TRUE(rest.kv.ops[0].applied);
  EXPECT_EQ(rest.kv.ops[1].reason, "exists");
  EXPECT_EQ(last_offset("q", "p"), 0);
}

// 7.4: the first in the order acks, pushes, positions, KV
TEST_F(Transaction, ReportsTheFirstRefusalInTheOrderOfTheContract) {
  const Pid pid = node.push("p", {"a"}).pid;
  TransactionCommand command;
  command.kv.ops = {marker("m")};
  EXPECT_EQ(run(command).reason, "");
  command.positions.push_back(position(0));
  command.positions[0].queue = "missing";
  EXPECT_EQ(reason_of(command), "queue_not_found");
  command.push = pushes({batch_of("q", "p", {"a"})});
  EXPECT_EQ(reason_of(command), "duplicate");
  command.acks.push_back(acks({node.ack_item(pid, "a", kOk, "")}));
  EXPECT_EQ(reason_of(command), "rejected_ack");
}

TEST_F(Transaction, APositionMovesTheCursorEndsTheLeaseAndRegisters) {
  node.push("p", {"a", "b", "c"});
  PopCommand pop = node.pop_command();
  pop.group = "audit";
  pop.partition = "p";
  pop.subscription.mode = Subscription::Mode::all;
  const Pid pid = node.one<PopOutcome>(pop).claims.at(0).pid;
  const std::string lease = node.last_lease;
  AckCommand failed = acks({node.ack_item(pid, "a", AckStatus::failed, lease)}, "audit");
  node.one<AckOutcome>(failed);
  pop.lease_id = numbered_uuid(777);
  node.one<PopOutcome>(pop);
  ASSERT_EQ(node.cursor(pid, "audit")->batch_retry_count, 1U);

  TransactionCommand command;
  command.positions.push_back(position(2));
  command.positions[0].metadata = "m";
  EXPECT_EQ(run(command).reason, "");
  const auto cursor = node.cursor(pid, "audit");
  EXPECT_EQ(cursor->committed, 1);
  EXPECT_FALSE(cursor->worker || cursor->attempt_offset);
  EXPECT_EQ(cursor->batch_retry_count, 0U);
  EXPECT_EQ(cursor->metadata, "m");
  EXPECT_EQ(node.store.rows(store::Keyspace::leases_by_worker), 0U);
  EXPECT_TRUE(node.store.get(store::Keyspace::groups, store::group_key(kTenant, "q", "audit")));
  EXPECT_TRUE(node.pending(pid, "audit"));
  // Its holder's ack is too late.
  const auto late =
      node.one<AckOutcome>(acks({node.ack_item(pid, "c", kOk, numbered_uuid(777).str())}, "audit"));
  EXPECT_FALSE(late.items[0].success);
  pop.partition.reset();
  EXPECT_EQ(node.one<PopOutcome>(pop).claims.at(0).first, 2U);

  // Forgotten: the registration says where it starts, and that is after what there was.
  command.positions[0].offset.reset();
  EXPECT_EQ(run(command).reason, "");
  EXPECT_FALSE(node.cursor(pid, "audit"));
}

TEST_F(Transaction, APositionMakesAPartitionButNoQueue) {
  TransactionCommand command;
  command.positions.push_back(position(0, "late"));
  EXPECT_EQ(reason_of(command), "queue_not_found");
  node.push("p", {"a"});
  EXPECT_EQ(run(command).reason, "");
  EXPECT_EQ(last_offset("q", "late"), -1);
  EXPECT_EQ(node.push("late", {"x"}).items[0].offset, 0U);
  // One that is forgotten makes none.
  command.positions[0] = position(std::nullopt, "never");
  EXPECT_EQ(run(command).reason, "");
  EXPECT_EQ(last_offset("q", "never"), -2);
  // Of a queue that this very transaction makes.
  command.positions[0] = position(0, "x");
  command.positions[0].queue = "fresh";
  command.push = pushes({batch_of("fresh", "x", {"1"})});
  EXPECT_EQ(run(command).reason, "");
}

// The group has read what is not there yet: messages below its position are not delivered to it.
TEST_F(Transaction, APositionMayBeBeyondTheEnd) {
  node.push("p", {"a"});
  TransactionCommand command;
  command.positions.push_back(position(3));
  command.positions[0].subscription.mode = Subscription::Mode::all;
  EXPECT_EQ(run(command).reason, "");
  const Pid pid = node.push("p", {"b", "c"}).pid;
  EXPECT_FALSE(node.pending(pid, "audit"));
  PopCommand pop = node.pop_command();
  pop.group = "audit";
  EXPECT_TRUE(node.one<PopOutcome>(pop).claims.empty());
  node.push("p", {"d"});
  EXPECT_EQ(node.one<PopOutcome>(pop).claims.at(0).first, 3U);
}

TEST_F(Transaction, WithoutAnEffectItIsNotLogged) {
  TransactionCommand command;
  KvOp get;
  get.ns = "n";
  get.key = "k";
  command.kv.ops = {get};
  const std::size_t entries = node.entries.size();
  const auto out = run(command);
  EXPECT_EQ(out.reason, "");
  EXPECT_EQ(out.kv.ops.size(), 1U);
  EXPECT_EQ(node.entries.size(), entries);
}

}  // namespace
}  // namespace queen::machine

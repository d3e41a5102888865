#include <gmock/gmock.h>

#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;
using ::testing::HasSubstr;

struct Said {
  std::string id;
  AckStatus status;
};
struct Row {
  std::string name;
  int retry_limit;
  bool dead_letters;
  bool with_lease;
  std::vector<std::vector<Said>> calls;
  std::int64_t cursor;
  bool lease_kept;
  std::uint32_t counter;
  std::vector<std::string> filed;
  std::string last;  // what the last call's items answer: "", "noop" or "unresolvable"
};

constexpr AckStatus kOk = AckStatus::completed;
constexpr AckStatus kFailed = AckStatus::failed;
constexpr AckStatus kRetry = AckStatus::retry;
constexpr AckStatus kDlq = AckStatus::dlq;

// The worked table: a fresh lease on offsets 0, 1, 2 = a, b, c; counter 0.
const std::vector<Row> kTable = {
    {"last_completed", 3, true, true, {{{"c", kOk}}}, 2, false, 0, {}, ""},
    {"middle_completed", 3, true, true, {{{"b", kOk}}}, 1, true, 0, {}, ""},
    {"head_failed", 3, true, true, {{{"a", kFailed}, {"c", kOk}}}, -1, false, 1, {}, ""},
    {"failed_and_dlq", 3, true, true, {{{"a", kFailed}, {"a", kDlq}}}, 0, false, 0, {"a"}, ""},
    {"dlq", 3, true, true, {{{"a", kDlq}}}, 0, false, 0, {"a"}, ""},
    {"retry", 3, true, true, {{{"a", kRetry}}}, -1, false, 0, {}, ""},
    {"dlq_failed_dlq", 3, true, true, {{{"a", kDlq}, {"b", kFailed}, {"c", kDlq}}}, 0, false, 0, {"a"}, ""},
    {"all_failed",
     0,
     true,
     true,
     {{{"a", kFailed}, {"b", kFailed}, {"c", kFailed}}},
     2,
     false,
     0,
     {"a", "b", "c"},
     ""},
    {"failed_ok_ok", 0, true, true, {{{"a", kFailed}, {"b", kOk}, {"c", kOk}}}, 2, false, 0, {"a"}, ""},
    {"ok_failed_failed",
     0,
     true,
     true,
     {{{"a", kOk}, {"b", kFailed}, {"c", kFailed}}},
     2,
     false,
     0,
     {"b", "c"},
     ""},
    {"failed_retry_failed",
     0,
     true,
     true,
     {{{"a", kFailed}, {"b", kRetry}, {"c", kFailed}}},
     0,
     false,
     0,
     {"a"},
     ""},
    {"failed_silent_failed", 0, true, true, {{{"a", kFailed}, {"c", kFailed}}}, 0, false, 0, {"a"}, ""},
    {"dropped", 0, false, true, {{{"a", kFailed}, {"b", kFailed}, {"c", kFailed}}}, 2, false, 0, {}, ""},
    {"unknown", 3, true, true, {{{"x", kOk}}}, -1, true, 0, {}, "unresolvable"},
    {"without_lease", 3, true, false, {{{"b", kOk}}}, 1, true, 0, {}, ""},
    {"then_behind", 3, true, true, {{{"b", kOk}}, {{"a", kOk}}}, 1, true, 0, {}, "noop"},
    {"then_behind_failed", 3, true, true, {{{"b", kOk}}, {{"a", kFailed}}}, 1, true, 0, {}, "unresolvable"},
};

class AckTable : public ::testing::TestWithParam<Row> {};

TEST_P(AckTable, SettlesAsTheWorkedTableSays) {
  const Row& row = GetParam();
  Node node;
  node.configure({{"retryLimit", row.retry_limit},
                  {"deadLetterQueue", row.dead_letters},
                  {"dlqAfterMaxRetries", row.dead_letters}});
  const Pid pid = node.push("p", {"a", "b", "c"}).pid;
  ASSERT_EQ(node.pop().claims.size(), 1U);
  const std::string lease = row.with_lease ? node.last_lease : "";
  AckOutcome out;
  for (const auto& call : row.calls) {
    AckCommand ack;
    for (const Said& said : call) ack.items.push_back(node.ack_item(pid, said.id, said.status, lease));
    out = node.one<AckOutcome>(std::move(ack));
  }
  const auto cursor = node.cursor(pid);
  ASSERT_TRUE(cursor);
  EXPECT_EQ(cursor->committed, row.cursor);
  EXPECT_EQ(cursor->worker.has_value(), row.lease_kept);
  EXPECT_EQ(cursor->batch_retry_count, row.counter);
  EXPECT_EQ(node.pending(pid).has_value(), row.cursor < 2);
  std::vector<std::string> filed;
  node.store.scan(store::Keyspace::dlq, {}, {}, [&](BytesView, BytesView value) {
    const auto letter = *store::DeadLetterRow::decode(value);
    EXPECT_EQ(letter.payload, "payload of " + letter.transaction_id);
    filed.push_back(letter.transaction_id);
    return true;
  });
  std::sort(filed.begin(), filed.end());
  EXPECT_EQ(filed, row.filed);
  for (std::size_t i = 0; i < out.items.size(); ++i) {
    const AckItemOutcome& item = out.items[i];
    const std::string& id = row.calls.back()[i].id;
    EXPECT_EQ(item.success, row.last != "unresolvable");
    EXPECT_EQ(item.noop, row.last == "noop");
    EXPECT_EQ(item.lease_released, !row.lease_kept);
    EXPECT_EQ(item.dlq, std::find(filed.begin(), filed.end(), id) != filed.end());
    EXPECT_EQ(item.error.find("unresolvable") != std::string::npos, row.last == "unresolvable");
  }
}

INSTANTIATE_TEST_SUITE_P(WorkedTable, AckTable, ::testing::ValuesIn(kTable),
                         [](const auto& each) { return each.param.name; });

class Ack : public ::testing::Test {
 protected:
  AckItemOutcome ack(Pid pid, const std::string& id, AckStatus status, const std::string& lease) {
    AckCommand command;
    command.items.push_back(node.ack_item(pid, id, status, lease));
    return node.one<AckOutcome>(std::move(command)).items.at(0);
  }
  Node node;
};

TEST_F(Ack, RefusesWhatIsNoPartitionOfTheTenant) {
  const Pid pid = node.push("p", {"a"}).pid;
  AckCommand command;
  command.items.push_back(node.ack_item(pid, "a", kOk, ""));
  command.items.back().partition_id = "p1";
  command.items.push_back(node.ack_item(Pid{99}, "a", kOk, ""));
  const auto out = node.one<AckOutcome>(command);
  EXPECT_EQ(out.items[0].error, "partitionId is not a partition id");
  EXPECT_EQ(out.items[1].error, "no partition 99");
  AckCommand foreign;
  foreign.items.push_back(node.ack_item(pid, "a", kOk, ""));
  const auto other = node.one<AckOutcome>(std::move(foreign), "00000000-0000-0000-0000-000000000002");
  EXPECT_EQ(other.items[0].error, "no partition " + std::to_string(pid.value));
}

TEST_F(Ack, RefusesAnExpiredOrForeignLeaseAndAcceptsNoneAfterExpiry) {
  const Pid pid = node.push("p", {"a"}).pid;
  node.pop();
  const std::string lease = node.last_lease;
  EXPECT_THAT(ack(pid, "a", kOk, numbered_uuid(9'999).str()).error, HasSubstr("invalid or expired lease"));
  node.now += 61 * kSecond;
  EXPECT_THAT(ack(pid, "a", kOk, lease).error, HasSubstr("invalid or expired lease"));
  EXPECT_TRUE(ack(pid, "a", kOk, "").success);
  EXPECT_EQ(node.cursor(pid)->committed, 0);
  EXPECT_TRUE(node.pop().claims.empty());
}

TEST_F(Ack, NackWithoutAnyLeaseDoesNothing) {
  const Pid pid = node.push("p", {"a", "b"}).pid;
  node.pop();
  node.now += 61 * kSecond;
  EXPECT_TRUE(ack(pid, "b", kFailed, "").success);
  EXPECT_EQ(node.cursor(pid)->committed, -1);
  EXPECT_EQ(node.dead_letters(), 0U);
}

TEST_F(Ack, GroupWithoutCursorIsUnresolvable) {
  const Pid pid = node.push("p", {"a"}).pid;
  EXPECT_THAT(ack(pid, "a", kOk, "").error, HasSubstr("unresolvable"));
}

TEST_F(Ack, RepeatUnderTheLeaseThatItReleasedAnswersTheSame) {
  const Pid pid = node.push("p", {"a", "b"}).pid;
  node.pop();
  const std::string lease = node.last_lease;
  EXPECT_TRUE(ack(pid, "b", kOk, lease).lease_released);
  const auto again = ack(pid, "b", kOk, lease);
  EXPECT_TRUE(again.success);
  EXPECT_TRUE(again.lease_released);
  EXPECT_TRUE(ack(pid, "a", kOk, lease).success);
  EXPECT_THAT(ack(pid, "x", kOk, lease).error, HasSubstr("unresolvable"));
}

// A-12 after A-5: the batch of the lease is what it leased, not what its last ack settled.
TEST_F(Ack, TheRepeatOfTheLastAckKnowsWhatEarlierAcksOfItsLeaseSettled) {
  const Pid pid = node.push("p", {"z", "a", "b", "c", "d"}).pid;
  node.pop(1);
  EXPECT_TRUE(ack(pid, "z", kOk, node.last_lease).lease_released);
  node.pop();
  const std::string lease = node.last_lease;
  EXPECT_FALSE(ack(pid, "a", kOk, lease).lease_released);
  EXPECT_EQ(node.cursor(pid)->batch_start, 1);
  EXPECT_FALSE(ack(pid, "b", kOk, lease).lease_released);
  EXPECT_EQ(node.cursor(pid)->batch_start, 1);
  EXPECT_TRUE(ack(pid, "d", kOk, lease).lease_released);
  for (const char* id : {"a", "b", "c", "d"}) {
    const auto again = ack(pid, id, kOk, lease);
    EXPECT_TRUE(again.success && again.lease_released) << id;
  }
  EXPECT_THAT(ack(pid, "z", kOk, lease).error, HasSubstr("unresolvable"));
  EXPECT_EQ(node.cursor(pid)->batch_start, std::nullopt);
}

TEST_F(Ack, TheStartOfABatchIsForgottenWithItsLease) {
  const Pid pid = node.push("p", {"a", "b", "c"}).pid;
  node.pop();
  ack(pid, "a", kOk, node.last_lease);
  node.now += 61 * kSecond;
  node.pop();
  EXPECT_EQ(node.cursor(pid)->batch_start, std::nullopt);
  const std::string lease = node.last_lease;
  EXPECT_TRUE(ack(pid, "c", kOk, lease).lease_released);
  EXPECT_TRUE(ack(pid, "b", kOk, lease).success);
  EXPECT_THAT(ack(pid, "a", kOk, lease).error, HasSubstr("unresolvable"));
}

TEST_F(Ack, ReleaseForRedeliveryIsNotRemembered) {
  const Pid pid = node.push("p", {"a"}).pid;
  node.pop();
  const std::string lease = node.last_lease;
  EXPECT_TRUE(ack(pid, "a", kRetry, lease).lease_released);
  EXPECT_THAT(ack(pid, "a", kRetry, lease).error, HasSubstr("invalid or expired lease"));
}

TEST_F(Ack, FilesAfterTheWholeBudgetAndCountsAttempts) {
  node.configure({{"retryLimit", 2}});
  const Pid pid = node.push("p", {"a"}).pid;
  for (std::uint32_t attempt = 1; attempt <= 3; ++attempt) {
    const auto claims = node.pop().claims;
    ASSERT_EQ(claims.size(), 1U);
    EXPECT_EQ(claims[0].delivery_attempt, attempt);
    EXPECT_EQ(ack(pid, "a", kFailed, node.last_lease).dlq, attempt == 3);
  }
  EXPECT_EQ(node.dead_letters(), 1U);
  EXPECT_TRUE(node.pop().claims.empty());
}

TEST_F(Ack, ExpiryNeverSpendsTheBudget) {
  node.configure({{"retryLimit", 1}});
  const Pid pid = node.push("p", {"a"}).pid;
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(node.pop().claims.size(), 1U);
    node.now += 301 * kSecond;
  }
  ASSERT_EQ(node.pop().claims.at(0).delivery_attempt, 5U);
  EXPECT_FALSE(ack(pid, "a", kFailed, node.last_lease).dlq);
  node.pop();
  EXPECT_TRUE(ack(pid, "a", kFailed, node.last_lease).dlq);
}

TEST_F(Ack, DeadLetterErrorFallsBackToTheCallsThenToTheText) {
  node.configure({{"retryLimit", 0}});
  const Pid pid = node.push("p", {"a", "b"}).pid;
  node.pop();
  AckCommand command;
  command.items.push_back(node.ack_item(pid, "a", kFailed, node.last_lease));
  command.items.push_back(node.ack_item(pid, "b", kFailed, node.last_lease));
  command.items.back().error = "meter offline";
  node.one<AckOutcome>(std::move(command));
  node.push("p", {"c"});
  node.pop();
  ack(pid, "c", kDlq, node.last_lease);
  std::vector<std::string> errors;
  node.store.scan(store::Keyspace::dlq, {}, {}, [&](BytesView, BytesView value) {
    errors.push_back(store::DeadLetterRow::decode(value)->error);
    return true;
  });
  std::sort(errors.begin(), errors.end());
  EXPECT_EQ(errors, (std::vector<std::string>{"Retries exhausted", "meter offline", "meter offline"}));
}

TEST_F(Ack, TargetsAreIndependentAndAnsweredInOrder) {
  const Pid one = node.push("p1", {"a"}).pid;
  const Pid two = node.push("p2", {"b"}).pid;
  auto pop = node.pop_command();
  pop.partitions_max = 2;
  const std::string lease = node.last_lease;
  ASSERT_EQ(node.one<PopOutcome>(std::move(pop)).claims.size(), 2U);
  AckCommand command;
  command.items.push_back(node.ack_item(one, "a", kOk, numbered_uuid(77'777).str()));
  command.items.push_back(node.ack_item(two, "b", kOk, lease));
  const auto out = node.one<AckOutcome>(std::move(command));
  EXPECT_FALSE(out.items[0].success);
  EXPECT_TRUE(out.items[1].success);
  EXPECT_TRUE(node.cursor(one)->worker);
  EXPECT_FALSE(node.cursor(two)->worker);
}

TEST_F(Ack, RecognisesAFinishedMessageWithinTheWindowsAndTheLastMessages) {
  node.configure({{"dedupWindowSeconds", 0}});
  const Pid pid = node.push("p", {"a"}).pid;
  node.pop();
  ack(pid, "a", kOk, node.last_lease);
  EXPECT_TRUE(ack(pid, "a", kOk, "").noop);
  node.now += 100'000 * kSecond;  // outside every window, still among the last 65,536
  EXPECT_TRUE(ack(pid, "a", kOk, "").noop);
  EXPECT_FALSE(ack(pid, "never", kOk, "").success);
}

TEST_F(Ack, RepeatedIdsOfOneBatchStandForTheirMessagesInOrder) {
  node.configure({{"dedupWindowSeconds", 0}});
  const Pid pid = node.push("p", {"same"}).pid;
  node.push("p", {"same"});
  ASSERT_EQ(node.pop().claims.at(0).last, 1U);
  AckCommand command;
  command.items.push_back(node.ack_item(pid, "same", kOk, node.last_lease));
  command.items.push_back(node.ack_item(pid, "same", kOk, node.last_lease));
  EXPECT_TRUE(node.one<AckOutcome>(std::move(command)).items[1].lease_released);
  EXPECT_EQ(node.cursor(pid)->committed, 1);
}

}  // namespace
}  // namespace queen::machine

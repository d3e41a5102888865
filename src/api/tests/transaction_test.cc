// Transactions: what the body becomes and what the answer looks like; tests/e2e has every refusal over HTTP.
#include "api/detail/transaction.h"

#include <gtest/gtest.h>

#include "api/tests/fake_broker.h"

namespace queen::api {
namespace {

using machine::TransactionCommand;
using machine::TransactionOutcome;

const std::string kAck = R"({"type":"ack","transactionId":"a","partitionId":"7")";
const std::string kPush = R"({"type":"push","queue":"q","payload":1})";

const TransactionCommand& sent_command(const Rig& rig) {
  return std::get<TransactionCommand>(rig.broker.commands.back().body);
}
std::string ack(const std::string& more) {
  return kAck + more + "}";
}
void commit(Rig& rig, const std::string& body) {
  const auto sent = rig.post(handle_transaction, body);
  ASSERT_EQ(sent->responses.size(), 0U) << answer_of(sent);
}
// The leases of all acks that the engine was given, in order.
std::vector<std::string> leases(const std::string& operations, const std::string& required) {
  Rig rig;
  commit(rig, R"({"operations":[)" + operations + R"(],"requiredLeases":[)" + required + "]}");
  std::vector<std::string> out;
  for (const auto& group : sent_command(rig).acks)
    for (const auto& item : group.items) out.push_back(item.lease_id);
  return out;
}

// 7.3
TEST(TransactionParse, LendsTheOneLeaseThatTheCallAgreesOn) {
  using List = std::vector<std::string>;
  const std::string bare = ack("");
  const std::string mine = ack(R"(,"leaseId":"L1")");
  EXPECT_EQ(leases(bare, ""), List{""});
  EXPECT_EQ(leases(bare, R"("L1")"), List{"L1"});
  EXPECT_EQ(leases(bare, R"("L1","L1","")"), List{"L1"});
  EXPECT_EQ(leases(bare, R"("L1","L2")"), List{""});
  EXPECT_EQ(leases(mine + "," + bare, ""), (List{"L1", "L1"}));
  EXPECT_EQ(leases(bare + "," + mine, R"("L1")"), (List{"L1", "L1"}));
  EXPECT_EQ(leases(bare + "," + mine, R"("L2")"), (List{"", "L1"}));
}

TEST(TransactionParse, GroupsAcksByGroupAndPushesByPartitionInOrder) {
  Rig rig;
  commit(rig, R"({"operations":[)" + ack(R"(,"consumerGroup":"g")") + "," + kPush + "," +
                  ack(R"(,"status":"dlq")") + "," +
                  ack(R"(,"consumerGroup":"g","status":"FAILED","error":"e")") + "," +
                  ack(R"(,"consumerGroup":"")") + "," + kPush + "]}");
  const TransactionCommand& command = sent_command(rig);
  ASSERT_EQ(command.acks.size(), 2U);
  EXPECT_EQ(command.acks[0].group, "g");
  EXPECT_EQ(command.acks[0].items.at(1).status, machine::AckStatus::failed);
  EXPECT_EQ(command.acks[0].items.at(1).error, "e");
  EXPECT_NE(command.acks[0].items.at(1).dlq_id, Uuid{});
  EXPECT_EQ(command.acks[1].group, machine::kQueueMode);
  EXPECT_EQ(command.acks[1].items.size(), 2U);
  ASSERT_EQ(command.push.batches.size(), 1U);
  EXPECT_EQ(command.push.batches[0].items(), 2U);
  EXPECT_EQ(command.push.batches[0].partition, "Default");
}

TEST(TransactionParse, ReadsPositions) {
  Rig rig;
  rig.context->settings.default_subscription = machine::Subscription::Mode::all;
  commit(rig, R"({"positions":[{"queue":"q","consumerGroup":"g","offset":42},
      {"queue":"q","consumerGroup":"g","partition":"p","offset":null,"metadata":"m","subscriptionMode":" New "}]})");
  const auto& positions = sent_command(rig).positions;
  ASSERT_EQ(positions.size(), 2U);
  EXPECT_EQ(positions[0].partition, "Default");
  EXPECT_EQ(positions[0].offset, 42);
  EXPECT_EQ(positions[0].subscription.mode, machine::Subscription::Mode::all);
  EXPECT_EQ(positions[1].partition, "p");
  EXPECT_FALSE(positions[1].offset);
  EXPECT_EQ(positions[1].metadata, "m");
  EXPECT_EQ(positions[1].subscription.mode, machine::Subscription::Mode::fresh);
}

// A broken shape is told before a value that cannot be, wherever it stands.
TEST(TransactionParse, BrokenShapesComeFirst) {
  Rig rig;
  const auto sent = rig.post(handle_transaction, R"({"operations":[{"type":"push"},{"type":"pop"}]})");
  ASSERT_EQ(sent->responses.size(), 1U);
  EXPECT_EQ(sent->responses[0].status, 400);
  EXPECT_TRUE(rig.broker.commands.empty());
}

std::string answer_to(Rig& rig, const std::string& body, TransactionOutcome outcome) {
  const auto sent = rig.post(handle_transaction, body);
  rig.broker.outcomes.back()(machine::Outcome{{}, {}, std::move(outcome)});
  std::string text = answer_of(sent);
  const std::size_t id = text.find("transactionId") + 16;
  return text.replace(id, 36, "ID");
}

TEST(TransactionRender, PutsAllPartsIntoOneIndexSpace) {
  Rig rig;
  TransactionOutcome outcome;
  outcome.acks.resize(1);
  outcome.acks[0].items.push_back({true, "", true, true, false});
  outcome.kv.ops.resize(1);
  EXPECT_EQ(answer_to(rig, R"({"operations":[)" + ack("") + R"(],"kv":[{"op":"get","ns":"n","key":"k"}],
                        "positions":[{"queue":"q","consumerGroup":"g","offset":0}]})",
                      std::move(outcome)),
            R"(200 {"transactionId":"ID","success":true,"results":[)"
            R"({"index":0,"type":"ack","success":true,"transactionId":"a","error":null,"dlq":true},)"
            R"({"index":1,"opIndex":0,"type":"kv","op":"get","found":false,"key":"k"},)"
            R"({"index":2,"opIndex":0,"type":"position","success":true}]})");
}

TEST(TransactionRender, TellsWhyItWasRolledBack) {
  Rig rig;
  TransactionOutcome outcome;
  outcome.reason = "kv_precondition";
  outcome.error = "lost";
  outcome.kv.failed_index = 1;
  outcome.kv.failed_reason = "exists";
  outcome.kv.failed_row = machine::KvFound{"k", R"({"a" : 1})", 9, {}, 0};
  EXPECT_EQ(
      answer_to(rig, R"({"operations":[)" + kPush + "," + ack("") + "]}", std::move(outcome)),
      R"(200 {"transactionId":"ID","success":false,"reason":"kv_precondition","error":"lost","results":[],)"
      R"("ok":false,"failedIndex":3,"kvReason":"exists","version":9,"value":{"a" : 1}})");
}

// 7.4, last line: what the engine refuses keeps its envelope.
TEST(TransactionRoute, AnswersTheEnvelopeWhenTheEngineRefuses) {
  Rig rig;
  const auto refused = rig.post(handle_transaction, R"({"operations":[)" + kPush + "]}");
  rig.broker.outcomes.back()(tl::unexpected(broker::Refusal{"overloaded", "full"}));
  EXPECT_EQ(refused->responses.at(0).status, 429);
  EXPECT_EQ(header_of(refused->responses[0], "Retry-After"), "2");
  const auto late = rig.post(handle_transaction, R"({"operations":[)" + kPush + "]}");
  rig.clock.advance(31'000'000);
  rig.timers.run_ready();
  EXPECT_EQ(late->responses.at(0).status, 503);
  EXPECT_NE(late->responses[0].body.find(R"("code":"timeout")"), std::string::npos);
}

}  // namespace
}  // namespace queen::api

// Dead letters and traces: bodies to commands, outcomes to answers; what the rows give is tested in the
// broker.
#include <gtest/gtest.h>

#include "api/detail/dlq.h"
#include "api/detail/traces.h"
#include "api/tests/fake_broker.h"
#include "machine/planner.h"

namespace queen::api {
namespace {

using Verdict = machine::DeadLetterReplayOutcome::Verdict;

Uuid numbered(std::uint8_t number) {
  Uuid id;
  id.bytes[15] = number;
  return id;
}

struct LetterRig : Rig {
  LetterRig() {
    run(machine::PartitionCreate{Pid{7}, numbered(70), std::string(kDefaultTenant), "q", "p", 1});
    store::DeadLetterRow row;
    row.pid = Pid{7};
    row.group = "g";
    row.offset = 3;
    row.transaction_id = "t";
    row.payload = "{\"a\":1.50}";
    row.failed_at = 1;
    run(machine::DlqInsert{numbered(1), std::string(kDefaultTenant), "q", row});
  }
  void run(const machine::Effect& effect) {
    const auto gate = broker.store.write_gate();
    ASSERT_TRUE(machine::run_effect(broker.store, effect, EntryIndex{1}, 0, 1));
  }
  std::shared_ptr<Sent> replay(std::string body = "", std::string id = numbered(1).str()) {
    http::Request request;
    request.method = http::Method::post;
    request.params = {std::move(id)};
    request.body = std::move(body);
    return call(handle_dlq_replay, std::move(request));
  }
  void answer(machine::Outcome outcome) {
    broker.outcomes.front()(std::move(outcome));
    broker.outcomes.pop_front();
  }
};

// D-1, D-2
TEST(Replay, PreparesACopyOfTheMessageUnderAFixedId) {
  LetterRig rig;
  const auto sent = rig.replay();
  const auto& body = std::get<machine::DeadLetterReplayCommand>(rig.broker.commands.at(0).body);
  EXPECT_EQ(body.queue, "q");
  EXPECT_EQ(body.dlq_id, numbered(1));
  ASSERT_EQ(body.copy.batches.size(), 1U);
  const machine::PushBatch& batch = body.copy.batches[0];
  EXPECT_EQ(batch.queue + "/" + batch.partition, "q/p");
  ASSERT_EQ(batch.items(), 1U);
  EXPECT_EQ(batch.hashes, xxh3_128("dlq:" + numbered(1).str()).view());
  EXPECT_NE(batch.frames.find("{\"a\":1.50}"), Bytes::npos);
  EXPECT_EQ(body.copy.batch_bytes_max, rig.broker.entry_bytes_max());
  rig.answer({{}, {}, machine::DeadLetterReplayOutcome{Verdict::moved, 57}});
  EXPECT_NE(answer_of(sent).find(R"("offset":57},"dlqRowRemoved":true})"), std::string::npos)
      << answer_of(sent);
}

// 12: the table of outcomes.
TEST(Replay, AnswersAsItsTableSays) {
  const auto verdict = [](machine::Outcome outcome) {
    LetterRig rig;
    const auto sent = rig.replay();
    rig.answer(std::move(outcome));
    return answer_of(sent);
  };
  EXPECT_EQ(verdict({{}, {}, machine::DeadLetterReplayOutcome{Verdict::gone, 0}}),
            R"(404 {"success":false,"result":"gone","error":"Message not found"})");
  EXPECT_EQ(verdict({"too_large", "large", {}}),
            R"(409 {"success":false,"error":"large","reason":"too_large","dlqRowRemoved":false})");
  EXPECT_EQ(verdict({"storage_full", "full", {}}), R"(507 {"error":"full","code":"storage_full"})");
  EXPECT_EQ(verdict({"outcome_unknown", "?", {}}), R"(503 {"error":"?","code":"outcome_unknown"})");
  EXPECT_EQ(verdict({"overloaded", "!", {}}), R"(429 {"error":"!","code":"overloaded"})");
  const std::string duplicate = verdict({{}, {}, machine::DeadLetterReplayOutcome{Verdict::duplicate, 9}});
  EXPECT_EQ(
      duplicate,
      R"(200 {"success":true,"result":"duplicate","queue":"q","partition":"p","consumerGroup":"g","dlqId":")" +
          numbered(1).str() + R"(","originalTransactionId":"t","replayedAs":{"index":0,"message_id":")" +
          Uuid{}.str() + R"(","transaction_id":"dlq:)" + numbered(1).str() +
          R"(","queueName":"q","status":"duplicate","offset":9},"dlqRowRemoved":false})");
}

TEST(Replay, ADeadlineAnswersTimeout) {
  LetterRig rig;
  const auto sent = rig.replay();
  rig.timers.run_for(31'000'000);
  EXPECT_NE(answer_of(sent).find("503 "), std::string::npos);
  EXPECT_NE(answer_of(sent).find(R"("code":"timeout")"), std::string::npos);
}

TEST(Replay, WithoutADeadLetterAsksNobody) {
  LetterRig rig;
  const std::string gone = R"(404 {"success":false,"result":"gone","error":"Message not found"})";
  EXPECT_EQ(answer_of(rig.replay("", numbered(2).str())), gone);
  EXPECT_EQ(answer_of(rig.replay("", "x")), gone);
  EXPECT_EQ(answer_of(rig.replay(R"({"queue":""})")),
            R"(400 {"success":false,"error":"queue must not be empty","code":"bad_request"})");
  EXPECT_TRUE(rig.broker.commands.empty());
}

TEST(ReplayTargetTest, TakesStringsAndNothingElse) {
  EXPECT_EQ(parse_replay("")->queue, std::nullopt);
  EXPECT_EQ(parse_replay(R"({"queue":"a","partition":null,"x":1})")->queue, "a");
  EXPECT_EQ(parse_replay(R"({"partition":"b"})")->partition, "b");
  for (const char* bad : {"{", "[]", "null", R"({"queue":1})", R"({"queue":""})", R"({"partition":""})",
                          R"({"queue":"\ud800"})", "{}x"})
    EXPECT_FALSE(parse_replay(bad)) << bad;
}

// A queue that has none is purged without an entry.
TEST(Purge, NamesTheDeadLettersOfTheQueue) {
  LetterRig rig;
  const auto purge = [&](std::string query) {
    http::Request request;
    request.method = http::Method::del;
    request.query = std::move(query);
    return rig.call(handle_dlq_purge, std::move(request));
  };
  EXPECT_EQ(answer_of(purge("queue=none")),
            R"(200 {"success":true,"queue":"none","consumerGroup":null,"deleted":0})");
  EXPECT_TRUE(rig.broker.commands.empty());
  const auto sent = purge("queue=q&consumerGroup=g");
  const auto& body = std::get<machine::DeadLetterDeleteCommand>(rig.broker.commands.at(0).body);
  EXPECT_EQ(body.queue, "q");
  EXPECT_EQ(body.ids, std::vector<Uuid>{numbered(1)});
  rig.answer({{}, {}, machine::DeadLetterDeleteOutcome{1}});
  EXPECT_EQ(answer_of(sent), R"(200 {"success":true,"queue":"q","consumerGroup":"g","deleted":1})");
}

TEST(TraceBodyTest, MintsWhatIsNotSaid) {
  Rig rig;
  const auto sent = rig.post(handle_trace_append, R"({"transactionId":"t","data":{"a":1.50}})");
  const auto& body = std::get<machine::TraceCommand>(rig.broker.commands.at(0).body);
  EXPECT_EQ(body.pid, std::nullopt);
  EXPECT_EQ(body.row.data, R"({"a":1.50})");
  EXPECT_EQ(body.row.event_type, "event");
  EXPECT_NE(body.row.id, Uuid{});
  const std::string id = body.row.trace_id.str();
  rig.broker.outcomes.at(0)(machine::Outcome{{}, {}, machine::TraceOutcome{true}});
  EXPECT_EQ(answer_of(sent), R"(201 {"success":true,"traceId":")" + id + R"("})");
}

// 13: a partition that went between the look-up and the plan.
TEST(TraceBodyTest, APartitionThatIsNotThereIs404) {
  LetterRig rig;
  const std::string gone = R"(404 {"success":false,"error":"Partition not found"})";
  EXPECT_EQ(answer_of(rig.post(handle_trace_append, R"({"transactionId":"t","partitionId":"8"})")), gone);
  EXPECT_TRUE(rig.broker.commands.empty());
  const auto sent = rig.post(handle_trace_append, R"({"transactionId":"t","partitionId":"7"})");
  rig.answer({{}, {}, machine::TraceOutcome{false}});
  EXPECT_EQ(answer_of(sent), gone);
}

TEST(TraceBodyTest, AKeyOfExactlyTheLimitIsTaken) {
  const auto parse = [](const std::string& fields) {
    const auto parsed = parse_trace("{" + fields + "}", kDefaultTenant);
    return parsed ? std::string("taken") : parsed.error().code;
  };
  // Without a pid: tenant 36 + 2, u8 1, end 2, sequence 8.
  EXPECT_EQ(parse(R"("transactionId":")" + std::string(462, 't') + "\""), "taken");
  EXPECT_EQ(parse(R"("transactionId":")" + std::string(463, 't') + "\""), "name_too_long");
  EXPECT_EQ(parse(R"("partitionId":"1","transactionId":")" + std::string(454, 't') + "\""), "taken");
  EXPECT_EQ(parse(R"("partitionId":"1","transactionId":")" + std::string(455, 't') + "\""), "name_too_long");
  EXPECT_EQ(trace_refused({"name_too_long", "x"}).status, 400);
}

}  // namespace
}  // namespace queen::api

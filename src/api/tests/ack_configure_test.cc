// Ack and configure: every 400 of their tables, what reaches the broker, the answers.
#include <gtest/gtest.h>

#include "api/detail/ack.h"
#include "api/detail/configure.h"
#include "api/tests/fake_broker.h"
#include "base/hash.h"

namespace queen::api {
namespace {

using Status = machine::AckStatus;

TEST(AckParse, RefusesWhatIsNotItsShape) {
  for (const std::string_view body :
       {"", "[]", "{}", "null", R"({"transactionId":"t"})", R"({"partitionId":"1"})",
        R"({"transactionId":7,"partitionId":"1"})", R"({"transactionId":"t","partitionId":318})",
        R"({"transactionId":"t","partitionId":null})",
        R"({"transactionId":"t","partitionId":"1","leaseId":7})",
        R"({"transactionId":"t","partitionId":"1","status":true})",
        R"({"transactionId":"t","partitionId":"1","error":{}})",
        R"({"transactionId":"t","partitionId":"1","consumerGroup":1})", R"({"acknowledgments":{}})",
        R"({"acknowledgments":[1]})", R"({"acknowledgments":[{"transactionId":"t"}]})",
        R"({"acknowledgments":[{"transactionId":"t","partitionId":"1"}]} ,)"}) {
    const auto parsed = parse_ack(body);
    ASSERT_FALSE(parsed) << body;
    EXPECT_EQ(parsed.error().code, "bad_body") << body;
  }
}

TEST(AckParse, ReadsTheSingleForm) {
  const auto parsed = parse_ack(
      R"({"transactionId":"read-7","partitionId":"318","leaseId":"L","consumerGroup":"billing","status":"FAILED","error":"offline"})");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->group, "billing");
  ASSERT_EQ(parsed->items.size(), 1U);
  const machine::AckItem& item = parsed->items[0];
  EXPECT_EQ(item.transaction_id + item.partition_id + item.lease_id + *item.error, "read-7318Loffline");
  EXPECT_EQ(item.status, Status::failed);
  EXPECT_EQ(item.hash, xxh3_128("read-7"));
}

TEST(AckParse, LetsANonEmptyBatchHideTheSingleFields) {
  const auto parsed = parse_ack(
      R"({"transactionId":9,"consumerGroup":"","acknowledgments":[{"transactionId":"a","partitionId":"x","leaseId":null,"status":null,"error":null},
          {"transactionId":"b","partitionId":"1","status":"Retry"},{"transactionId":"c","partitionId":"1","status":"dlq","consumerGroup":"no"},
          {"transactionId":"d","partitionId":"1","status":"done"}]})");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->group, machine::kQueueMode);
  std::vector<Status> statuses;
  for (const auto& item : parsed->items) statuses.push_back(item.status);
  EXPECT_EQ(statuses, (std::vector{Status::completed, Status::retry, Status::dlq, Status::completed}));
  EXPECT_EQ(parsed->items[0].lease_id, "");
  EXPECT_FALSE(parsed->items[0].error);
}

TEST(AckParse, TakesTheSingleFormWhenTheListIsEmpty) {
  for (const std::string_view list : {"[]", "null"}) {
    const auto parsed = parse_ack(R"({"acknowledgments":)" + std::string(list) +
                                  R"(,"transactionId":"t","partitionId":"1"})");
    ASSERT_TRUE(parsed) << list;
    EXPECT_EQ(parsed->items.size(), 1U);
  }
}

TEST(AckRoute, AnswersOneObjectPerItem) {
  Rig rig;
  const auto sent = rig.post(
      handle_ack,
      R"({"acknowledgments":[{"transactionId":"a","partitionId":"1"},{"transactionId":"b","partitionId":"1","status":"failed"}]})");
  ASSERT_EQ(rig.broker.commands.size(), 1U);
  const auto& command = std::get<machine::AckCommand>(rig.broker.commands[0].body);
  EXPECT_EQ(command.items[0].dlq_id, Uuid{});
  EXPECT_NE(command.items[1].dlq_id, Uuid{});
  machine::Outcome outcome;
  outcome.body = machine::AckOutcome{
      {{true, "", true, false, true}, {false, "invalid or expired lease", false, true, false}}, {}, {}};
  rig.broker.outcomes[0](outcome);
  EXPECT_EQ(
      answer_of(sent),
      R"(200 [{"index":0,"transactionId":"a","success":true,"error":null,"leaseReleased":true,"dlq":false,"noop":true},)"
      R"({"index":1,"transactionId":"b","success":false,"error":"invalid or expired lease","leaseReleased":false,"dlq":true,"noop":false}])");
}

TEST(AckRoute, RefusesAGroupOverBudget) {
  Rig rig;
  const auto sent = rig.post(handle_ack, R"({"transactionId":"a","partitionId":"1","consumerGroup":")" +
                                             std::string(412, 'g') + R"("})");
  EXPECT_EQ(sent->responses.at(0).status, 413);
}

TEST(AckRoute, PassesThePlannersRefusalOn) {
  Rig rig;
  const auto sent = rig.post(handle_ack, R"({"transactionId":"a","partitionId":"1"})");
  machine::Outcome outcome;
  outcome.code = "outcome_unknown";
  outcome.error = "leader changed";
  rig.broker.outcomes[0](outcome);
  EXPECT_EQ(answer_of(sent), R"(503 {"error":"leader changed","code":"outcome_unknown"})");
  EXPECT_EQ(header_of(sent->responses[0], "Retry-After"), "1");
}

TEST(AckRoute, AnswersTimeoutAtItsDeadline) {
  Rig rig;
  const auto sent = rig.post(handle_ack, R"({"transactionId":"a","partitionId":"1"})");
  rig.timers.run_for(30'000'000);
  EXPECT_NE(answer_of(sent).find(R"("code":"timeout")"), std::string::npos);
}

std::string refusal(std::string_view body) {
  const auto parsed = parse_configure(body, kDefaultTenant);
  return parsed ? "accepted" : parsed.error().code;
}
std::string with_options(const std::string& options) {
  return R"({"queue":"q","options":{)" + options + "}}";
}

TEST(ConfigureParse, RefusesBodiesThatAreNoObjects) {
  for (const std::string_view body : {"", "[]", "7", R"({"queue":"q",})"})
    EXPECT_EQ(refusal(body), "bad_body") << body;
}

TEST(ConfigureParse, RefusesByItsTable) {
  for (const std::string& body :
       std::vector<std::string>{"{}",
                                R"({"queue":""})",
                                R"({"queue":7})",
                                R"({"queue":null})",
                                R"({"queue":"q","mode":"replce"})",
                                R"({"queue":"q","mode":1})",
                                R"({"queue":"q","options":[]})",
                                R"({"queue":"q","namespace":1})",
                                with_options(R"("leaseTime":"30")"),
                                with_options(R"("leaseTime":30.5)"),
                                with_options(R"("leaseTime":30.0)"),
                                with_options(R"("leaseTime":true)"),
                                with_options(R"("retryLimit":2147483648)"),
                                with_options(R"("retryLimit":-2147483649)"),
                                with_options(R"("deadLetterQueue":1)"),
                                with_options(R"("retentionEnabled":"true")"),
                                with_options(R"("retentionSinkHold":"a b")"),
                                with_options(R"("retentionSinkHold":7)"),
                                with_options(R"("retentionSinkHold":")" + std::string(65, 'a') + '"'),
                                with_options(R"("retentionSinkHoldMaxSeconds":59)"),
                                with_options(R"("retentionSinkHoldMaxSeconds":31536001)"),
                                with_options(R"("namespace":7)"),
                                with_options(R"("task":[])"),
                                R"({"queue":"q","leaseTime":"x"})"})
    EXPECT_EQ(refusal(body), "bad_request") << body;
  EXPECT_EQ(refusal(R"({"queue":")" + std::string(412, 'q') + R"("})"), "name_too_long");
}

TEST(ConfigureParse, ReadsOptionsAndTheirNulls) {
  const auto parsed = parse_configure(
      R"({"queue":"q","namespace":"outer","task":"t","mode":"replace","options":{"namespace":"inner","leaseTime":30,"retryLimit":null,
          "deadLetterQueue":false,"retentionSinkHold":"lake-1","minPopWaitTime":90000,"maxSize":5,"unknown":{}}})",
      kDefaultTenant);
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->replace);
  const auto& integers = parsed->integers;
  EXPECT_EQ(integers.at("leaseTime"), 30);
  EXPECT_EQ(integers.at("retryLimit"), std::nullopt);
  EXPECT_EQ(integers.at("deadLetterQueue"), 0);
  EXPECT_EQ(integers.at("minPopWaitTime"), 60'000);
  EXPECT_EQ(integers.at("maxSize"), 5);
  EXPECT_EQ(integers.size(), 5U);
  EXPECT_EQ(parsed->texts.at("namespace"), "inner");
  EXPECT_EQ(parsed->texts.at("task"), "t");
  EXPECT_EQ(parsed->texts.at("retentionSinkHold"), "lake-1");
}

TEST(ConfigureParse, TakesTopLevelFieldsAsOptionsWhenThereAreNone) {
  const auto parsed = parse_configure(
      R"({"queue":"q","leaseTime":9,"namespace":"","task":"t","mode":null,"options":null})", kDefaultTenant);
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->replace);
  EXPECT_EQ(parsed->integers.at("leaseTime"), 9);
  EXPECT_FALSE(parsed->texts.contains("namespace"));
  EXPECT_EQ(parsed->texts.at("task"), "t");
}

TEST(ConfigureAnswer, HasTheDocumentedShape) {
  Rig rig;
  const auto sent = rig.post(handle_configure, R"({"queue":"meters","options":{"leaseTime":30}})");
  store::QueueRow row = store::QueueRow::configure_defaults();
  row.uuid = *Uuid::parse("01b7c0de-0001-7aaa-8bbb-000000000001");
  row.namespace_name = "acme";
  row.task = std::nullopt;
  row.lease_time = 30;
  row.retry_limit = 5;
  machine::Outcome outcome;
  outcome.body = machine::ConfigureOutcome{row};
  rig.broker.outcomes.at(0)(outcome);
  EXPECT_EQ(
      answer_of(sent),
      R"(200 {"configured":true,"queueId":"01b7c0de-0001-7aaa-8bbb-000000000001","partitionId":null,"queue":"meters","namespace":"acme","task":null,"storage":"segments","options":{"priority":0,"leaseTime":30,"retryLimit":5,"retryDelay":1000,"maxSize":0,"maxQueueSize":0,"ttl":3600,"deadLetterQueue":true,"dlqAfterMaxRetries":true,"delayedProcessing":0,"windowBuffer":0,"windowBufferMaxSeconds":0,"retentionSeconds":0,"completedRetentionSeconds":0,"retentionEnabled":false,"encryptionEnabled":false,"maxWaitTimeSeconds":0,"minPopWaitTime":0,"dedupWindowSeconds":3600,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800}})");
}

}  // namespace
}  // namespace queen::api

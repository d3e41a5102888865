// Pop: parameters, refusals, the answer's shape, and what happens when nobody is there to take it.
#include "api/detail/pop.h"

#include <gtest/gtest.h>

#include <map>

#include "api/tests/fake_broker.h"
#include "base/text.h"

namespace queen::api {
namespace {

using Params = std::map<std::string, std::string, std::less<>>;
using Mode = machine::Subscription::Mode;

PopParse parse(Params params, std::optional<std::string> partition = std::nullopt, std::string queue = "q") {
  Query query([params = std::move(params)](std::string_view name) -> std::optional<std::string> {
    const auto found = params.find(name);
    return found == params.end() ? std::nullopt : std::optional(found->second);
  });
  return parse_pop(std::move(query), std::move(queue), std::move(partition), kDefaultTenant, ApiSettings{});
}
machine::PopCommand command(Params params, std::optional<std::string> partition = std::nullopt) {
  const auto parsed = parse(std::move(params), std::move(partition));
  EXPECT_TRUE(parsed);
  return parsed ? parsed->command : machine::PopCommand{};
}

TEST(PopParameters, HaveTheirDefaults) {
  const auto parsed = parse({});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->command.batch, 200U);
  EXPECT_EQ(parsed->command.partitions_max, 1U);
  EXPECT_EQ(parsed->command.group, machine::kQueueMode);
  EXPECT_EQ(parsed->command.lease_seconds, 0);
  EXPECT_FALSE(parsed->command.commit_on_delivery);
  EXPECT_FALSE(parsed->command.conflation);
  EXPECT_EQ(parsed->command.subscription.mode, Mode::fresh);
  EXPECT_FALSE(parsed->wait);
  EXPECT_EQ(parsed->timeout_ms, 30'000);
}

TEST(PopParameters, AreClamped) {
  EXPECT_EQ(command({{"batch", "0"}}).batch, 1U);
  EXPECT_EQ(command({{"batch", "-5"}}).batch, 1U);
  EXPECT_EQ(command({{"batch", "9000000000"}}).batch, 2'147'483'647U);
  EXPECT_EQ(command({{"partitions", "0"}}).partitions_max, 1U);
  EXPECT_EQ(command({{"partitions", "65"}}).partitions_max, 64U);
  EXPECT_EQ(command({{"partitions", "9"}}, "p").partitions_max, 1U);
  EXPECT_EQ(parse({{"timeout", "0"}})->timeout_ms, 1);
  EXPECT_EQ(parse({{"timeout", "60001"}})->timeout_ms, 60'000);
  EXPECT_EQ(command({{"leaseSeconds", "-1"}}).lease_seconds, 0);
  EXPECT_EQ(command({{"leaseSeconds", "7"}}).lease_seconds, 7);
  EXPECT_EQ(command({{"consumerGroup", ""}}).group, machine::kQueueMode);
}

TEST(PopParameters, ThatDoNotParseAnswerPlainText) {
  for (const auto& [name, value] : Params{{"batch", "abc"},
                                          {"wait", "maybe"},
                                          {"timeout", "1.5"},
                                          {"partitions", ""},
                                          {"leaseSeconds", "x"},
                                          {"conflation", "2"},
                                          {"autoAck", "y"}}) {
    const auto parsed = parse({{name, value}});
    ASSERT_FALSE(parsed) << name;
    EXPECT_EQ(parsed.error().status, 400);
    EXPECT_EQ(parsed.error().content_type, "text/plain");
  }
}

TEST(PopParameters, TakeEitherNameOfCommitAtDelivery) {
  EXPECT_TRUE(command({{"autoAck", "true"}}).commit_on_delivery);
  EXPECT_TRUE(command({{"commitOnDelivery", "true"}, {"autoAck", "false"}}).commit_on_delivery);
}

TEST(PopParameters, ReadTheSubscription) {
  for (const std::string word : {"new", " NEW ", "new-only", "new_only", "NewOnly"})
    EXPECT_EQ(command({{"subscriptionMode", word}}).subscription.mode, Mode::fresh) << word;
  for (const std::string word : {"all", "from_beginning", "earliest", "nwe", ""})
    EXPECT_EQ(command({{"subscriptionMode", word}}).subscription.mode, Mode::all) << word;
  const auto from =
      command({{"subscriptionMode", "all"}, {"subscriptionFrom", "2031-04-05T06:07:08.123456Z"}})
          .subscription;
  EXPECT_EQ(from.mode, Mode::timestamp);
  EXPECT_EQ(iso_micros(from.from_us), "2031-04-05T06:07:08.123000Z");
  EXPECT_TRUE(command({{"subscriptionFrom", "NOW"}}).subscription.from_now);
  EXPECT_EQ(command({{"subscriptionMode", "all"}, {"subscriptionFrom", "soon"}}).subscription.mode,
            Mode::all);
}

TEST(PopParameters, LeaveToTheAutopilotWhatWasNotSent) {
  const auto both = command({{"autopilot", "true"}});
  EXPECT_TRUE(both.autopilot_batch && both.autopilot_partitions);
  const auto one = command({{"autopilot", "true"}, {"batch", "5"}});
  EXPECT_TRUE(!one.autopilot_batch && one.autopilot_partitions);
  EXPECT_EQ(one.batch, 5U);
  EXPECT_FALSE(command({{"autopilot", "true"}}, "p").autopilot_batch);
  EXPECT_FALSE(
      command({{"autopilot", "true"}, {"conflation", "true"}, {"consumerGroup", "g"}}).autopilot_batch);
}

TEST(PopParameters, LetConflationDefaultPartitionsToTheBatch) {
  EXPECT_EQ(command({{"conflation", "true"}, {"consumerGroup", "g"}, {"batch", "10"}}).partitions_max, 10U);
  EXPECT_EQ(command({{"conflation", "true"}, {"consumerGroup", "g"}}).partitions_max, 64U);
  EXPECT_EQ(command({{"conflation", "false"}}).conflation, false);
}

TEST(PopRefusals, HaveTheShapeOfAPopAnswer) {
  for (const Params& params : {Params{{"conflation", "true"}},
                               Params{{"conflation", "true"}, {"consumerGroup", "g"}, {"autoAck", "true"}}}) {
    const auto parsed = parse(params);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().status, 400);
    EXPECT_TRUE(parsed.error().body.starts_with(R"({"success":false,"error":")"));
    EXPECT_TRUE(parsed.error().body.ends_with(R"(,"messages":[]})"));
  }
  const std::string text =
      parse({{"conflation", "true"}, {"consumerGroup", "g"}, {"autoAck", "true"}}).error().body;
  EXPECT_NE(text.find("commitOnDelivery"), std::string::npos);
  EXPECT_NE(text.find("autoAck"), std::string::npos);
}

TEST(PopRefusals, CoverNames) {
  EXPECT_EQ(parse({}, std::nullopt, std::string(412, 'q')).error().status, 413);
  EXPECT_TRUE(parse({}, std::nullopt, std::string(411, 'q')));
  EXPECT_EQ(parse({{"consumerGroup", std::string(411, 'g')}}).error().status, 413);
  EXPECT_EQ(parse({}, std::string(411, 'p')).error().status, 413);
  EXPECT_EQ(parse({}, std::nullopt, "\xFF").error().status, 400);
  EXPECT_EQ(parse({}, std::nullopt, "").error().status, 400);
}

PopParse parse_labels(Params params) {
  Query query([params = std::move(params)](std::string_view name) -> std::optional<std::string> {
    const auto found = params.find(name);
    return found == params.end() ? std::nullopt : std::optional(found->second);
  });
  return parse_discovery(std::move(query), kDefaultTenant, ApiSettings{});
}

// 4.1, S-8
TEST(PopDiscovery, NeedsALabelThatIsNotEmpty) {
  for (const Params& params : {Params{}, Params{{"namespace", ""}, {"task", ""}}}) {
    const auto parsed = parse_labels(params);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().status, 400);
    EXPECT_TRUE(parsed.error().body.starts_with(R"({"success":false,"error":")"));
    EXPECT_TRUE(parsed.error().body.ends_with(R"(,"messages":[]})"));
  }
  const auto parsed =
      parse_labels({{"namespace", "acme"}, {"task", ""}, {"batch", "7"}, {"partitions", "3"}});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->command.labels->namespace_name, "acme");
  EXPECT_EQ(parsed->command.labels->task, std::nullopt);
  EXPECT_EQ(parsed->command.queue, "");
  EXPECT_EQ(parsed->command.batch, 7U);
  EXPECT_EQ(parsed->command.partitions_max, 3U);
}

TEST(PopDiscovery, NeitherWaitsNorHasAnAutopilot) {
  const auto parsed = parse_labels({{"task", "bill"}, {"wait", "true"}, {"autopilot", "true"}});
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->wait);
  EXPECT_FALSE(parsed->command.autopilot_batch || parsed->command.autopilot_partitions);
  EXPECT_EQ(parse_labels({{"task", "bill"}, {"wait", "maybe"}}).error().status, 400);
  EXPECT_EQ(parse_labels({{"task", "bill"}, {"autopilot", "x"}}).error().content_type, "text/plain");
}

TEST(PopDiscovery, IsRefusedForWhatEveryPopIsRefused) {
  EXPECT_EQ(parse_labels({{"task", "b"}, {"conflation", "true"}}).error().status, 400);
  EXPECT_EQ(parse_labels({{"task", "b"}, {"consumerGroup", std::string(412, 'g')}}).error().status, 413);
  EXPECT_EQ(parse_labels({{"task", "b"}, {"consumerGroup", "\xFF"}}).error().status, 400);
}

PopEcho echo() {
  PopEcho out;
  out.queue = "meters";
  out.group = "billing";
  out.lease_id = *Uuid::parse("01b7c0df-1111-7222-8333-444455556666");
  return out;
}

broker::PopAnswer one_message() {
  broker::PopAnswer answer;
  broker::PopPart part;
  part.claim.pid = Pid{318};
  part.claim.partition = "unit-7";
  broker::Message message;
  message.offset = 41;
  message.ts_us = *parse_iso_micros_strict("2031-04-05T06:07:08.000123Z");
  message.id = *Uuid::parse("01b7c0de-0001-7aaa-8bbb-000000000001");
  message.transaction_id = "read-7-0412";
  message.payload = R"({"kwh": 12.50})";
  part.messages.messages.push_back(message);
  answer.parts.push_back(part);
  answer.batch = 100;
  answer.partitions_max = 4;
  return answer;
}

TEST(PopAnswer, HasTheDocumentedShape) {
  EXPECT_EQ(
      render_pop(echo(), one_message()).body,
      R"({"success":true,"queue":"meters","partition":"unit-7","partitionId":"318","leaseId":"01b7c0df-1111-7222-8333-444455556666","consumerGroup":"billing","messages":[{"id":"01b7c0de-0001-7aaa-8bbb-000000000001","transactionId":"read-7-0412","traceId":null,"data":{"kwh": 12.50},"producerSub":null,"createdAt":"2031-04-05T06:07:08.000123Z","partitionId":"318","partition":"unit-7","leaseId":"01b7c0df-1111-7222-8333-444455556666","consumerGroup":"billing","deliveryAttempt":1,"offset":41}],"partitionsClaimed":1})");
}

TEST(PopAnswer, AppendsFlagsOnlyWhenTheyHold) {
  auto answer = one_message();
  answer.conflation = true;
  auto asked = echo();
  asked.autopilot = true;
  EXPECT_TRUE(
      render_pop(asked, answer)
          .body.ends_with(
              R"("partitionsClaimed":1,"conflation":true,"autopilot":{"partitions":4,"batch":100}})"));
  answer.conflation_conflict = true;
  EXPECT_TRUE(render_pop(echo(), answer).body.ends_with(R"(,"conflation":true,"conflationConflict":true})"));
}

TEST(PopAnswer, ShowsNoLeaseWhenCommittedAtDelivery) {
  auto asked = echo();
  asked.commit_on_delivery = true;
  const std::string body = render_pop(asked, one_message()).body;
  EXPECT_EQ(body.find("01b7c0df"), std::string::npos);
  EXPECT_NE(body.find(R"("leaseId":"","consumerGroup")"), std::string::npos);
}

TEST(PopAnswer, RendersNullAndTheEnvelopeOfWhatItCannotRead) {
  auto answer = one_message();
  answer.parts[0].messages.messages[0].null_payload = true;
  EXPECT_NE(render_pop(echo(), answer).body.find(R"("data":null,)"), std::string::npos);
  answer.parts[0].messages.messages[0].null_payload = false;
  answer.parts[0].messages.messages[0].encrypted = true;
  answer.parts[0].messages.messages[0].payload = R"({"encrypted":"x"})";
  EXPECT_NE(render_pop(echo(), answer).body.find(R"("data":{"encrypted":"x"},)"), std::string::npos);
}

TEST(PopAnswer, Is204WhenEmptyUnlessAFlagMustBeTold) {
  broker::PopAnswer empty;
  EXPECT_EQ(render_pop(echo(), empty).status, 204);
  EXPECT_TRUE(render_pop(echo(), empty).body.empty());
  empty.conflation = true;
  const auto told = render_pop(echo(), empty);
  EXPECT_EQ(told.status, 200);
  EXPECT_NE(told.body.find(R"("messages":[],"partitionsClaimed":0,"conflation":true})"), std::string::npos)
      << told.body;
}

// Without sockets and without a query: the defaults.
std::shared_ptr<Sent> pop(Rig& rig) {
  http::Request request;
  request.params = {"meters"};
  return rig.call(handle_pop_queue, std::move(request));
}

TEST(PopRoute, AnswersWhatWasClaimed) {
  Rig rig;
  const auto sent = pop(rig);
  ASSERT_EQ(rig.broker.pops.size(), 1U);
  EXPECT_FALSE(rig.broker.pop_waits[0]);
  EXPECT_EQ(rig.broker.pop_deadlines[0], 30'000'000);
  rig.broker.pops[0](one_message());
  EXPECT_EQ(sent->responses.at(0).status, 200);
  EXPECT_TRUE(rig.broker.handed_back.empty());
}

TEST(PopRoute, HandsBackAnAnswerThatWasNeverTaken) {
  Rig rig;
  const auto sent = pop(rig);
  sent->taken = false;
  rig.broker.pops[0](one_message());
  ASSERT_EQ(sent->responses.size(), 1U);
  EXPECT_TRUE(rig.broker.handed_back.empty());
  sent->responses.clear();
  EXPECT_EQ(rig.broker.handed_back.size(), 1U);
}

TEST(PopRoute, CancelsWhenTheClientGoesAway) {
  Rig rig;
  const auto sent = pop(rig);
  sent->client_gone = true;
  sent->gone();
  EXPECT_EQ(rig.broker.cancelled_pops, (std::vector<broker::Broker::PopId>{1}));
  rig.broker.pops[0](one_message());
  EXPECT_EQ(rig.broker.handed_back.size(), 1U);
}

TEST(PopRoute, HandsBackWhatComesAfterTheDeadline) {
  Rig rig;
  const auto sent = pop(rig);
  rig.timers.run_for(30'000'000);
  ASSERT_EQ(sent->responses.size(), 1U);
  EXPECT_EQ(sent->responses[0].status, 503);
  EXPECT_EQ(rig.broker.cancelled_pops.size(), 1U);
  rig.broker.pops[0](one_message());
  EXPECT_EQ(rig.broker.handed_back.size(), 1U);
  EXPECT_EQ(sent->responses.size(), 1U);
}

TEST(PopRoute, PassesTheBrokersRefusalOn) {
  Rig rig;
  const auto sent = pop(rig);
  rig.broker.pops[0](tl::unexpected(broker::Refusal{"retry", "later"}));
  EXPECT_EQ(answer_of(sent), R"(503 {"error":"later","code":"retry"})");
}

}  // namespace
}  // namespace queen::api

// In-memory queues: bodies, answers, and a pop whose client is gone.
#include "api/detail/ephemeral.h"

#include <gtest/gtest.h>

#include "api/tests/fake_broker.h"

namespace queen::api {
namespace {

std::shared_ptr<Sent> pop(Rig& rig, std::string query) {
  http::Request request;
  request.query = std::move(query);
  return rig.call(handle_ephemeral_pop, std::move(request));
}
std::string push(Rig& rig, const std::string& payload) {
  return answer_of(
      rig.post(handle_ephemeral_push, R"({"queue":"q","messages":[{"payload":)" + payload + "}]}"));
}
std::string payloads(const std::shared_ptr<Sent>& sent) {
  const std::string answer = answer_of(sent);
  std::string out;
  for (std::size_t at = 0; (at = answer.find(R"("payload":)", at)) != std::string::npos;) {
    at += 10;
    out += answer.substr(at, answer.find('}', at) - at) + ";";
  }
  return out;
}

TEST(EphemeralRoutes, PushAndPopByteForByte) {
  Rig rig;
  EXPECT_EQ(push(rig, "[1,  2.0]"), R"(201 {"pushed":1})");
  const std::string answer = answer_of(pop(rig, "queue=q"));
  EXPECT_EQ(answer.substr(0, 38), R"(200 {"queue":"q","messages":[{"id":"e:)");
  EXPECT_NE(answer.find(R"(:Default:0","partition":"Default","attempts":1,"payload":[1,  2.0]}]})"),
            std::string::npos)
      << answer;
}

TEST(EphemeralRoutes, AnAbandonedPopTakesNothing) {
  Rig rig;
  const auto parked = pop(rig, "queue=q&wait=true&timeout=1000");
  EXPECT_TRUE(parked->responses.empty());
  EXPECT_EQ(rig.context->ephemeral.parked(), 1U);
  parked->gone();
  EXPECT_EQ(rig.context->ephemeral.parked(), 0U);
  push(rig, "1");
  EXPECT_EQ(payloads(pop(rig, "queue=q")), "1;");
}

TEST(EphemeralRoutes, AnAnswerThatNobodyReadIsGivenBackWithoutSpendingAnAttempt) {
  Rig rig;
  push(rig, "1");
  for (int i = 0; i < 10; ++i) {  // more than the retry limit
    auto unread = std::make_shared<Sent>();
    unread->taken = false;
    http::Request request;
    request.query = "queue=q";
    serve(rig.context, handle_ephemeral_pop, std::move(request), std::make_unique<FakeReply>(unread));
    EXPECT_EQ(payloads(unread), "1;") << i;
    unread->responses.clear();  // as the server does with an answer that it could not send
  }
  EXPECT_EQ(payloads(pop(rig, "queue=q")), "1;");
}

TEST(EphemeralRoutes, APopWaitsForItsTimeoutAndNoLonger) {
  Rig rig;
  const auto parked = pop(rig, "queue=q&wait=true&timeout=300001");  // used within 300,000 ms
  rig.timers.run_for(299'999'000);
  EXPECT_TRUE(parked->responses.empty());
  rig.timers.run_for(1'000);
  EXPECT_EQ(answer_of(parked), R"(200 {"queue":"q","messages":[]})");
}

TEST(EphemeralRoutes, DeclarationsGoThroughTheLogAndThenToTheEngine) {
  Rig rig;
  const auto sent = rig.post(handle_ephemeral_configure,
                             R"({"queue":"q","options":{"maxLength":2,"policy":"dropOldest"}})");
  const auto& command = std::get<machine::EphemeralConfigureCommand>(rig.broker.commands.at(0).body);
  EXPECT_EQ(command.queue, "q");
  EXPECT_EQ(command.row.max_length, 2);
  {
    const auto gate = rig.broker.store.write_gate();
    rig.broker.store.put(store::Keyspace::eph_config, store::eph_config_key(kDefaultTenant, "q"),
                         command.row.encode());
  }
  machine::Outcome outcome;
  outcome.body = machine::EphemeralConfigureOutcome{command.row};
  rig.broker.outcomes.at(0)(std::move(outcome));
  EXPECT_EQ(answer_of(sent), R"(201 {"queue":"q","tier":"declared","options":{"maxBytes":0,"maxLength":2,)"
                             R"("policy":"dropOldest","ttlSeconds":0,"leaseSeconds":0,"retryLimit":0,)"
                             R"("windowBuffer":{"ms":0,"count":0}}})");
  push(rig, "1");
  push(rig, "2");
  push(rig, "3");
  EXPECT_EQ(payloads(pop(rig, "queue=q&batch=9")), "2;3;");
}

TEST(EphemeralRoutes, ADeclaredQueueIsKnownAfterAStart) {
  Rig rig;
  store::EphemeralRow row;
  row.max_length = 1;
  {
    const auto gate = rig.broker.store.write_gate();
    rig.broker.store.put(store::Keyspace::eph_config, store::eph_config_key(kDefaultTenant, "q"),
                         row.encode());
  }
  http::Request request;
  request.params = {"q"};
  EXPECT_EQ(answer_of(rig.call(handle_ephemeral_depth, std::move(request))),
            R"(200 {"queue":"q","group":"__QUEUE_MODE__","tier":"declared","pending":0,)"
            R"("partitionsPending":0,"bytes":0,"partitions":[],"groups":[]})");
  push(rig, "1");
  EXPECT_EQ(push(rig, "2"),
            R"(429 {"error":"the queue is at its maxBytes or maxLength","code":"queue_full"})");
}

TEST(EphemeralRoutes, AnEmptyGroupIsAnAbsentOne) {
  Rig rig;
  push(rig, "1");
  EXPECT_EQ(payloads(pop(rig, "queue=q&group=")), "1;");
  EXPECT_EQ(payloads(pop(rig, "queue=q")), "");
}

}  // namespace
}  // namespace queen::api

// Consumer groups and lease renewal: bodies in, answers out (api-messaging.md 6 and 9).
#include <gtest/gtest.h>

#include "api/detail/consumer_groups.h"
#include "api/detail/group_commands.h"
#include "api/detail/lease.h"
#include "api/tests/fake_broker.h"
#include "base/text.h"

namespace queen::api {
namespace {

std::shared_ptr<Sent> call(Rig& rig, RouteHandler handler, std::vector<std::string> params,
                           std::string body = {}, std::string query = {}) {
  http::Request request;
  request.params = std::move(params);
  request.body = std::move(body);
  request.query = std::move(query);
  return rig.call(handler, std::move(request));
}
template <class Out>
void answer(Rig& rig, Out out) {
  rig.broker.outcomes.at(0)(machine::Outcome{{}, {}, std::move(out)});
  rig.broker.outcomes.pop_front();
}

// 6: a missing or unreadable body and missing seconds are 60, below 1 is 1.
TEST(LeaseExtend, ReadsSecondsAndNeverRefuses) {
  const std::vector<std::pair<std::string, std::int64_t>> rows = {
      {"", 60},
      {"{", 60},
      {"\xFF", 60},
      {"[]", 60},
      {"{}", 60},
      {R"({"seconds":null})", 60},
      {R"({"seconds":"90"})", 60},
      {R"({"seconds":1.5})", 60},
      {R"({"seconds":45})", 45},
      {R"({"seconds":45.0})", 45},
      {R"({"seconds":0})", 1},
      {R"({"seconds":-7})", 1},
      {R"({"seconds":9000000000000000000})", 2'147'483'647},
  };
  for (const auto& [body, seconds] : rows) EXPECT_EQ(parse_renewal_seconds(body), seconds) << body;
}

// X-2, X-3
TEST(LeaseExtend, AnswersTheEarliestExpiryUnderThreeNamesOrNulls) {
  Rig rig;
  auto sent = call(rig, handle_lease_extend, {"01b7"}, R"({"seconds":45})");
  const auto& asked = std::get<machine::RenewCommand>(rig.broker.commands.at(0).body);
  EXPECT_EQ(asked.lease_id, "01b7");
  EXPECT_EQ(asked.seconds, 45);
  answer(rig, machine::RenewOutcome{3, *parse_iso_micros_strict("2031-04-05T06:08:53.000123Z")});
  EXPECT_EQ(
      answer_of(sent),
      R"(200 {"leaseId":"01b7","success":true,"renewed":3,"newExpiresAt":"2031-04-05T06:08:53.000123Z",)"
      R"("expiresAt":"2031-04-05T06:08:53.000123Z","lease_expires_at":"2031-04-05T06:08:53.000123Z"})");
  sent = call(rig, handle_lease_extend, {"no\xFF"});
  answer(rig, machine::RenewOutcome{});
  EXPECT_EQ(answer_of(sent),
            "200 {\"leaseId\":\"no\xEF\xBF\xBD\",\"success\":false,\"renewed\":0,"
            "\"newExpiresAt\":null,\"expiresAt\":null,\"lease_expires_at\":null}");
}

// 9.2: where it goes, and what is refused.
TEST(SeekBody, NamesTheEndOrATimestamp) {
  const std::string neither = R"(400 {"success":false,"error":"Must specify toEnd=true or a timestamp"})";
  for (const char* body :
       {"{}", R"({"toEnd":false})", R"({"toEnd":"true"})", R"({"toEnd":null,"timestamp":null})",
        R"({"timestamp":"yesterday"})", R"({"timestamp":1700000000000})", R"({"timestamp":""})"}) {
    Rig rig;
    EXPECT_EQ(answer_of(call(rig, handle_seek_queue, {"g", "q"}, body)), neither) << body;
    EXPECT_TRUE(rig.broker.commands.empty());
  }
  for (const char* body : {"{", "[]", "7", "\"x\"", "{\"toEnd\":true} x", "\xFF"}) {
    Rig rig;
    const auto sent = call(rig, handle_seek_queue, {"g", "q"}, body);
    EXPECT_EQ(sent->responses.at(0).status, 400) << body;
    EXPECT_NE(sent->responses[0].body.find("bad_body"), std::string::npos) << body;
  }
  using Since = std::optional<std::int64_t>;
  EXPECT_EQ(*parse_seek(""), Since());
  EXPECT_EQ(*parse_seek(" \r\n"), Since());
  EXPECT_EQ(*parse_seek(R"({"toEnd":true})"), Since());
  EXPECT_EQ(*parse_seek(R"({"toEnd":true,"timestamp":"2031-04-05T00:00:00Z"})"), Since());
  EXPECT_EQ(*parse_seek(R"({"timestamp":"1970-01-01T00:00:00Z"})"), Since(0));
  EXPECT_EQ(*parse_seek(R"({"timestamp":"1970-01-01T00:00:00.001999Z","toEnd":false})"), Since(1'000));
}

// 9.2
TEST(SeekRoute, AnswersWhatWasDone) {
  Rig rig;
  auto sent = call(rig, handle_seek_queue, {"billing", "meters"}, R"({"timestamp":"2031-04-05T00:00:00Z"})");
  answer(rig, machine::SeekOutcome{true, 12, {}, 0, {}});
  EXPECT_EQ(
      answer_of(sent),
      R"(200 {"success":true,"consumerGroup":"billing","queueName":"meters","partitionName":null,)"
      R"("seekToEnd":false,"targetTimestamp":"2031-04-05T00:00:00.000000Z","partitionsUpdated":12,"updated":true})");
  sent = call(rig, handle_seek_partition, {"billing", "meters", "unit-7"});
  EXPECT_EQ(std::get<machine::SeekCommand>(rig.broker.commands.at(1).body).partition, "unit-7");
  answer(rig, machine::SeekOutcome{true, 1, {}, 0, {}});
  EXPECT_EQ(answer_of(sent),
            R"(200 {"success":true,"consumerGroup":"billing","queueName":"meters","partitionName":"unit-7",)"
            R"("seekToEnd":true,"targetTimestamp":null,"partitionsUpdated":1,"updated":true})");
  sent = call(rig, handle_seek_queue, {"billing", "none"});
  answer(rig, machine::SeekOutcome{});
  EXPECT_EQ(answer_of(sent), R"(404 {"success":false,"error":"Queue not found or without partitions",)"
                             R"("consumerGroup":"billing","queueName":"none","partitionsUpdated":0})");
}

// 1.4, 1.5: names in paths.
TEST(GroupPaths, AreBoundedAndMustBeNames) {
  const auto status = [](RouteHandler handler, std::vector<std::string> params) {
    Rig rig;
    const auto sent =
        call(rig, handler, std::move(params), R"({"subscriptionTimestamp":"2031-04-05T00:00:00Z"})");
    return sent->responses.empty() ? 0 : sent->responses[0].status;
  };
  const std::string longest(411, 'n');
  for (const RouteHandler handler : {handle_seek_queue, handle_group_delete_queue}) {
    EXPECT_EQ(status(handler, {"g", ""}), 400);
    EXPECT_EQ(status(handler, {"", "q"}), 400);
    EXPECT_EQ(status(handler, {"g", "\xFF"}), 400);
    EXPECT_EQ(status(handler, {"g", longest}), 413);
  }
  EXPECT_EQ(status(handle_seek_partition, {"g", "q", ""}), 400);
  EXPECT_EQ(status(handle_seek_partition, {"g", "q", longest}), 413);
  EXPECT_EQ(status(handle_subscription, {longest + "n"}), 413);
  EXPECT_EQ(status(handle_subscription, {longest}), 0);
  EXPECT_EQ(status(handle_group_delete, {longest + "n"}), 413);
  EXPECT_EQ(status(handle_group_delete, {longest}), 200);
}

// 9.3
TEST(SubscriptionRoute, WantsATimestampAndEchoesIt) {
  for (const char* body : {"", "{}", R"({"subscriptionTimestamp":null})", R"({"subscriptionTimestamp":7})",
                           R"({"subscriptionTimestamp":"soon"})"}) {
    Rig rig;
    const auto sent = call(rig, handle_subscription, {"g"}, body);
    EXPECT_EQ(sent->responses.at(0).status, 400) << body;
    EXPECT_NE(sent->responses[0].body.find("bad_request"), std::string::npos) << body;
  }
  Rig rig;
  const auto sent =
      call(rig, handle_subscription, {"g"}, R"({"subscriptionTimestamp":"1970-01-01T00:00:01Z"})");
  EXPECT_EQ(std::get<machine::SubscribeCommand>(rig.broker.commands.at(0).body).from_us, 1'000'000);
  answer(rig, machine::SubscribeOutcome{2, {}});
  EXPECT_EQ(answer_of(sent),
            R"(200 {"success":true,"consumerGroup":"g","newTimestamp":"1970-01-01T00:00:01Z",)"
            R"("rowsUpdated":2})");
}

// 9.4: only the exact word keeps the registration.
TEST(GroupDeleteRoute, SaysWhatWentAndKeepsTheRegistrationOnlyWhenTold) {
  Rig rig;
  rig.broker.group_deleted = {12, {"meters"}};
  EXPECT_EQ(answer_of(call(rig, handle_group_delete, {"billing"})),
            R"(200 {"success":true,"consumerGroup":"billing","queueName":null,"deletedPartitions":12,)"
            R"("metadataDeleted":true,"queues":["meters"]})");
  EXPECT_EQ(
      answer_of(call(rig, handle_group_delete_queue, {"billing", "meters"}, "", "deleteMetadata=false")),
      R"(200 {"success":true,"consumerGroup":"billing","queueName":"meters","deletedPartitions":12,)"
      R"("metadataDeleted":false,"queues":["meters"]})");
  EXPECT_EQ(rig.broker.group_deletions.at(1).queue, "meters");
  EXPECT_TRUE(rig.broker.group_deletions.at(1).keep_registration);
  for (const char* query : {"deleteMetadata=False", "deleteMetadata=0", "deleteMetadata=true"}) {
    call(rig, handle_group_delete, {"billing"}, "", query);
    EXPECT_FALSE(rig.broker.group_deletions.back().keep_registration) << query;
  }
}

broker::GroupOnQueue billing() {
  broker::GroupOnQueue group;
  group.queue = "meters";
  group.group = "billing";
  group.partitions = 12;
  group.partitions_behind = 2;
  group.lag = 7;
  group.lag_us_max = 31'900'000;
  group.consumed = true;
  group.registration.emplace();
  group.registration->mode = store::GroupMode::from_now;
  group.registration->registered_at = *parse_iso_micros_strict("2031-04-01T00:00:00Z");
  return group;
}

// 9.1
TEST(GroupList, HasARowPerGroupAndQueue) {
  EXPECT_EQ(render_groups({}), "[]");
  EXPECT_EQ(
      render_groups({billing()}),
      R"([{"name":"billing","topics":["meters"],"queueName":"meters","members":12,"partitionCursors":12,)"
      R"("partitionsWithLag":2,"totalLag":7,"maxTimeLag":31,"state":"Stable","storage":"segments",)"
      R"("kind":"queen","subscriptionMode":"new","subscriptionTimestamp":"2031-04-01T00:00:00.000000Z",)"
      R"("subscriptionCreatedAt":"2031-04-01T00:00:00.000000Z","conflation":false}])");
}

TEST(GroupList, TellsStateAndPolicy) {
  const auto has = [](const broker::GroupOnQueue& group, std::string_view part) {
    return render_groups({group}).find(part) != std::string::npos;
  };
  auto group = billing();
  group.lag_us_max = 300'999'999;
  EXPECT_TRUE(has(group, R"("state":"Stable")"));
  group.lag_us_max = 301'000'000;
  EXPECT_TRUE(has(group, R"("state":"Lagging")"));
  group.lag_us_max = 0;
  group.consumed = false;
  EXPECT_TRUE(has(group, R"("state":"Dead")"));
  group.registration->mode = store::GroupMode::all;
  EXPECT_TRUE(
      has(group, R"("subscriptionMode":"all","subscriptionTimestamp":"1970-01-01T00:00:00.000000Z")"));
  group.registration->mode = store::GroupMode::timestamp;
  group.registration->subscription_ts = 1'000;
  group.registration->conflation = true;
  EXPECT_TRUE(
      has(group, R"("subscriptionMode":"timestamp","subscriptionTimestamp":"1970-01-01T00:00:00.001000Z")"));
  EXPECT_TRUE(has(group, R"("conflation":true)"));
  const std::string_view none =
      R"("subscriptionMode":null,"subscriptionTimestamp":null,"subscriptionCreatedAt":null)";
  group.group = machine::kQueueMode;
  EXPECT_TRUE(has(group, none));
  group.group = "g";
  group.registration.reset();
  EXPECT_TRUE(has(group, none));
}

TEST(GroupDetail, IsKeyedByQueueAndEscapesItsName) {
  Rig rig;
  EXPECT_EQ(answer_of(call(rig, handle_group, {"nobody"})), R"(404 {"error":"Consumer group not found"})");
  auto first = billing();
  broker::GroupCursor cursor;
  cursor.partition = "unit-7";
  cursor.total_consumed = 41;
  first.cursors = {cursor};
  auto second = billing();
  second.queue = "a\"b";
  cursor.lease_id = "01b7";
  cursor.lag = 3;
  cursor.lag_us = 2'500'000;
  second.cursors = {cursor};
  rig.broker.group_reads.found = {first, second};
  EXPECT_EQ(
      answer_of(call(rig, handle_group, {"billing"})),
      R"(200 {"meters":{"conflation":false,"kind":"queen","partitions":[{"partition":"unit-7","workerId":null,)"
      R"("lastConsumedAt":null,"totalConsumed":41,"offsetLag":0,"timeLagSeconds":0,"leaseActive":false}]},)"
      R"("a\"b":{"conflation":false,"kind":"queen","partitions":[{"partition":"unit-7","workerId":"01b7",)"
      R"("lastConsumedAt":null,"totalConsumed":41,"offsetLag":3,"timeLagSeconds":2,"leaseActive":true}]}})");
}

TEST(Lagging, AsksForMoreThanTheMinimumAndRendersCursors) {
  Rig rig;
  broker::GroupCursor cursor;
  cursor.queue = "meters";
  cursor.group = "billing";
  cursor.partition = "unit-9";
  cursor.lag = 4;
  cursor.lag_us = 7'200'400'000;
  cursor.oldest_us = *parse_iso_micros_strict("2031-04-05T04:07:08.000999Z");
  rig.broker.group_reads.cursors = {cursor};
  EXPECT_EQ(
      answer_of(call(rig, handle_lagging, {})),
      R"(200 [{"consumer_group":"billing","queue_name":"meters","partition_name":"unit-9",)"
      R"("partition_id":"00000000-0000-0000-0000-000000000000","worker_id":null,"kind":"queen","offset_lag":4,)"
      R"("time_lag_seconds":7200,"lag_hours":2.0,"oldest_unconsumed_at":"2031-04-05T04:07:08.000Z",)"
      R"("last_consumed_at":null}])");
  call(rig, handle_lagging, {}, "", "minLagSeconds=5");
  call(rig, handle_lagging, {}, "", "minLagSeconds=9223372036854775807");
  EXPECT_EQ(rig.broker.group_reads.lagging_asked,
            (std::vector<std::int64_t>{3'600'000'000, 5'000'000, 9'223'372'036'854'000'000}));
  const auto refused = call(rig, handle_lagging, {}, "", "minLagSeconds=soon");
  EXPECT_EQ(answer_of(refused), "400 invalid query: minLagSeconds must be an integer");
}

// 9.1: what is no list of positions is refused with the code of the rule.
TEST(Positions, RefusesWhatIsNoRequest) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", "bad_body"},
      {"{", "bad_body"},
      {"[]", "bad_body"},
      {"{}", "bad_request"},
      {R"({"consumerGroup":""})", "bad_request"},
      {R"({"consumerGroup":7})", "bad_request"},
      {R"({"consumerGroup":"g","entries":{}})", "bad_request"},
      {R"({"consumerGroup":"g","entries":[7]})", "bad_request"},
      {R"({"consumerGroup":"g","entries":[{}]})", "bad_request"},
      {R"({"consumerGroup":"g","entries":[{"queue":""}]})", "bad_request"},
      {R"({"consumerGroup":"g","entries":[{"queue":null}]})", "bad_request"},
      {R"({"consumerGroup":"g","entries":[{"queue":"q","partition":1}]})", "bad_request"},
  };
  for (const auto& [body, code] : rows) {
    const auto parsed = parse_positions(body);
    ASSERT_FALSE(parsed) << body;
    EXPECT_EQ(parsed.error().code, code) << body;
  }
  std::string many = R"({"consumerGroup":"g","entries":[{"queue":"q"})";
  for (std::size_t i = 1; i < kPositionsMax; ++i) many += R"(,{"queue":"q"})";
  EXPECT_EQ(parse_positions(many + "]}")->entries->size(), kPositionsMax);
  EXPECT_EQ(parse_positions(many + R"(,{"queue":"q"}]})").error().code, "bad_request");
}

TEST(Positions, AnswersInOrderAndWithoutMetadataWhereThereIsNone) {
  Rig rig;
  broker::PositionAnswer known{"meters", "unit-7", 42, "at noon"};
  rig.broker.group_reads.standing = {known, {"meters", "Default", {}, {}}};
  const auto sent = call(
      rig, handle_positions, {},
      R"({"consumerGroup":"audit","entries":[{"queue":"meters","partition":"unit-7"},{"queue":"meters","partition":""}]})");
  EXPECT_TRUE(sent->responses.empty());
  rig.broker.barriers.back()({});
  EXPECT_EQ(rig.broker.group_reads.positions_asked.at(0).second->at(1).partition, "Default");
  EXPECT_EQ(answer_of(sent),
            R"(200 {"consumerGroup":"audit","entries":[{"queue":"meters","partition":"unit-7","offset":42,)"
            R"("metadata":"at noon"},{"queue":"meters","partition":"Default","offset":null}]})");
  call(rig, handle_positions, {}, R"({"consumerGroup":"audit","entries":null})");
  rig.broker.barriers.back()({});
  EXPECT_FALSE(rig.broker.group_reads.positions_asked.at(1).second);
}

TEST(Positions, AnswerARefusedBarrierAndADeadline) {
  Rig rig;
  const auto refused = call(rig, handle_positions, {}, R"({"consumerGroup":"audit"})");
  rig.broker.barriers.back()(tl::unexpected(broker::Refusal{"no_leader", "no leader is known"}));
  EXPECT_TRUE(answer_of(refused).starts_with("503 ")) << answer_of(refused);
  const auto late = call(rig, handle_positions, {}, R"({"consumerGroup":"audit"})");
  rig.timers.run_for(60'000'000);
  EXPECT_TRUE(answer_of(late).starts_with("503 ")) << answer_of(late);
}

}  // namespace
}  // namespace queen::api

// The management reads over a broker that answers what a test has put there: shapes, parameters, refusals.
#include "api/detail/resources.h"

#include <gtest/gtest.h>

#include "api/detail/messages.h"
#include "api/detail/queues.h"
#include "api/tests/fake_broker.h"

namespace queen::api {
namespace {

const Uuid kId = *Uuid::parse("01b7c0de-0001-7aaa-8bbb-000000000001");
constexpr std::int64_t kStamp = 1'932'876'428'000'123;  // 2031-04-02T00:00:28.000123Z

http::Request get(std::vector<std::string> params, std::string query = "") {
  http::Request request;
  request.params = std::move(params);
  request.query = std::move(query);
  return request;
}
std::string answer(Rig& rig, RouteHandler handler, std::vector<std::string> params, std::string query = "") {
  return answer_of(rig.call(handler, get(std::move(params), std::move(query))));
}

broker::PartitionView a_partition() {
  broker::PartitionView out;
  out.name = "unit-7";
  out.id = kId;
  out.created_at = out.last_write_at = kStamp;
  out.figures = {9, 4, 1, 2, 77};
  out.consumed = 5;
  out.newest_at = kStamp;
  return out;
}

TEST(QueueDetailRoute, HasTheDocumentedShape) {
  Rig rig;
  EXPECT_EQ(answer(rig, handle_queue, {"none"}), R"(404 {"error":"Queue not found"})");
  broker::QueueView view;
  view.row.uuid = kId;
  view.row.namespace_name = "acme";
  view.row.created_at = kStamp;
  view.partitions = {a_partition()};
  view.segments = 3;
  view.totals = {9, 4, 1, 2, 77};
  rig.broker.shown.queue_view = view;
  std::string text = answer(rig, handle_queue, {"meters"});
  EXPECT_EQ(rig.broker.shown.asked, "meters");
  EXPECT_TRUE(text.starts_with(
      R"(200 {"id":"01b7c0de-0001-7aaa-8bbb-000000000001","name":"meters","namespace":"acme","task":null,"createdAt":")"))
      << text;
  const std::string figures =
      R"({"total":9,"pending":4,"processing":1,"completed":3,"failed":null,"deadLetter":2})";
  const std::string stamp = '"' + iso_micros(kStamp) + '"';
  EXPECT_TRUE(text.ends_with(
      R"("partitions":[{"id":"01b7c0de-0001-7aaa-8bbb-000000000001","name":"unit-7","createdAt":)" + stamp +
      R"(,"messages":)" + figures + R"(,"stats":)" + figures +
      R"(,"cursor":{"totalConsumed":5,"batchesConsumed":0},"lastActivity":)" + stamp +
      R"(,"oldestMessage":null,"newestMessage":)" + stamp +
      R"(,"retainedBytes":77}],"segments":{"segments":3,"messages":9},"totals":)" + figures +
      R"(,"retainedBytes":77})"))
      << text;
  rig.broker.shown.queue_view->truncated = true;
  text = answer(rig, handle_queue, {"meters"});
  EXPECT_NE(text.find(R"(}],"partitionsTruncated":true,"segments")"), std::string::npos);
}

TEST(DepthRoute, WaitsForTheBarrierAndCountsPartitionsWhenConflating) {
  Rig rig;
  broker::DepthView view;
  view.partitions = {{"a", 5, 2}, {"b", 3, 3}, {"c", 0, 0}};
  rig.broker.shown.depth_view = view;
  const auto sent = rig.call(handle_depth, get({"q"}, "group=g"));
  EXPECT_TRUE(sent->responses.empty());
  rig.broker.barriers.front()({});
  EXPECT_EQ(
      answer_of(sent),
      R"(200 {"queue":"q","group":"g","pending":8,"processing":5,"ready":3,"partitionsPending":2,"partitionsReady":1,"conflation":false,"effectivePending":8,"effectiveReady":3,"partitions":[{"partition":"a","pending":5,"processing":2,"ready":3},{"partition":"b","pending":3,"processing":3,"ready":0},{"partition":"c","pending":0,"processing":0,"ready":0}]})");
  EXPECT_EQ(rig.broker.shown.asked, "q/g");
  rig.broker.shown.depth_view->conflation = true;
  const auto conflating = rig.call(handle_depth, get({"q"}, "group="));
  rig.broker.barriers.back()({});
  const std::string text = answer_of(conflating);
  EXPECT_EQ(rig.broker.shown.asked, "q/-");
  EXPECT_NE(text.find(R"("group":null)"), std::string::npos);
  EXPECT_NE(text.find(R"("conflation":true,"effectivePending":2,"effectiveReady":1)"), std::string::npos)
      << text;
}

TEST(DepthRoute, AnswersARefusedBarrierAnUnknownQueueAndADeadline) {
  Rig rig;
  const auto refused = rig.call(handle_depth, get({"q"}));
  rig.broker.barriers.back()(tl::unexpected(broker::Refusal{"no_leader", "no leader is known"}));
  EXPECT_TRUE(answer_of(refused).starts_with("503 ")) << answer_of(refused);
  const auto unknown = rig.call(handle_depth, get({"q"}));
  rig.broker.barriers.back()({});
  EXPECT_EQ(answer_of(unknown), R"(404 {"error":"Queue not found"})");
  rig.broker.shown.refused = true;
  const auto damaged = rig.call(handle_depth, get({"q"}));
  rig.broker.barriers.back()({});
  EXPECT_EQ(answer_of(damaged), R"(500 {"error":"damaged","code":"internal"})");
  EXPECT_TRUE(answer(rig, handle_depth, {"q"}, "group=%ff").starts_with("400 invalid query: group"));
  const auto late = rig.call(handle_depth, get({"q"}));
  rig.timers.run_for(60'000'000);
  EXPECT_TRUE(answer_of(late).starts_with("503 ")) << answer_of(late);
}

TEST(SizesRoute, NamesEveryPartition) {
  Rig rig;
  EXPECT_EQ(answer(rig, handle_sizes, {"q"}), R"(404 {"error":"Queue not found"})");
  rig.broker.shown.sizes_view = broker::SizesView{{{"unit-7", 20480}, {"a\"b", 0}}, false};
  EXPECT_EQ(answer(rig, handle_sizes, {"q"}), R"(200 {"queue":"q","partitions":{"unit-7":20480,"a\"b":0}})");
  rig.broker.shown.sizes_view->truncated = true;
  EXPECT_TRUE(answer(rig, handle_sizes, {"q"}).ends_with(R"(},"truncated":true})"));
}

TEST(PartitionsRoute, ClampsItsLimitAndShowsLag) {
  Rig rig;
  EXPECT_EQ(answer(rig, handle_partitions, {}, "queue=q"), R"(404 {"error":"Queue not found"})");
  EXPECT_EQ(rig.broker.shown.asked, "q 610");
  broker::BusyView view;
  view.now_us = kStamp;
  view.partitions = {{"q", "a", kId, 4, 1, kStamp - 7'900'000}, {"q", "b", kId, 0, 0, {}}};
  view.truncated = true;
  rig.broker.shown.busy_view = view;
  EXPECT_EQ(
      answer(rig, handle_partitions, {}, "queue=&limit=0"),
      R"(200 {"partitions":[{"queue":"q","partition":"a","id":"01b7c0de-0001-7aaa-8bbb-000000000001","pending":4,"processing":1,"lagSeconds":7},{"queue":"q","partition":"b","id":"01b7c0de-0001-7aaa-8bbb-000000000001","pending":0,"processing":0,"lagSeconds":null}],"truncated":true})");
  EXPECT_EQ(rig.broker.shown.asked, "- 1");
  answer(rig, handle_partitions, {}, "limit=9999");
  EXPECT_EQ(rig.broker.shown.asked, "- 5000");
  EXPECT_TRUE(answer(rig, handle_partitions, {}, "limit=x").starts_with("400 invalid query: limit"));
}

TEST(LabelRoutes, SumUpQueuesAndLeaveEmptyLabelsOut) {
  Rig rig;
  const auto queue = [](std::optional<std::string> label, std::optional<std::string> task,
                        std::int64_t total) {
    broker::QueueSummary out;
    out.row.namespace_name = std::move(label);
    out.row.task = std::move(task);
    out.partitions = 2;
    out.total = total;
    out.pending = 1;
    return out;
  };
  rig.broker.queues_answer.queues = {queue("b", "t", 5), queue("a", std::nullopt, 6), queue("b", "", 7)};
  EXPECT_EQ(
      answer(rig, handle_namespaces, {}),
      R"(200 {"namespaces":[{"namespace":"a","queues":1,"partitions":2,"messages":{"total":6,"pending":1}},{"namespace":"b","queues":2,"partitions":4,"messages":{"total":12,"pending":2}}]})");
  EXPECT_EQ(rig.broker.queues_detail, broker::QueueDetail::figures);
  EXPECT_EQ(answer(rig, handle_tasks, {}),
            R"(200 {"tasks":[{"task":"t","queues":1,"partitions":2,"messages":{"total":5,"pending":1}}]})");
}

TEST(OverviewRoute, HasTheDocumentedShape) {
  Rig rig;
  auto& view = rig.broker.shown.overview_view;
  view.queues = 2;
  view.partitions = 14;
  view.namespaces = view.tasks = 1;
  view.totals = {90, 7, 3, 1, 77};
  view.lagging = 2;
  view.time_us = {9'000'000, 8'500'000};
  view.offsets = {7, 5};
  view.now_us = kStamp;
  EXPECT_EQ(
      answer(rig, handle_overview, {}),
      R"(200 {"queues":2,"partitions":14,"namespaces":1,"tasks":1,"messages":{"total":90,"pending":4,"processing":3,"completed":82,"failed":0,"deadLetter":1},"lag":{"time":{"avg":4,"median":0,"min":0,"max":8},"offset":{"avg":3,"median":0,"min":0,"max":5}},"timestamp":")" +
          iso_micros(kStamp) + R"(","statsAge":0})");
  view.lagging = 0;
  view.time_us = view.offsets = {};
  EXPECT_NE(answer(rig, handle_overview, {}).find(R"("avg":0,"median":0,"min":0,"max":0)"),
            std::string::npos);
}

broker::MessageQuery browsed(Rig& rig, std::string query) {
  EXPECT_TRUE(answer(rig, handle_messages, {}, std::move(query)).starts_with("200 "));
  return *rig.broker.shown.browsed;
}

TEST(MessagesRoute, HasItsDefaultsAndClamps) {
  Rig rig;
  rig.clock.jump_wall(*parse_iso_micros_strict("2031-04-05T06:07:08.000123Z") - rig.clock.wall_us());
  const auto query = browsed(rig, "queue=&status=&from=");
  EXPECT_FALSE(query.queue || query.partition || query.namespace_name || query.task || query.status);
  EXPECT_EQ(iso_micros(query.from_us), "2031-04-05T05:07:08.000123Z");
  EXPECT_EQ(iso_micros(query.to_us), "2031-04-05T06:08:00.000000Z");
  EXPECT_EQ(query.limit, 200U);
  EXPECT_EQ(query.offset, 0U);
  EXPECT_EQ(browsed(rig, "limit=0").limit, 1U);
  EXPECT_EQ(browsed(rig, "limit=5000&offset=-3").limit, 1000U);
  const auto full = browsed(rig,
                            "queue=q&partition=p&namespace=n&task=t&status=dead_letter&from=2031-04-05T06:04:"
                            "00.123456Z&to=2031-04-05T06:04:00Z&offset=9");
  EXPECT_EQ(*full.queue + *full.partition + *full.namespace_name + *full.task, "qpnt");
  EXPECT_EQ(full.status, broker::MessageStatus::dead_letter);
  EXPECT_EQ(iso_micros(full.from_us), "2031-04-05T06:04:00.123000Z");
  EXPECT_EQ(iso_micros(full.to_us), "2031-04-05T06:05:00.000000Z");
  EXPECT_EQ(full.offset, 9U);
  EXPECT_EQ(iso_micros(browsed(rig, "to=2031-04-05T06:04:59.999Z").to_us), "2031-04-05T06:05:00.000000Z");
}

TEST(MessagesRoute, RefusesWhatItCannotRead) {
  Rig rig;
  for (const char* query : {"limit=x", "offset=1.5", "from=soon", "to=yesterday", "status=done", "from=5"})
    EXPECT_TRUE(answer(rig, handle_messages, {}, query).starts_with("400 invalid query: ")) << query;
  EXPECT_EQ(answer(rig, handle_messages, {}, "offset=1000001"),
            R"(400 {"error":"offset must be at most 1000000","code":"bad_request"})");
  EXPECT_FALSE(rig.broker.shown.browsed);
  rig.broker.shown.refused = true;
  EXPECT_TRUE(answer(rig, handle_messages, {}).starts_with("500 "));
}

broker::MessageView a_message() {
  auto facts = std::make_shared<broker::QueueFacts>();
  facts->name = "meters";
  facts->row.namespace_name = "acme";
  facts->row.task = "read";
  broker::MessageView out;
  out.queue = std::move(facts);
  out.partition = "unit-7";
  out.partition_id = kId;
  out.offset = 41;
  out.append_base = 40;
  out.created_at = kStamp;
  out.id = kId;
  out.transaction_id = "read-7-0412";
  out.payload_available = true;
  out.payload = R"({"kwh":12.50})";
  out.queue_status = broker::MessageStatus::pending;
  out.groups = 1;
  return out;
}

TEST(MessagesRoute, RowsHaveTheDocumentedShapeAndExactPayloads) {
  Rig rig;
  rig.broker.shown.messages_view = {{a_message()}, {true, 1}};
  const std::string id = R"("01b7c0de-0001-7aaa-8bbb-000000000001")";
  const std::string millis = iso_micros(kStamp).substr(0, 23) + "Z";
  EXPECT_EQ(
      answer(rig, handle_messages, {}),
      R"(200 {"messages":[{"id":)" + id + R"(,"transactionId":"read-7-0412","txnHash":")" +
          hex_lower(xxh3_128("read-7-0412").view()) +
          R"(","data":{"kwh":12.50},"payload":{"kwh":12.50},"traceId":null,"producerSub":null,"createdAt":")" +
          millis + R"(","offset":41,"queue":"meters","partition":"unit-7","partitionId":)" + id +
          R"(,"status":"pending","queueStatus":"pending","busStatus":{"consumedBy":0,"totalGroups":1},)"
          R"("queuePath":"meters/unit-7","namespace":"acme","task":"read","queuePriority":0,)"
          R"("payloadAvailable":true,"leaseExpiresAt":null,"segment":{"seq":40,"frameIdx":1},"isEncrypted":false}],)"
          R"("total":1,"pagination":{"limit":200,"offset":0},"mode":{"hasQueueMode":true,"busGroupsCount":1,"type":"hybrid"}})");
}

TEST(MessagesRoute, SaysWhatItDoesNotHave) {
  Rig rig;
  auto damaged = a_message();
  damaged.id.reset();
  damaged.payload_available = false;
  damaged.queue_status.reset();
  auto empty = a_message();
  empty.null_payload = true;
  empty.payload.clear();
  empty.status = broker::MessageStatus::processing;
  empty.lease_expires_at = kStamp;
  rig.broker.shown.messages_view = {{damaged, empty}, {false, 0}};
  const std::string text = answer(rig, handle_messages, {});
  EXPECT_NE(text.find(R"([{"id":null,"transactionId":null,"txnHash":null,"data":null,"payload":null,)"),
            std::string::npos);
  EXPECT_NE(text.find(R"("queueStatus":null)"), std::string::npos);
  EXPECT_NE(text.find(R"("payloadAvailable":false)"), std::string::npos);
  EXPECT_NE(text.find(R"("payloadAvailable":true,"leaseExpiresAt":"2031-)"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(R"("mode":{"hasQueueMode":false,"busGroupsCount":0,"type":"none"}})"));
  rig.broker.shown.messages_view.mode = {false, 2};
  EXPECT_TRUE(answer(rig, handle_messages, {}).ends_with(R"("busGroupsCount":2,"type":"bus"}})"));
  rig.broker.shown.messages_view.mode = {true, 0};
  EXPECT_TRUE(answer(rig, handle_messages, {}).ends_with(R"("busGroupsCount":0,"type":"queue"}})"));
}

TEST(MessageRoute, HasTheDocumentedShape) {
  Rig rig;
  EXPECT_EQ(answer(rig, handle_message, {"318", "read-7-0412"}), R"(404 {"error":"Message not found"})");
  EXPECT_EQ(rig.broker.shown.asked, "318 read-7-0412");
  broker::MessageDetail detail;
  detail.message = a_message();
  detail.message.status = broker::MessageStatus::dead_letter;
  detail.error = "bad \"kwh\"";
  detail.retry_count = 3;
  detail.groups = {{"billing", 40, false, kStamp}, {"audit", 41, true, {}}};
  detail.mode = {false, 2};
  rig.broker.shown.message_view = detail;
  const std::string text = answer(rig, handle_message, {"318", "read-7-0412"});
  const std::string id = R"("01b7c0de-0001-7aaa-8bbb-000000000001")";
  const std::string stamp = '"' + iso_micros(kStamp) + '"';
  EXPECT_TRUE(text.starts_with(
      R"(200 {"id":)" + id +
      R"(,"transactionId":"read-7-0412","data":{"kwh":12.50},"payload":{"kwh":12.50},"traceId":null,"producerSub":null,"createdAt":)" +
      stamp + R"(,"partitionId":)" + id +
      R"(,"partition":"unit-7","queue":"meters","queuePath":"meters/unit-7","namespace":"acme","task":"read","status":"dead_letter","errorMessage":"bad \"kwh\"","retryCount":3,"isEncrypted":false,"queueConfig":{"priority":0,"leaseTime":60,)"))
      << text;
  EXPECT_TRUE(text.ends_with(
      R"(},"mode":{"hasQueueMode":false,"busGroupsCount":2,"type":"bus"},"consumerGroups":[{"name":"billing","committed":40,"consumed":false,"leaseExpiresAt":)" +
      stamp + R"(},{"name":"audit","committed":41,"consumed":true,"leaseExpiresAt":null}]})"))
      << text;
  rig.broker.shown.refused = true;
  EXPECT_TRUE(answer(rig, handle_message, {"318", "x"}).starts_with("500 "));
}

}  // namespace
}  // namespace queen::api

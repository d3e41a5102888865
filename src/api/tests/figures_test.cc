// Ranges, buckets and shapes of the figures (operations.md 6).
#include "api/detail/figures.h"

#include <gtest/gtest.h>

#include "api/tests/fake_broker.h"

namespace queen::api {
namespace {

using broker::Op;

constexpr std::int64_t kMinute = 60'000'000;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kNow = 1'700'000'000'000'000;  // 2023-11-14T22:13:20Z, where the rig's clock stands
const std::string kTenant{kDefaultTenant};

std::string answer(Rig& rig, RouteHandler handler, std::string query = "",
                   std::vector<std::string> params = {}) {
  http::Request request;
  request.query = std::move(query);
  request.params = std::move(params);
  return answer_of(rig.call(handler, std::move(request)));
}
bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

broker::QueueStanding standing_of(const std::string& name, std::int64_t created_at = 0) {
  broker::QueueStanding out;
  out.name = name;
  out.row.created_at = created_at;
  out.row.namespace_name = "acme";
  out.partitions = 2;
  out.figures = {10, 4, 3, 1, 0};
  out.consumed = 6;
  out.leases = 2;
  out.leased_partitions = 1;
  out.leased_messages = 3;
  return out;
}
broker::QueueOpsRow queue_row(std::int64_t from, const std::string& queue, std::uint64_t pushed,
                              std::uint64_t popped) {
  broker::QueueOpsRow row{from, kTenant, queue, {}, 1};
  row.ops[Op::push_requests] = 1;
  row.ops[Op::push_messages] = pushed;
  row.ops[Op::pop_messages] = popped;
  row.ops[Op::ack_success] = popped;
  if (popped > 0) row.ops.lag = {popped, popped * 2'000, 3'500};
  return row;
}
broker::NodeRow node_row(std::int64_t from, std::uint64_t pushed) {
  broker::NodeRow row;
  row.from_us = from;
  row.until_us = from + kMinute;
  row.ops[Op::push_requests] = 2;
  row.ops[Op::push_messages] = pushed;
  row.ops[Op::ack_success] = 3;
  row.ops[Op::ack_failed] = 1;
  row.ops[Op::ack_requests] = 2;
  row.ops[Op::errors] = 5;
  row.loop = {10, 20'000, 4'000};
  row.gauges.look({150, 50, 3 << 20, 9 << 20, 1, 0, 0, 77, 2, 4});
  return row;
}
// Queues that are there, as GET queue-ops asks for them.
void have(Rig& rig, const std::string& name, std::int64_t created_at = 0) {
  broker::QueueSummary queue;
  queue.name = name;
  queue.row.created_at = created_at;
  rig.broker.queues_answer.queues.push_back(queue);
  rig.broker.shown.standing_view.queues.push_back(standing_of(name, created_at));
}

TEST(FigureRanges, ChooseTheWidthByTheirMinutes) {
  const std::pair<double, std::int64_t> cases[] = {{0, 1},        {60, 1},    {61, 5},    {360, 5},
                                                   {361, 15},     {1440, 15}, {1441, 60}, {10'080, 60},
                                                   {10'081, 360}, {-5, 1}};
  for (const auto& [minutes, width] : cases) {
    const auto span = static_cast<std::int64_t>(minutes) * kMinute;
    EXPECT_EQ(bucket_minutes(kNow, kNow + span, Span::whole_minutes), width) << minutes;
    EXPECT_EQ(bucket_minutes(kNow, kNow + span, Span::exact), width) << minutes;
  }
}

TEST(FigureRanges, RoundTheirSpanToWholeMinutesUnlessExact) {
  const std::int64_t a_bit_more = kNow + kHour + 20'000'000;
  EXPECT_EQ(bucket_minutes(kNow, a_bit_more, Span::whole_minutes), 1);
  EXPECT_EQ(bucket_minutes(kNow, a_bit_more, Span::exact), 5);
}

TEST(FigureRanges, FloorTheMinuteInsideItsHour) {
  constexpr std::int64_t kTen = 472'210 * kHour;  // a whole hour
  const auto start = [](std::int64_t width, std::int64_t us) {
    return FigureRange{0, 0, width}.bucket_of(us);
  };
  EXPECT_EQ(start(1, kTen + 13 * kMinute + 59'999'999), kTen + 13 * kMinute);
  EXPECT_EQ(start(5, kTen + 13 * kMinute), kTen + 10 * kMinute);
  EXPECT_EQ(start(15, kTen + 59 * kMinute), kTen + 45 * kMinute);
  EXPECT_EQ(start(60, kTen + 59 * kMinute), kTen);
  EXPECT_EQ(start(360, kTen + 59 * kMinute), kTen);  // by the hour
  EXPECT_EQ(start(360, kTen + kHour), kTen + kHour);
}

TEST(FigureRanges, AreTheLastHourAndBothEndsCount) {
  Rig rig;
  have(rig, "orders");
  const std::int64_t first = broker::minute_of(kNow - kHour) + kMinute;
  rig.broker.figures.queues = {queue_row(first, "orders", 1, 0),
                               queue_row(kNow - 2 * kHour, "orders", 100, 0)};
  const std::string all = answer(rig, handle_queue_ops);
  EXPECT_TRUE(has(
      all,
      R"("timeRange":{"from":"2023-11-14T21:13:20.000Z","to":"2023-11-14T22:13:20.000Z"},"bucketMinutes":1)"))
      << all;
  EXPECT_TRUE(has(all, R"("pushMessages":1,)"));
  EXPECT_FALSE(has(all, R"("pushMessages":100)"));
  const std::string exact =
      answer(rig, handle_queue_ops, "from=2023-11-14T21:14:00Z&to=2023-11-14T21:14:00Z");
  EXPECT_TRUE(has(exact, R"("pushMessages":1,)")) << exact;
}

TEST(FigureRanges, AnswerWhatDoesNotParseWith500AndEmptyIsAbsent) {
  const RouteHandler handlers[] = {handle_status,    handle_system_metrics, handle_worker_metrics,
                                   handle_queue_ops, handle_queue_lag,      handle_parked_replicas};
  for (const RouteHandler handler : handlers) {
    Rig rig;
    EXPECT_TRUE(answer(rig, handler, "from=yesterday").starts_with(R"(500 {"error":)"));
    EXPECT_TRUE(answer(rig, handler, "to=17").starts_with(R"(500 {"error":)"));
    EXPECT_TRUE(answer(rig, handler, "from=&to=&queue=&hostname=&workerId=").starts_with("200 "));
  }
  Rig rig;
  EXPECT_TRUE(answer(rig, handle_worker_metrics, "workerId=one").starts_with(R"(500 {"error":)"));
  EXPECT_TRUE(answer(rig, handle_worker_metrics, "workerId=0").starts_with("200 "));
}

TEST(QueueOps, HasTheDocumentedShape) {
  Rig rig;
  have(rig, "orders");
  rig.broker.figures.queues = {queue_row(kNow, "orders", 120, 30)};
  EXPECT_EQ(
      answer(rig, handle_queue_ops),
      R"(200 {"timeRange":{"from":"2023-11-14T21:13:20.000Z","to":"2023-11-14T22:13:20.000Z"},"bucketMinutes":1,"series":[{"bucket":"2023-11-14T22:13:00Z","queueName":"orders","pushRequests":1,"pushMessages":120,"popMessages":30,"popEmpty":0,"ackRequests":0,"ackSuccess":30,"ackFailed":0,"transactions":0,"partitionsCreated":0,"partitionsDeleted":0,"partitionCount":null,"avgLagMs":2,"maxLagMs":3.5,"pushPerSecond":2,"popPerSecond":0.5,"ackPerSecond":0.5,"emptyPerSecond":0,"parkedCount":1}],"queues":["orders"]})");
}

TEST(QueueOps, MergesTheMinutesOfABucketAndDividesByItsWidth) {
  Rig rig;
  have(rig, "orders");
  // Two minutes of one bucket of five, and a restart in the middle of one of them.
  const std::int64_t bucket = 472'222 * kHour;
  rig.broker.figures.queues = {queue_row(bucket, "orders", 100, 0), queue_row(bucket, "orders", 50, 0),
                               queue_row(bucket + kMinute, "orders", 150, 0)};
  const std::string text = answer(rig, handle_queue_ops, "from=2023-11-14T20:00:00Z&to=2023-11-14T23:00:00Z");
  EXPECT_TRUE(has(
      text,
      R"("bucketMinutes":5,"series":[{"bucket":"2023-11-14T22:00:00Z","queueName":"orders","pushRequests":3,"pushMessages":300)"))
      << text;
  EXPECT_TRUE(has(text, R"("avgLagMs":null,"maxLagMs":null,"pushPerSecond":1,)"));
}

TEST(QueueOps, LeavesOutQueuesThatAreGoneAndRowsFromBeforeTheirCreation) {
  Rig rig;
  have(rig, "made again", kNow - kMinute);
  rig.broker.figures.queues = {queue_row(kNow - 10 * kMinute, "made again", 100, 0),
                               queue_row(kNow, "made again", 7, 0), queue_row(kNow, "gone", 100, 0)};
  const std::string text = answer(rig, handle_queue_ops);
  EXPECT_TRUE(has(text, R"("pushMessages":7,)"));
  EXPECT_FALSE(has(text, R"("pushMessages":100,)"));
  EXPECT_TRUE(text.ends_with(R"("queues":["made again"]})")) << text;
}

TEST(QueueOps, ShowsOneQueueWhenItIsNamed) {
  Rig rig;
  have(rig, "a");
  have(rig, "b");
  rig.broker.figures.queues = {queue_row(kNow, "b", 1, 0), queue_row(kNow, "a", 2, 0)};
  EXPECT_TRUE(answer(rig, handle_queue_ops).ends_with(R"("queues":["a","b"]})"));
  EXPECT_TRUE(answer(rig, handle_queue_ops, "queue=b").ends_with(R"("queues":["b"]})"));
  EXPECT_TRUE(answer(rig, handle_queue_ops, "queue=c").ends_with(R"("series":[],"queues":[]})"));
}

TEST(QueueLag, IsABareArrayOfTheNewestBucketFirst) {
  Rig rig;
  have(rig, "a");
  have(rig, "b");
  rig.broker.figures.queues = {queue_row(kNow - kMinute, "a", 1, 4), queue_row(kNow, "b", 1, 0),
                               queue_row(kNow, "a", 1, 2)};
  EXPECT_EQ(
      answer(rig, handle_queue_lag),
      R"(200 [{"queueName":"a","popCount":2,"avgLagMs":2,"maxLagMs":3.5,"bucketMinutes":1,"bucketTime":"2023-11-14T22:13:00Z"},{"queueName":"b","popCount":0,"avgLagMs":null,"maxLagMs":null,"bucketMinutes":1,"bucketTime":"2023-11-14T22:13:00Z"},{"queueName":"a","popCount":4,"avgLagMs":2,"maxLagMs":3.5,"bucketMinutes":1,"bucketTime":"2023-11-14T22:12:00Z"}])");
}

TEST(ParkedReplicas, NamesTheNode) {
  Rig rig;
  rig.context->settings.node_name = "node-a";
  have(rig, "orders");
  rig.broker.figures.queues = {queue_row(kNow, "orders", 1, 0)};
  EXPECT_TRUE(
      answer(rig, handle_parked_replicas)
          .ends_with(
              R"("series":[{"bucket":"2023-11-14T22:13:00Z","queueName":"orders","hostname":"node-a","workerId":0,"parkedCount":1}],"replicas":[{"hostname":"node-a","workerId":0}]})"));
}

TEST(StatusRoute, HasTheDocumentedShape) {
  Rig rig;
  rig.context->settings.node_name = "node-a";
  have(rig, "orders");
  rig.broker.shown.standing_view.queues[0].row.uuid = *Uuid::parse("01b7c0de-0001-7aaa-8bbb-000000000001");
  rig.broker.shown.standing_view.errors = {{"boom", 3}, {"", 1}};
  rig.broker.shown.standing_view.dead_partitions = 1;
  rig.broker.figures.nodes = {node_row(kNow, 120)};
  rig.broker.figures.written_until = kNow - 7'900'000;
  EXPECT_EQ(
      answer(rig, handle_status),
      R"(200 {"timeRange":{"from":"2023-11-14T21:13:20.000Z","to":"2023-11-14T22:13:20.000Z"},"bucketMinutes":1,"pointCount":1,"throughput":[{"timestamp":"2023-11-14T22:13:00Z","ingested":120,"processed":4,"popMessages":0,"ingestedPerSecond":2,"processedPerSecond":0.07,"popPerSecond":0,"avgLagMs":0,"maxLagMs":0,"avgEventLoopLagMs":2,"maxEventLoopLagMs":4,"minFreeSlots":null,"dbErrors":5,"ackFailed":1,"dlqCount":0,"queenCpuUserPct":1.5,"queenCpuSysPct":0.5,"queenRssMb":3,"dbPoolActive":null,"dbPoolIdle":null,"dbPoolSize":null}],"queues":[{"id":"01b7c0de-0001-7aaa-8bbb-000000000001","name":"orders","namespace":"acme","task":null,"partitions":2,"totalConsumed":6}],"messages":{"total":10,"pending":4,"processing":3,"completed":5,"failed":0,"deadLetter":1,"requests":{"push":2,"pop":0,"ack":2},"batchEfficiency":{"push":60,"pop":0,"ack":2}},"leases":{"active":2,"partitionsWithLeases":1,"totalBatchSize":3,"totalAcked":0},"deadLetterQueue":{"totalMessages":1,"currentMessages":1,"affectedPartitions":1,"topErrors":[{"error":"boom","count":3},{"error":"unknown","count":1}]},"workers":[{"hostname":"node-a","workerId":0,"avgEventLoopLagMs":2,"maxEventLoopLagMs":4,"freeSlots":null,"dbConnections":null,"jobQueueSize":null,"messagesProcessed":124}],"errors":{"dbErrors":5,"ackFailed":1,"dlqMessages":0},"statsAge":7,"engine":"raft"})");
}

TEST(StatusRoute, ShowsTheNewestBucketFirstAndNoAgeBeforeTheFirstRow) {
  Rig rig;
  rig.broker.figures.nodes = {node_row(kNow - kMinute, 1), node_row(kNow, 2)};
  const std::string text = answer(rig, handle_status);
  EXPECT_LT(text.find("22:13:00Z"), text.find("22:12:00Z"));
  EXPECT_TRUE(has(text, R"("statsAge":-1)"));
}

// With a filter only those queues count; what the node tells is attached where it has a row.
TEST(StatusRoute, CountsTheQueuesOfAFilterAlone) {
  Rig rig;
  have(rig, "orders");
  have(rig, "bills");
  rig.broker.figures.nodes = {node_row(kNow, 1000)};
  rig.broker.figures.queues = {queue_row(kNow, "orders", 60, 6), queue_row(kNow, "bills", 500, 50),
                               queue_row(kNow - 5 * kMinute, "orders", 1, 0)};
  for (const char* filter : {"queue=orders", "queue=orders&namespace=acme"}) {
    const std::string text = answer(rig, handle_status, filter);
    EXPECT_TRUE(has(text, R"("pointCount":2)")) << text;
    EXPECT_TRUE(has(text, R"("ingested":60,"processed":6,"popMessages":6)"));
    EXPECT_TRUE(
        has(text,
            R"("avgEventLoopLagMs":2,"maxEventLoopLagMs":4,"minFreeSlots":null,"dbErrors":5,"ackFailed":0)"));
    EXPECT_TRUE(has(
        text,
        R"("avgEventLoopLagMs":null,"maxEventLoopLagMs":null,"minFreeSlots":null,"dbErrors":null,"ackFailed":0,"dlqCount":0,"queenCpuUserPct":null,"queenCpuSysPct":null,"queenRssMb":null)"));
    EXPECT_FALSE(has(text, R"("name":"bills")"));
  }
  EXPECT_TRUE(has(answer(rig, handle_status, "task=none"), R"("throughput":[],"queues":[])"));
}

TEST(StatusRoute, LeavesOutQueuesThatHoldNothing) {
  Rig rig;
  have(rig, "empty");
  rig.broker.shown.standing_view.queues[0].figures = {};
  EXPECT_TRUE(has(answer(rig, handle_status), R"("queues":[],)"));
}

TEST(StatusBelow, HasTheDocumentedShapes) {
  Rig rig;
  have(rig, "orders");
  rig.broker.figures.now.inflight = 3;
  EXPECT_EQ(answer(rig, handle_status_buffers),
            R"(200 {"pending":3,"failed":0,"worker":0,"engine":"raft","spool":false})");
  EXPECT_EQ(answer(rig, handle_stats_refresh), R"(200 {"success":true,"refreshed":false,"engine":"raft"})");
  EXPECT_EQ(
      answer(rig, handle_status_analytics),
      R"(200 {"dataPoints":[{"timestamp":"2023-11-14T22:13:20Z","messages":10}],"interval":"hour","from":"2023-11-13T22:13:20Z","to":"2023-11-14T22:13:20Z"})");
  const std::string queues = answer(rig, handle_status_queues);
  EXPECT_TRUE(has(queues, R"("name":"orders")"));
  EXPECT_EQ(rig.broker.queues_detail, broker::QueueDetail::figures);
  EXPECT_FALSE(has(queues, "kvRows"));
  EXPECT_EQ(answer(rig, handle_status_queue, "", {"none"}), R"(404 {"error":"Queue not found"})");
  broker::QueueView view;
  view.row.priority = 4;
  view.totals = {9, 4, 1, 2, 77};
  rig.broker.shown.queue_view = view;
  const std::string queue = answer(rig, handle_status_queue, "", {"orders"});
  EXPECT_TRUE(has(queue, R"("priority":4,"createdAt":"1970-01-01T00:00:00.000000Z","config":{)")) << queue;
  EXPECT_TRUE(queue.ends_with(
      R"("partitions":[],"totals":{"messages":{"total":9,"pending":4,"processing":1,"completed":3,"failed":null,"deadLetter":2}}})"))
      << queue;
}

TEST(SystemMetrics, WeighsItsAveragesBySamples) {
  Rig rig;
  rig.context->settings.node_name = "node-a";
  rig.context->settings.port = 6632;
  auto first = node_row(kNow, 0), second = node_row(kNow + 1, 0);
  second.gauges = {};
  for (int i = 0; i < 3; ++i) second.gauges.look({350, 50, 7 << 20, 9 << 20, 1, 0, 0, 77, 2, 4});
  rig.broker.figures.nodes = {second, first};
  const std::string text =
      answer(rig, handle_system_metrics, "from=2023-11-14T21:20:00Z&to=2023-11-14T22:14:00Z");
  EXPECT_TRUE(has(
      text,
      R"("replicaCount":1,"replicas":[{"hostname":"node-a","port":6632,"workerId":"worker-0","timeSeries":[{"timestamp":"2023-11-14T22:13:00.000Z","sampleCount":4,"metrics":{"cpu":{"user_us":{"avg":300,"min":150,"max":350,"last":350})"))
      << text;
  EXPECT_TRUE(has(text, R"("database":{"pool_size":null)"));
  EXPECT_TRUE(has(text, R"("raft":{"inflight":{"avg":0,"min":0,"max":0,"last":0})"));
  EXPECT_TRUE(text.ends_with(R"("bucketMinutes":1,"pointCount":1})"));
  EXPECT_TRUE(
      has(answer(rig, handle_system_metrics, "hostname=node-b"), R"("replicaCount":0,"replicas":[])"));
  EXPECT_TRUE(has(answer(rig, handle_system_metrics, "workerId=worker-1"), R"("replicas":[])"));
}

TEST(WorkerMetrics, SumsUpWhatTheNodeCounted) {
  Rig rig;
  rig.context->settings.node_name = "node-a";
  have(rig, "few");
  have(rig, "many");
  rig.broker.figures.nodes = {node_row(kNow - kMinute, 60), node_row(kNow, 120)};
  rig.broker.figures.queues = {queue_row(kNow, "few", 1, 1), queue_row(kNow, "many", 1, 5),
                               queue_row(kNow, "none", 1, 9)};
  const std::string text = answer(rig, handle_worker_metrics);
  EXPECT_TRUE(has(
      text,
      R"("pointCount":2,"timeSeries":[{"timestamp":"2023-11-14T22:13:00Z","pushMessages":120,"popMessages":0,"ackMessages":4,"pushRequests":2,"popRequests":0,"ackRequests":2,"jobsDone":2,"pushPerSecond":2,)"))
      << text;
  EXPECT_TRUE(has(
      text,
      R"("avgFreeSlots":null,"minFreeSlots":null,"dbConnections":null,"avgJobQueueSize":null,"maxJobQueueSize":null,"backoffSize":null})"));
  EXPECT_TRUE(has(text, R"("messagesProcessed":188,"lastSeen":"2023-11-14T22:14:20Z"}])")) << text;
  EXPECT_TRUE(has(
      text,
      R"("queues":[{"queueName":"many","popCount":5,"avgLagMs":2,"maxLagMs":3.5},{"queueName":"few","popCount":1,)"));
  EXPECT_TRUE(text.ends_with(
      R"("summary":{"totalPushMessages":180,"totalPopMessages":0,"totalAckMessages":8,"totalPushRequests":4,"totalPopRequests":0,"totalAckRequests":4,"totalDbErrors":10,"totalAckFailed":2,"totalDlq":0,"pendingMessages":8}})"))
      << text;
  EXPECT_TRUE(has(answer(rig, handle_worker_metrics, "workerId=1"),
                  R"("pointCount":0,"timeSeries":[],"workers":[],"queues":[])"));
}

TEST(ErrorSignature, FoldsWhatDiffersFromLetterToLetter) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "(no message)"},
      {" \t\n ", "(no message)"},
      {"job 42 died at 2026-01-02T03:04:05Z", "job <n> died at <date>"},
      {"on 2026-01-02, 2026-01-02T03:04:05.123 and 2026-01-02x", "on <date>, <date> and <n>-<n>-02x"},
      {"order 01b7c0de-0001-7aaa-8bbb-000000000001 is gone", "order <id> is gone"},
      {"key 0123456789abcdefABCD, 0123456789abcdefABC", "key <id>, 0123456789abcdefABC"},
      {"v2 took 3.5 s,  really\n42", "v2 took <n>.<n> s, really <n>"},
      {"a42 42a _42 42", "a42 42a _42 <n>"},
  };
  for (const auto& [error, folded] : cases) EXPECT_EQ(error_signature(error), folded) << error;
  std::string long_text;
  for (int i = 0; i < 200; ++i) long_text += "é";
  EXPECT_EQ(error_signature(long_text), long_text.substr(0, 240));  // 120 characters of two bytes
}

TEST(DeadLetterSignatures, SumUpTheNewestLetters) {
  broker::DeadLetterPage page;
  page.total = 9;
  for (int i = 0; i < 4; ++i) {
    broker::DeadLetter letter;
    letter.row.group = i == 0 ? "a" : "b";
    letter.row.error = i == 3 ? "odd" : "job " + std::to_string(i) + " failed";
    letter.row.retry_count = 3;
    letter.row.failed_at = kNow - i * kMinute;
    letter.row.payload = Bytes(static_cast<std::size_t>(10 * (i + 1)), 'x');
    page.letters.push_back(letter);
  }
  EXPECT_EQ(
      render_signatures("orders", page),
      R"({"queue":"orders","rowsNow":9,"sample":4,"retryCounts":[{"retryCount":3,"n":4}],"groups":[{"group":"a","n":1},{"group":"b","n":3}],"oldest":"2023-11-14T22:10:20Z","newest":"2023-11-14T22:13:20Z","avgBytes":25,"signatures":[{"text":"job <n> failed","n":3,"share":0.75},{"text":"odd","n":1,"share":0.25}],"byDay":[{"day":"2023-11-14","n":4}]})");
  EXPECT_EQ(
      render_signatures("none", {}),
      R"({"queue":"none","rowsNow":0,"sample":0,"retryCounts":[],"groups":[],"oldest":null,"newest":null,"avgBytes":0,"signatures":[],"byDay":[]})");
  Rig rig;
  EXPECT_EQ(answer(rig, handle_dlq_signatures), R"(400 {"error":"queue required"})");
  EXPECT_EQ(answer(rig, handle_dlq_signatures, "queue="), R"(400 {"error":"queue required"})");
  EXPECT_TRUE(answer(rig, handle_dlq_signatures, "queue=q&limit=x").starts_with("400 invalid query"));
}

}  // namespace
}  // namespace queen::api

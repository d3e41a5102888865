// Fetch, changed and the list of queues: refusals, shapes, and the long poll of a fetch.
#include <gtest/gtest.h>

#include "api/detail/changed.h"
#include "api/detail/fetch.h"
#include "api/detail/offsets.h"
#include "api/detail/queues.h"
#include "api/tests/fake_broker.h"
#include "base/text.h"

namespace queen::api {
namespace {

std::string many_entries(std::size_t count, const std::string& entry) {
  std::string body = R"({"entries":[)";
  for (std::size_t i = 0; i < count; ++i) body += (i == 0 ? "" : ",") + entry;
  return body + "]}";
}

TEST(FetchParse, RefusesByItsTable) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "the body must be an object"},
      {R"({"entries":{}})", "entries must be an array"},
      {R"({"entries":[1]})", "an entry must be an object"},
      {R"({"entries":[{"offset":0}]})", "queue must be a string"},
      {R"({"entries":[{"queue":7,"offset":0}]})", "queue must be a string"},
      {R"({"entries":[{"queue":"q","offset":0,"partition":true}]})",
       "partition must be a string or a number"},
      {R"({"entries":[{"queue":"q"}]})", "offset must be an integer"},
      {R"({"entries":[{"queue":"q","offset":1.5}]})", "offset must be an integer"},
      {R"({"entries":[{"queue":"q","offset":-1}]})", "offset must be non-negative"},
      {R"({"entries":[{"queue":"q","offset":0,"maxBytes":"1"}]})", "maxBytes must be an integer"},
      {R"({"entries":[],"maxWaitMs":"1"})", "maxWaitMs must be an integer"},
      {R"({"entries":[],"minBytes":"1"})", "minBytes must be an integer"},
      {many_entries(1025, R"({"queue":"q","offset":0})"), "too many entries"}};
  for (const auto& [body, text] : cases) {
    const auto parsed = parse_fetch(body);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().error, text);
    EXPECT_EQ(refusal_response(parsed.error()).status, 400);
  }
  EXPECT_TRUE(parse_fetch(many_entries(1024, R"({"queue":"q","offset":0})")));
}

TEST(FetchParse, FillsDefaultsAndClamps) {
  const auto parsed = parse_fetch(
      R"({"entries":[{"queue":"q","offset":7},{"queue":"q","partition":42.0,"offset":0,"maxBytes":0},
          {"queue":"q","partition":null,"offset":0,"maxBytes":99999999}],"maxWaitMs":99999,"minBytes":-5})");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->wait_ms, 30'000);
  EXPECT_EQ(parsed->bytes_min, 0);
  EXPECT_EQ(parsed->entries[0].partition, "Default");
  EXPECT_EQ(parsed->entries[0].offset, 7U);
  EXPECT_EQ(parsed->entries[0].bytes_max, 1'048'576U);
  EXPECT_EQ(parsed->entries[1].partition, "42.0");
  EXPECT_EQ(parsed->entries[1].bytes_max, 1U);
  EXPECT_EQ(parsed->entries[2].bytes_max, 8'388'608U);
}

broker::FetchEntryAnswer one_record() {
  broker::FetchEntryAnswer answer;
  broker::Message message;
  message.offset = 40;
  message.ts_us = *parse_iso_micros_strict("2031-04-05T06:07:07.900001Z");
  message.transaction_id = "read-7-0411";
  message.payload = R"({"kwh": 12.50})";
  answer.messages.messages.push_back(message);
  answer.high_watermark = 42;
  return answer;
}

TEST(FetchRoute, AnswersRecordsWithTheirOwnText) {
  Rig rig;
  rig.broker.fetch_answer = one_record();
  EXPECT_EQ(
      answer_of(
          rig.post(handle_fetch, R"({"entries":[{"queue":"meters","partition":"unit-7","offset":40}]})")),
      R"(200 {"entries":[{"queue":"meters","partition":"unit-7","records":[{"offset":40,"transactionId":"read-7-0411","payload":{"kwh": 12.50},"ts":"2031-04-05T06:07:07.900001Z"}],"highWatermark":42,"logStartOffset":0}]})");
}

// A reader that copies messages must not take an envelope for a message's own object.
TEST(FetchRoute, GivesWhatItCannotReadAsAString) {
  Rig rig;
  rig.broker.fetch_answer = one_record();
  rig.broker.fetch_answer.messages.messages[0].encrypted = true;
  EXPECT_NE(answer_of(rig.post(handle_fetch, R"({"entries":[{"queue":"meters","offset":40}]})"))
                .find(R"("payload":"{\"kwh\": 12.50}","ts")"),
            std::string::npos);
}

TEST(FetchRoute, AnswersErrorsPerEntryAndNothingForNothing) {
  Rig rig;
  rig.broker.fetch_answer.error = "OFFSET_OUT_OF_RANGE";
  rig.broker.fetch_answer.high_watermark = 9;
  EXPECT_EQ(
      answer_of(rig.post(handle_fetch, R"({"entries":[{"queue":"q","offset":10}],"maxWaitMs":1000})")),
      R"(200 {"entries":[{"queue":"q","partition":"Default","error":"OFFSET_OUT_OF_RANGE","records":[],"highWatermark":9,"logStartOffset":0}]})");
  for (const std::string body : {"{}", R"({"entries":[]})", R"({"entries":null,"maxWaitMs":1000})"})
    EXPECT_EQ(answer_of(rig.post(handle_fetch, body)), R"(200 {"entries":[]})");
}

constexpr const char* kWaiting =
    R"({"entries":[{"queue":"b","offset":0},{"queue":"a","offset":0},{"queue":"b","partition":"2","offset":0}],"maxWaitMs":2000})";

TEST(FetchRoute, WaitsForAnAppendToAnyOfItsQueues) {
  Rig rig;
  const auto sent = rig.post(handle_fetch, kWaiting);
  EXPECT_TRUE(sent->responses.empty());
  EXPECT_EQ(rig.broker.waited_queues.at(0), (std::vector<std::string>{"a", "b"}));
  rig.broker.wakes.at(0)();  // of another partition: nothing for us, so it waits again
  EXPECT_TRUE(sent->responses.empty());
  ASSERT_EQ(rig.broker.wakes.size(), 2U);
  rig.broker.fetch_answer = one_record();
  rig.broker.wakes.at(1)();
  ASSERT_EQ(sent->responses.size(), 1U);
  EXPECT_EQ(sent->responses[0].status, 200);
  EXPECT_EQ(rig.context->deadlines.waiting(), 0U);
}

// A stop must not wait for the polls of readers.
TEST(FetchRoute, AnswersWhatThereIsWhenTheNodeStops) {
  Rig rig;
  const auto sent = rig.post(handle_fetch, kWaiting);
  rig.broker.release_parked();
  rig.broker.wakes.at(0)();
  ASSERT_EQ(sent->responses.size(), 1U);
  EXPECT_EQ(sent->responses[0].status, 200);
  EXPECT_EQ(rig.post(handle_fetch, kWaiting)->responses.size(), 1U);
  EXPECT_EQ(rig.context->deadlines.waiting(), 0U);
}

TEST(FetchRoute, AnswersEmptyWhenTheWaitEnds) {
  Rig rig;
  const auto sent = rig.post(handle_fetch, kWaiting);
  rig.timers.run_for(1'999'000);
  EXPECT_TRUE(sent->responses.empty());
  rig.timers.run_for(1'000);
  ASSERT_EQ(sent->responses.size(), 1U);
  EXPECT_NE(sent->responses[0].body.find(R"("records":[])"), std::string::npos);
  EXPECT_EQ(rig.broker.cancelled_waits.size(), 1U);
}

TEST(FetchRoute, StopsWaitingWhenTheClientGoesAway) {
  Rig rig;
  const auto sent = rig.post(handle_fetch, kWaiting);
  sent->gone();
  EXPECT_EQ(rig.broker.cancelled_waits.size(), 1U);
  EXPECT_EQ(rig.context->deadlines.waiting(), 0U);
  const std::size_t reads = rig.broker.fetched.size();
  rig.broker.wakes.at(0)();
  EXPECT_EQ(rig.broker.fetched.size(), reads);
}

TEST(FetchRoute, DoesNotWaitForNothing) {
  Rig rig;
  const auto sent =
      rig.post(handle_fetch, R"({"entries":[{"queue":"q","offset":0}],"maxWaitMs":2000,"minBytes":0})");
  EXPECT_EQ(sent->responses.size(), 1U);
  EXPECT_TRUE(rig.broker.wakes.empty());
}

TEST(FetchRoute, AnswersADamagedRecordWith500) {
  Rig rig;
  rig.broker.refuse_reads = true;
  EXPECT_EQ(answer_of(rig.post(handle_fetch, kWaiting)), R"(500 {"error":"damaged","code":"internal"})");
}

TEST(FetchReads, ShareOneBudgetWhenEntriesAskForMore) {
  Rig rig;
  rig.broker.fetch_answer = one_record();
  const auto request = parse_fetch(many_entries(3, R"({"queue":"q","offset":0,"maxBytes":20})"));
  ASSERT_TRUE(request);
  const auto answers = read_entries(rig.broker, std::string(kDefaultTenant), *request, 30);
  ASSERT_TRUE(answers);
  EXPECT_EQ(answers->size(), 3U);
  std::vector<std::uint64_t> limits;
  for (const auto& entries : rig.broker.fetched) limits.push_back(entries.at(0).bytes_max);
  EXPECT_EQ(limits, (std::vector<std::uint64_t>{20, 16, 2}));
}

// 8.2
TEST(OffsetsParse, RefusesByItsTable) {
  const std::string time = "timestamp must be epoch milliseconds from 0, or an ISO-8601 instant";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "the body must be an object"},
      {R"({"entries":7})", "entries must be an array"},
      {R"({"entries":["q"]})", "an entry must be an object"},
      {R"({"entries":[{"timestamp":0}]})", "queue must be a string"},
      {R"({"entries":[{"queue":"q","timestamp":0,"partition":[]}]})",
       "partition must be a string or a number"},
      {R"({"entries":[{"queue":"q"}]})", time},
      {R"({"entries":[{"queue":"q","timestamp":null}]})", time},
      {R"({"entries":[{"queue":"q","timestamp":-1}]})", time},
      {R"({"entries":[{"queue":"q","timestamp":1.5}]})", time},
      {R"({"entries":[{"queue":"q","timestamp":9223372036854775807}]})", time},
      {R"({"entries":[{"queue":"q","timestamp":"soon"}]})", time},
      {R"({"entries":[{"queue":"q","timestamp":""}]})", time},
      {R"({"entries":[{"queue":"q","timestamp":true}]})", time},
      {many_entries(1025, R"({"queue":"q","timestamp":0})"), "too many entries"}};
  for (const auto& [body, text] : cases) {
    const auto parsed = parse_offsets(body);
    ASSERT_FALSE(parsed) << body;
    EXPECT_EQ(parsed.error().error, text);
    EXPECT_EQ(refusal_response(parsed.error()).status, 400);
  }
  EXPECT_TRUE(parse_offsets(many_entries(1024, R"({"queue":"q","timestamp":0})")));
}

TEST(OffsetsParse, ReadsBothKindsOfTimeToTheMillisecond) {
  const auto parsed = parse_offsets(
      R"({"entries":[{"queue":"q","timestamp":1234},{"queue":"q","partition":7,"timestamp":"1970-01-01T00:00:01.234999Z"},
          {"queue":"q","partition":"","timestamp":"1969-12-31T23:59:59.999500Z"}]})");
  ASSERT_TRUE(parsed);
  EXPECT_EQ((*parsed)[0].since_us, 1'234'000);
  EXPECT_EQ((*parsed)[0].partition, "Default");
  EXPECT_EQ((*parsed)[1].since_us, 1'234'000);
  EXPECT_EQ((*parsed)[1].partition, "7");
  EXPECT_EQ((*parsed)[2].since_us, -1'000);
  EXPECT_EQ((*parsed)[2].partition, "Default");
}

TEST(OffsetsRoute, HasTheDocumentedShape) {
  Rig rig;
  broker::OffsetEntryAnswer found;
  found.offset = 38;
  found.ts_us = *parse_iso_micros_strict("2031-04-05T06:00:00.250000Z");
  found.high_watermark = 42;
  broker::OffsetEntryAnswer late;
  late.high_watermark = 42;
  late.log_start = 3;
  broker::OffsetEntryAnswer unknown;
  unknown.error = "UNKNOWN_TOPIC_OR_PARTITION";
  rig.broker.offsets_answer = {found, late, unknown};
  EXPECT_EQ(
      answer_of(rig.post(
          handle_fetch_offsets,
          R"({"entries":[{"queue":"meters","partition":"unit-7","timestamp":"2031-04-05T06:00:00Z"},{"queue":"meters","timestamp":1},{"queue":"x","timestamp":0}]})")),
      R"(200 {"entries":[{"queue":"meters","partition":"unit-7","offset":38,"ts":"2031-04-05T06:00:00.250000Z","highWatermark":42,"logStartOffset":0},)"
      R"({"queue":"meters","partition":"Default","offset":null,"ts":null,"highWatermark":42,"logStartOffset":3},)"
      R"({"queue":"x","partition":"Default","error":"UNKNOWN_TOPIC_OR_PARTITION","offset":null,"ts":null,"highWatermark":0,"logStartOffset":0}]})");
  rig.broker.offsets_answer.clear();
  EXPECT_EQ(answer_of(rig.post(handle_fetch_offsets, "{}")), R"(200 {"entries":[]})");
  rig.broker.refuse_reads = true;
  EXPECT_TRUE(answer_of(rig.post(handle_fetch_offsets, R"({"entries":[{"queue":"q","timestamp":0}]})"))
                  .starts_with("500 "));
}

TEST(ChangedParse, RefusesByItsTable) {
  for (const std::string& body : std::vector<std::string>{
           "[]", R"({"entries":1})", R"({"entries":[1]})", R"({"entries":[{}]})",
           R"({"entries":[{"queue":"q","since":5}]})", R"({"entries":[{"queue":"q","since":"soon"}]})",
           R"({"entries":[{"queue":"q","limit":"1"}]})", many_entries(1025, R"({"queue":"q"})")})
    EXPECT_FALSE(parse_changed(body)) << body.substr(0, 60);
}

TEST(ChangedParse, FillsDefaultsAndClamps) {
  const auto parsed = parse_changed(
      R"({"entries":[{"queue":"q"},{"queue":"q","since":"2031-04-05T06:00:00.000001Z","limit":0,"after":"c"},{"queue":"q","limit":5000,"after":null},{"queue":"q","after":5}]})");
  ASSERT_TRUE(parsed);
  EXPECT_EQ((*parsed)[0].limit, 1000U);
  EXPECT_FALSE((*parsed)[0].since_us);
  EXPECT_EQ(iso_micros(*(*parsed)[1].since_us), "2031-04-05T06:00:00.000001Z");
  EXPECT_EQ((*parsed)[1].limit, 1U);
  EXPECT_EQ((*parsed)[1].after, "c");
  EXPECT_EQ((*parsed)[2].limit, 1000U);
  EXPECT_EQ((*parsed)[2].after, "");
  EXPECT_FALSE((*parsed)[3].after.empty());
}

TEST(ChangedRoute, HasTheDocumentedShape) {
  Rig rig;
  const std::int64_t stamp = *parse_iso_micros_strict("2031-04-05T06:07:08.000123Z");
  rig.broker.changed_answer.safe_time_us = stamp;
  EXPECT_EQ(answer_of(rig.post(handle_changed, R"({"entries":[]})")),
            R"(200 {"safeTime":"2031-04-05T06:07:08.000123Z","safeTimeDegraded":false,"entries":[]})");
  broker::ChangedEntryAnswer page;
  page.partitions.push_back({"unit-7", *Uuid::parse("01b7c0de-0001-7aaa-8bbb-000000000001"), -1, 0, stamp});
  broker::ChangedEntryAnswer unknown;
  unknown.error = "UNKNOWN_TOPIC_OR_PARTITION";
  rig.broker.changed_answer.entries = {page, unknown};
  EXPECT_EQ(
      answer_of(rig.post(handle_changed, R"({"entries":[{"queue":"meters"},{"queue":"none"}]})")),
      R"(200 {"safeTime":"2031-04-05T06:07:08.000123Z","safeTimeDegraded":false,"entries":[{"queue":"meters","partitions":[{"name":"unit-7","id":"01b7c0de-0001-7aaa-8bbb-000000000001","lastOffset":-1,"logStart":0,"lastWriteAt":"2031-04-05T06:07:08.000123Z"}],"next":null},{"queue":"none","error":"UNKNOWN_TOPIC_OR_PARTITION"}]})");
}

TEST(QueuesAnswer, HasBothShapes) {
  broker::QueuesAnswer answer;
  broker::QueueSummary queue;
  queue.name = "meters";
  queue.row.uuid = *Uuid::parse("01b7c0de-0001-7aaa-8bbb-000000000001");
  queue.row.namespace_name = "meters";
  queue.partitions = 2;
  queue.segments = 3;
  queue.total = 9;
  queue.pending = 4;
  queue.processing = 1;
  queue.completed = 3;
  queue.dead_letter = 1;
  queue.retained_bytes = 77;
  answer.queues.push_back(queue);
  answer.kv_rows = 5;
  answer.kv_bytes = 6;
  const std::string full = render_queues(answer);
  EXPECT_TRUE(full.starts_with(
      R"({"queues":[{"id":"01b7c0de-0001-7aaa-8bbb-000000000001","name":"meters","queue":"meters","namespace":"meters","task":null,"storage":"segments","partitions":2,"segments":{"segments":3,"messages":9},"messages":{"total":9,"pending":4,"processing":1,"completed":3,"deadLetter":1},"retainedBytes":77,"options":{"priority":0,)"))
      << full;
  EXPECT_TRUE(full.ends_with(
      R"("createdAt":"1970-01-01T00:00:00.000000Z"}],"kvRows":5,"kvBytes":6,"timerRows":0,"timerBytes":0})"))
      << full;
  EXPECT_EQ(
      render_queue_lanes(answer),
      R"({"queues":[{"id":"01b7c0de-0001-7aaa-8bbb-000000000001","name":"meters","queue":"meters","partitions":2,"createdAt":"1970-01-01T00:00:00.000000Z"}],"stats":"lanes"})");
}

}  // namespace
}  // namespace queen::api

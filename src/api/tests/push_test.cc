// Push: every refusal, the frames that reach the broker, the answer, and the deadline.
#include "api/detail/push.h"

#include <gtest/gtest.h>

#include "api/detail/names.h"
#include "api/tests/fake_broker.h"
#include "base/hash.h"
#include "qlog/record.h"

namespace queen::api {
namespace {

std::string code_of(std::string_view body) {
  const auto parsed = parse_push(body);
  return parsed ? "accepted" : parsed.error().code;
}
std::string item(const std::string& fields) {
  return R"({"items":[{)" + fields + "}]}";
}

TEST(PushParse, RefusesWhatIsNotItsShape) {
  for (const std::string_view body : {"",
                                      "null",
                                      "[]",
                                      "1",
                                      "{}",
                                      R"({"items":null})",
                                      R"({"items":{}})",
                                      R"({"items":[1]})",
                                      R"({"items":[null]})",
                                      R"({"items":[{"queue":"q"}]})",
                                      R"({"items":[{"payload":1}]})",
                                      R"({"items":[{"queue":1,"payload":1}]})",
                                      R"({"items":[{"queue":null,"payload":1}]})",
                                      R"({"items":[{"queue":"q","payload":1,"partition":7}]})",
                                      R"({"items":[{"queue":"q","payload":1,"transactionId":7}]})",
                                      R"({"items":[{"queue":"q","payload":tru}]})",
                                      R"({"items":[{"queue":"q","payload":1},]})",
                                      R"({"items":[]} x)",
                                      R"({"items":[{"queue":"q","payload":1}])",
                                      R"({"items":[{"queue":"\uD800","payload":1}]})",
                                      R"({"items":[{"queue":"q","payload":01}]})",
                                      "{\"items\":[{\"queue\":\"\xFF\",\"payload\":1}]}",
                                      "{\"items\":[{\"queue\":\"q\",\"payload\":\"\xC0\xAF\"}]}",
                                      R"({"items":[{"queue":"q","payload":1}],"other":[})"})
    EXPECT_EQ(code_of(body), "bad_body") << body;
}

TEST(PushParse, RefusesAnEmptyQueueName) {
  EXPECT_EQ(code_of(item(R"("queue":"","payload":1)")), "bad_request");
}

TEST(PushParse, LimitsTheTransactionIdByItsBytes) {
  const auto with_id = [](std::size_t bytes) {
    return item(R"("queue":"q","payload":1,"transactionId":")" + std::string(bytes, 'x') + '"');
  };
  EXPECT_EQ(code_of(with_id(65'535)), "accepted");
  EXPECT_EQ(code_of(with_id(65'536)), "bad_body");
}

TEST(PushParse, CountsNestingPerPayload) {
  const auto nested = [](std::size_t depth) {
    return item(R"("queue":"q","payload":)" + std::string(depth, '[') + std::string(depth, ']'));
  };
  EXPECT_EQ(code_of(nested(1024)), "accepted");
  EXPECT_EQ(code_of(nested(1025)), "bad_body");
}

TEST(PushParse, FillsDefaultsAndIgnoresWhatItDoesNotKnow) {
  const std::string body = item(
      R"("unknown":{"a":[1]},"queue":"a","partition":null,"payload":null,"transactionId":"","traceId":"not-a-uuid")");
  const auto parsed = parse_push(body);
  ASSERT_TRUE(parsed);
  const PushItem& only = parsed->items.at(0);
  EXPECT_EQ(only.partition, "Default");
  EXPECT_TRUE(only.null_payload);
  EXPECT_EQ(only.transaction_id, "");
  EXPECT_FALSE(only.trace_id);
  EXPECT_EQ(parse_push(item(R"("queue":"a","partition":"","payload":0)"))->items[0].partition, "Default");
}

TEST(PushParse, ReadsEscapedNamesAndKeepsTheLastOfARepeatedField) {
  const std::string body =
      R"({"items":[1],"items":[{"que\u0075e":"x","queue":"a\u00e9\/b","payload":1,"payload":"last"}]})";
  EXPECT_EQ(code_of(body), "bad_body");  // a wrong type is wrong wherever it stands
  const std::string good =
      R"({"items":[{"queue":"x","que\u0075e":"a\u00e9\/b","payload":1,"payload":"last"}]})";
  const auto parsed = parse_push(good);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->items[0].queue, "a\xC3\xA9/b");
  EXPECT_EQ(parsed->items[0].payload, R"("last")");
}

TEST(PushNames, AreHeldToTheBudget) {
  const auto fits = [](std::size_t queue, std::size_t partition) {
    return names_fit(kDefaultTenant, std::string(queue, 'q'), std::string(partition, 'p'));
  };
  EXPECT_TRUE(fits(404, 7));
  EXPECT_FALSE(fits(405, 7));
  EXPECT_TRUE(fits(1, 410));
  EXPECT_FALSE(fits(1, 411));
  EXPECT_TRUE(names_fit(kDefaultTenant, std::string(411, 'q'), {}, machine::kQueueMode));
  EXPECT_FALSE(names_fit(kDefaultTenant, std::string(411, 'q'), {}, "g"));
}

PreparedPush prepare(const PushBody& body, Random& random) {
  qlog::CompressorPool compressors;
  return prepare_push(body, {1'700'000'000'000'000, random, compressors, 1, 96ULL << 20});
}

// Readers sort messages of one millisecond by their ids.
TEST(PushPrepare, MintsIdsInTheOrderOfItemsAndOfTime) {
  std::string text = R"({"items":[)";
  for (int i = 0; i < 1000; ++i) text += std::string(i == 0 ? "" : ",") + R"({"queue":"q","payload":1})";
  text += "]}";
  const auto body = *parse_push(text);
  SeededRandom random(11);
  qlog::CompressorPool compressors;
  Uuid last;
  for (const std::int64_t wall_us : {1'700'000'000'000'000, 1'700'000'000'000'001, 1'700'000'000'000'999}) {
    const auto prepared = prepare_push(body, {wall_us, random, compressors, 1, 96ULL << 20});
    for (const PushPlace& place : prepared.places) {
      EXPECT_LT(last, place.id);
      last = place.id;
      EXPECT_EQ(last.bytes[6] >> 4, 7);
      EXPECT_EQ(last.bytes[8] >> 6, 2);
    }
  }
}

TEST(PushPrepare, KeepsPayloadsByteForByte) {
  const std::vector<std::string> payloads = {"42.00",
                                             "-0.0",
                                             "1e400",
                                             "123456789012345678901234567890.10",
                                             R"("\u0041\uD800\/")",
                                             "{ \"a\" :\t[ 1 ,2 ]\n}",
                                             R"({"k":1,"k":2})",
                                             "\"\xF0\x9F\x98\x80\"",
                                             "[]",
                                             "{}",
                                             "true",
                                             '"' + std::string(1'500'000, 'z') + '"'};
  std::string text = R"({"items":[)";
  for (const std::string& payload : payloads)
    text += (text.back() == '[' ? "" : ",") + (R"({"queue":"q","payload": )" + payload) + " }";
  text += "]}";
  const auto body = parse_push(text);
  ASSERT_TRUE(body);
  SeededRandom random(1);
  const PreparedPush prepared = prepare(*body, random);
  ASSERT_EQ(prepared.command.batches.size(), 1U);
  const machine::PushBatch& batch = prepared.command.batches[0];
  const auto frames = qlog::decode_frames(batch.frames, static_cast<std::uint32_t>(payloads.size()));
  ASSERT_TRUE(frames);
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    EXPECT_EQ((*frames)[i].payload, payloads[i]);
    EXPECT_EQ((*frames)[i].message_id, prepared.places[i].id);
    EXPECT_EQ((*frames)[i].transaction_id, prepared.places[i].id.str());
  }
  EXPECT_EQ(batch.frame_ends.back(), batch.frames.size());
  ASSERT_TRUE(batch.stored->compressed);
  EXPECT_EQ(*qlog::decompress_payload(batch.stored->bytes), batch.frames);
}

TEST(PushPrepare, GroupsByPartitionInRequestOrder) {
  const auto body = parse_push(
      R"({"items":[{"queue":"a","partition":"1","payload":1,"transactionId":"t0"},{"queue":"a","partition":"2","payload":2},
          {"queue":"a","partition":"1","payload":null,"traceId":"01B7C0DE-0001-7AAA-8BBB-000000000001"},{"queue":"b","partition":"1","payload":4}]})");
  ASSERT_TRUE(body);
  SeededRandom random(1);
  const PreparedPush prepared = prepare(*body, random);
  const auto& batches = prepared.command.batches;
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_EQ(
      batches[0].queue + batches[0].partition + batches[1].queue + batches[1].partition + batches[2].queue,
      "a1a2b");
  EXPECT_EQ(prepared.places[2].batch, 0U);
  EXPECT_EQ(prepared.places[2].index, 1U);
  const auto frames = qlog::decode_frames(batches[0].frames, 2);
  ASSERT_TRUE(frames);
  EXPECT_EQ((*frames)[0].transaction_id, "t0");
  EXPECT_TRUE((*frames)[1].null_payload);
  EXPECT_EQ((*frames)[1].trace_id->str(), "01b7c0de-0001-7aaa-8bbb-000000000001");
  EXPECT_EQ(batches[0].hashes.substr(0, 16), xxh3_128("t0").view());
  EXPECT_FALSE(batches[0].stored->compressed);  // too small to gain
  EXPECT_EQ(batches[0].stored->bytes, batches[0].frames);
}

broker::PushItemAnswer item_answer(broker::PushItemAnswer::Status status, std::uint64_t offset,
                                   std::optional<Uuid> id = std::nullopt) {
  return {status, id, offset};
}

TEST(PushAnswer, HasOneObjectPerItemInRequestOrder) {
  using Status = broker::PushItemAnswer::Status;
  Rig rig;
  const auto sent = rig.post(
      handle_push,
      R"({"items":[{"queue":"a","partition":"x","payload":1,"transactionId":"t\"0"},{"queue":"b","payload":2},
          {"queue":"a","partition":"x","payload":3,"transactionId":"t1"},{"queue":"a","partition":"x","payload":3,"transactionId":"t2"}]})");
  ASSERT_EQ(rig.broker.pushes.size(), 1U);
  EXPECT_EQ(rig.broker.commands[0].tenant, kDefaultTenant);
  const auto original = *Uuid::parse("01b7c0de-0001-7aaa-8bbb-000000000001");
  broker::PushAnswer answer;
  answer.batches = {{item_answer(Status::duplicate, 41, original), item_answer(Status::error, 0),
                     item_answer(Status::duplicate, 7)},
                    {item_answer(Status::queued, 0, original)}};
  rig.broker.pushes[0](answer);
  ASSERT_EQ(sent->responses.size(), 1U);
  const std::string& body = sent->responses[0].body;
  EXPECT_EQ(sent->responses[0].status, 201);
  EXPECT_NE(
      body.find(
          R"([{"index":0,"message_id":"01b7c0de-0001-7aaa-8bbb-000000000001","transaction_id":"t\"0","queueName":"a","status":"duplicate","offset":41},)"),
      std::string::npos)
      << body;
  EXPECT_NE(body.find(R"("queueName":"b","status":"queued","offset":0},{"index":2,)"), std::string::npos)
      << body;
  EXPECT_NE(body.find(R"("transaction_id":"t1","queueName":"a","status":"error"})"), std::string::npos)
      << body;
  EXPECT_NE(
      body.find(
          R"({"index":3,"message_id":null,"transaction_id":"t2","queueName":"a","status":"duplicate","offset":7}])"),
      std::string::npos)
      << body;
}

TEST(PushRoute, AnswersAnEmptyListAtOnce) {
  Rig rig;
  EXPECT_EQ(answer_of(rig.post(handle_push, R"({"items":[]})")), "201 []");
  EXPECT_TRUE(rig.broker.commands.empty());
}

TEST(PushRoute, RefusesNamesOverBudgetWhole) {
  Rig rig;
  const auto sent = rig.post(handle_push, R"({"items":[{"queue":"a","payload":1},{"queue":")" +
                                              std::string(412, 'q') + R"(","payload":1}]})");
  ASSERT_EQ(sent->responses.size(), 1U);
  EXPECT_EQ(sent->responses[0].status, 413);
  EXPECT_NE(sent->responses[0].body.find(R"("code":"name_too_long")"), std::string::npos);
  EXPECT_TRUE(rig.broker.commands.empty());
}

TEST(PushRoute, PassesTheBrokersRefusalOn) {
  Rig rig;
  const auto sent = rig.post(handle_push, item(R"("queue":"a","payload":1)"));
  rig.broker.pushes[0](tl::unexpected(broker::Refusal{"storage_full", "disk"}));
  EXPECT_EQ(answer_of(sent), R"(507 {"error":"disk","code":"storage_full"})");
  EXPECT_EQ(rig.context->deadlines.waiting(), 0U);
}

TEST(PushRoute, AnswersTimeoutAtItsDeadlineAndNothingAfter) {
  Rig rig;
  const auto sent = rig.post(handle_push, item(R"("queue":"a","payload":1)"));
  rig.timers.run_for(29'999'000);
  EXPECT_TRUE(sent->responses.empty());
  rig.timers.run_for(1'000);
  ASSERT_EQ(sent->responses.size(), 1U);
  EXPECT_EQ(sent->responses[0].status, 503);
  EXPECT_EQ(header_of(sent->responses[0], "Retry-After"), "1");
  rig.broker.pushes[0](broker::PushAnswer{{{item_answer(broker::PushItemAnswer::Status::queued, 0)}}});
  EXPECT_EQ(sent->responses.size(), 1U);
}

}  // namespace
}  // namespace queen::api

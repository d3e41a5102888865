// Timers: the rules of every field, and every answer.
#include "api/detail/timers.h"

#include <gmock/gmock.h>
#include <zstd.h>

#include "api/detail/transaction.h"
#include "api/tests/fake_broker.h"
#include "machine/planner.h"

namespace queen::api {
namespace {

using machine::TimerOp;
using machine::TimerOpOutcome;
using machine::TimersCommand;
using Status = TimerOpOutcome::Status;

const std::string kBody = R"("queue":"q","timerKey":"k","delayMs":1000,"txn":"x","payload":"MQ==")";

std::string op(const std::string& fields) {
  return "[{" + fields + "}]";
}
std::string schedule(const std::string& more) {
  return op(R"("op":"schedule",)" + kBody + more);
}
TimerLimits limits() {
  const ApiSettings settings;
  return {settings.timers_ops_max, settings.timers_horizon_s, settings.timers_payload_bytes_max, 96ULL << 20,
          [](std::string_view queue) { return queue == "secret"; }};
}
std::string verdict(std::string_view body) {
  const auto parsed = parse_timers(body, kDefaultTenant, limits());
  if (parsed) return "accepted";
  return std::to_string(parsed.error().status) + " " + parsed.error().error + " " + parsed.error().reason;
}
TimerOp first(std::string_view body) {
  auto parsed = parse_timers(body, kDefaultTenant, limits());
  EXPECT_TRUE(parsed) << parsed.error().reason;
  return parsed ? parsed->ops.at(0) : TimerOp{};
}
std::string zstd_of(const std::string& raw) {
  std::string out(ZSTD_compressBound(raw.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), 1));
  return out;
}

TEST(TimerValidation, FollowsItsTable) {
  const std::string name = R"("queue":"q","timerKey":"k")";
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", "timers_bad_body"},
      {"7", "timers_bad_body"},
      {"{}", "timers_bad_body"},
      {R"({"operations":{}})", "timers_bad_body"},
      {"[1]", "timers_bad_op"},
      {op(name), "timers_bad_op"},
      {op(R"("op":"create",)" + name), "timers_bad_op"},
      {op(R"("op":null,)" + name), "timers_bad_op"},
      {op(R"("op":"cancel","timerKey":"k")"), "timers_queue_required"},
      {op(R"("op":"cancel","timerKey":"k","queue":"")"), "timers_queue_required"},
      {op(R"("op":"cancel","timerKey":"k","queue":7)"), "timers_queue_required"},
      {op(R"("op":"schedule","txn":"x","payload":"",)" + name), "timers_delay_required"},
      {op(R"("op":"schedule","txn":"x","delayMs":null,"payload":"",)" + name), "timers_delay_required"},
      {op(R"("op":"schedule","txn":"x","delayMs":1,)" + name), "timers_payload_required"},
      {op(R"("op":"schedule","txn":"x","delayMs":1,"payload":null,)" + name), "timers_payload_required"},
      {op(R"("op":"schedule","txn":"x","delayMs":1,"payload":7,)" + name), "timers_payload_not_base64"},
      {op(R"("op":"schedule","txn":"x","delayMs":1,"payload":"M",)" + name), "timers_payload_not_base64"},
      {op(R"("op":"schedule","txn":"x","delayMs":1,"payload":"_-==",)" + name), "timers_payload_not_base64"},
  };
  for (const auto& [body, reason] : rows)
    EXPECT_EQ(verdict(body), "400 timers_bad_request " + reason) << body;
}

TEST(TimerValidation, RefusesOtherShapesToo) {
  for (const std::string& body :
       {op(R"("op":"cancel","queue":"q")"), op(R"("op":"cancel","queue":"q","timerKey":"")"),
        op(R"("op":"cancel","queue":"q","timerKey":"k","txn":7)"),
        op(R"("op":"cancel","queue":"q","timerKey":"\ud800")"),
        op(R"("op":"schedule","queue":"q","timerKey":"k","delayMs":1,"payload":"")"),
        schedule(R"(,"txn":"")"), schedule(R"(,"txn":")" + std::string(65'536, 'x') + "\""),
        schedule(R"(,"delayMs":"7")"), schedule(R"(,"partition":"")"), schedule(R"(,"partition":7)"),
        schedule(R"(,"payloadZstd":1)"), schedule(R"(,"encrypted":"yes")"),
        schedule(R"(,"payloadZstd":true)")})
    EXPECT_THAT(verdict(body), ::testing::StartsWith("400 timers_bad_request ")) << body.substr(0, 200);
  const std::string twice = R"([{"op":"cancel","queue":"q","timerKey":"k"},{"op":"schedule",)" + kBody + "}]";
  EXPECT_THAT(verdict(twice), ::testing::StartsWith("400 timers_bad_request "));
}

TEST(TimerValidation, RefusesWhatTheServerOwns) {
  for (const char* field : {"_x", "_", "producerSub", "producer_sub", "messageId", "message_id", "tenant",
                            "tenantId", "tenant_id", "deliverAt", "deliver_at", "delaySeconds",
                            "delay_seconds", "attempts", "claimToken", "claim_token", "claimedUntil"})
    EXPECT_EQ(verdict(schedule(",\"" + std::string(field) + "\":null")),
              "400 timers_bad_request timers_server_owned_field")
        << field;
  EXPECT_EQ(verdict(schedule(R"(,"other":1)")), "accepted");
}

TEST(TimerValidation, HasItsLimits) {
  EXPECT_EQ(verdict(schedule(R"(,"delayMs":7776000000)")), "accepted");
  for (const char* delay : {"7776000000.001", "7776000001", "1e300", "1e999"})
    EXPECT_EQ(verdict(schedule(",\"delayMs\":" + std::string(delay))),
              "400 timer_horizon_exceeded timers_horizon");
  const std::string fits((1 << 20) / 3 * 4, 'A');  // one byte less than a MiB
  EXPECT_EQ(verdict(schedule(",\"payload\":\"" + fits + "\"")), "accepted");
  EXPECT_EQ(verdict(schedule(",\"payload\":\"" + fits + "AAAA\"")),
            "413 payload_too_large timers_payload_too_large");
  std::string many = "[";
  for (int i = 0; i < 257; ++i)
    many += (i == 0 ? "" : ",") + std::string(R"({"op":"cancel","queue":"q","timerKey":")") +
            std::to_string(i) + "\"}";
  EXPECT_EQ(verdict(many + "]"), "400 timers_bad_request timers_too_many_ops");
  EXPECT_EQ(verdict(op(R"("op":"cancel","queue":"q","timerKey":")" + std::string(500, 'k') + "\"")),
            "413 name_too_long ");
  EXPECT_EQ(verdict(schedule(",\"partition\":\"" + std::string(500, 'p') + "\"")), "413 name_too_long ");
}

TEST(TimerValidation, EncryptedIsRefusedWhereTheBrokerEncrypts) {
  const std::string secret = R"("op":"schedule","timerKey":"k","delayMs":1,"txn":"x","payload":"MQ==",)";
  EXPECT_EQ(verdict(op(secret + R"("queue":"secret","encrypted":true)")),
            "400 timers_bad_request timers_encrypted_conflict");
  EXPECT_EQ(verdict(op(secret + R"("queue":"secret","encrypted":false)")),
            "400 timers_bad_request timers_encrypted_conflict");
  EXPECT_EQ(verdict(op(secret + R"("queue":"secret","encrypted":null)")), "accepted");
  EXPECT_TRUE(first(op(secret + R"("queue":"open","encrypted":true)")).encrypted);
}

TEST(TimerParse, ReadsEveryField) {
  const TimerOp usual = first(schedule(""));
  EXPECT_EQ(usual.kind, TimerOp::Kind::schedule);
  EXPECT_EQ(usual.queue, "q");
  EXPECT_EQ(usual.key, "k");
  EXPECT_EQ(usual.transaction_id, "x");
  EXPECT_EQ(usual.delay_us, 1'000'000);
  EXPECT_EQ(usual.partition, "Default");
  EXPECT_EQ(usual.payload, "1");
  EXPECT_FALSE(usual.raw || usual.encrypted);
  EXPECT_EQ(first(schedule(R"(,"partition":"p")")).partition, "p");
  EXPECT_EQ(first(schedule(R"(,"delayMs":-5000)")).delay_us, -5'000'000);
  EXPECT_EQ(first(schedule(R"(,"delayMs":0.25)")).delay_us, 250);
  EXPECT_EQ(first(schedule(R"(,"delayMs":1e3)")).delay_us, 1'000'000);
  EXPECT_LT(first(schedule(R"(,"delayMs":-1e300)")).delay_us, -1'000'000'000'000'000);
  EXPECT_EQ(first(R"({"operations":[{"op":"reschedule",)" + kBody + "}]}").kind, TimerOp::Kind::schedule);
  EXPECT_EQ(first(op(R"("op":"cancel","queue":"q","timerKey":"k")")).transaction_id, "");
}

TEST(TimerParse, TellsPayloadsThatAreNoJson) {
  const auto payload = [](const std::string& bytes) {
    return first(schedule(",\"payload\":\"" + base64(bytes) + "\""));
  };
  for (const char* json : {"{}", "null", " [1] ", "\"a\""}) EXPECT_FALSE(payload(json).raw) << json;
  for (const char* raw : {"", "{", "a", "\"\xFF\"", "1 2"}) EXPECT_TRUE(payload(raw).raw) << raw;
  EXPECT_EQ(payload(" [1] ").payload, " [1] ");
}

TEST(TimerParse, DecompressesWhatCameCompressed) {
  const std::string raw(3'000'000, ' ');
  const auto made = [](const std::string& bytes) {
    return schedule(",\"payloadZstd\":true,\"payload\":\"" + base64(bytes) + "\"");
  };
  const std::string json = raw + "1";
  EXPECT_EQ(first(made(zstd_of(json))).payload, json);
  EXPECT_EQ(first(made(zstd_of("1") + zstd_of("2"))).payload, "12");
  std::string torn = zstd_of(json);
  torn.pop_back();
  EXPECT_EQ(verdict(made(torn)), "400 timers_bad_request payload is not zstd");
  EXPECT_EQ(verdict(made("1")), "400 timers_bad_request payload is not zstd");
  EXPECT_EQ(verdict(made("")), "400 timers_bad_request payload is not zstd");
  // All of a call together, however little of it came in.
  TimerLimits narrow = limits();
  narrow.raw_bytes_max = 4'000'000;
  std::string two = made(zstd_of(json));
  two.pop_back();
  two +=
      R"(,{"op":"schedule","queue":"q","timerKey":"k2","delayMs":1,"txn":"y","payloadZstd":true,"payload":")" +
      base64(zstd_of(json)) + "\"}]";
  const auto parsed = parse_timers(two, kDefaultTenant, narrow);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().reason, "timers_payload_too_large");
}

// What the engine was given, once the handler ran.
const TimersCommand& sent(const Rig& rig) {
  return std::get<TimersCommand>(rig.broker.commands.back().body);
}
http::Request on_path(http::Method method, std::vector<std::string> params, std::string query = {}) {
  http::Request request;
  request.method = method;
  request.params = std::move(params);
  request.query = std::move(query);
  return request;
}

TEST(TimersRoute, AnswersEveryStatus) {
  Rig rig;
  const auto reply = rig.post(handle_timers, R"([{"op":"schedule",)" + kBody +
                                                 R"(},{"op":"cancel","queue":"q","timerKey":"b","txn":"s"},
      {"op":"cancel","queue":"q","timerKey":"c"},{"op":"cancel","queue":"q","timerKey":"d"}])");
  ASSERT_EQ(sent(rig).ops.size(), 4U);
  const Uuid id = sent(rig).ops[0].message_id;
  EXPECT_NE(id, Uuid{});
  machine::TimersOutcome out;
  out.ops = {{Status::rescheduled, "x", id, 1'000'004'100},
             {Status::absent, "s", {}, 0},
             {Status::absent, "", {}, 0},
             {Status::cancelled, "was", {}, 0}};
  rig.broker.outcomes.at(0)(machine::Outcome{{}, {}, out});
  EXPECT_EQ(
      answer_of(reply),
      R"(200 {"results":[{"ok":true,"status":"rescheduled","queue":"q","timerKey":"k","txn":"x","messageId":")" +
          id.str() + R"(","deliverAt":"1970-01-01T00:16:40.004100Z"},)" +
          R"({"ok":false,"status":"absent","queue":"q","timerKey":"b","txn":"s"},)" +
          R"({"ok":false,"status":"absent","queue":"q","timerKey":"c","txn":null},)" +
          R"({"ok":true,"status":"cancelled","queue":"q","timerKey":"d","txn":"was"}]})");
}

TEST(TimersRoute, AnEmptyCallAsksNothing) {
  Rig rig;
  EXPECT_EQ(answer_of(rig.post(handle_timers, "[]")), R"(200 {"results":[]})");
  EXPECT_TRUE(rig.broker.commands.empty());
}

TEST(TimersRoute, CancelAnswersTheBareElement) {
  Rig rig;
  const auto reply = rig.call(handle_timer_cancel, on_path(http::Method::del, {"q", "a/b"}, "txn=s"));
  EXPECT_EQ(sent(rig).ops.at(0).key, "a/b");
  rig.broker.outcomes.at(0)(machine::Outcome{{}, {}, machine::TimersOutcome{{{Status::absent, "s", {}, 0}}}});
  EXPECT_EQ(answer_of(reply), R"(200 {"ok":false,"status":"absent","queue":"q","timerKey":"a/b","txn":"s"})");
}

TEST(TimersRoute, RefusesPathsThatNameNoTimer) {
  Rig rig;
  for (const RouteHandler handler : {handle_timer_cancel, handle_timer_peek}) {
    EXPECT_THAT(
        answer_of(rig.call(handler, on_path(http::Method::get, {"", "k"}))),
        ::testing::StartsWith(R"(400 {"error":"timers_bad_request","reason":"timers_queue_required")"));
    EXPECT_THAT(answer_of(rig.call(handler, on_path(http::Method::get, {"q", ""}))),
                ::testing::StartsWith(R"(400 {"error":"timers_bad_request")"));
    EXPECT_THAT(answer_of(rig.call(handler, on_path(http::Method::get, {"q", "\xFF"}))),
                ::testing::StartsWith(R"(400 {"error":"timers_bad_request")"));
    EXPECT_THAT(answer_of(rig.call(handler, on_path(http::Method::get, {"q", std::string(500, 'k')}))),
                ::testing::HasSubstr(R"("code":"name_too_long")"));
  }
  EXPECT_TRUE(rig.broker.commands.empty() && rig.broker.barriers.empty());
}

TEST(TimersRoute, RefusalsOfTheEngineHaveTheirEnvelope) {
  const auto answer = [](const std::string& code) {
    const http::Response response = timer_refusal_response({code, "why"});
    return std::to_string(response.status) + " " + response.body + header_of(response, "Retry-After");
  };
  EXPECT_EQ(answer("timeout"),
            R"(503 {"error":"timers_unavailable","reason":"timers_timeout","detail":"why"}1)");
  EXPECT_EQ(answer("retry"), R"(503 {"error":"timers_unavailable","reason":"timers_retry","detail":"why"}1)");
  EXPECT_EQ(answer("bad_request"),
            R"(413 {"error":"payload_too_large","reason":"too_large","detail":"why"})");
  EXPECT_EQ(answer("internal"), R"(500 {"error":"timers_error","detail":"why"})");
  EXPECT_EQ(answer("storage_full"), R"(507 {"error":"why","code":"storage_full"})");
  EXPECT_EQ(answer("overloaded"), R"(429 {"error":"why","code":"overloaded"}2)");
  EXPECT_EQ(answer("encryption_required"), R"(400 {"error":"why","code":"encryption_required"})");
}

// TM-14
TEST(TimersRoute, AMixedBatchThatCannotGrowIsToldOfTheOtherRoute) {
  const auto hint = [](const std::string& body) {
    Rig rig;
    const auto reply = rig.post(handle_timers, body);
    rig.broker.outcomes.at(0)(tl::unexpected(broker::Refusal{"storage_full", "full"}));
    return header_of(reply->responses.at(0), "x-queen-timers-hint");
  };
  EXPECT_THAT(hint(R"([{"op":"schedule",)" + kBody + R"(},{"op":"cancel","queue":"q","timerKey":"b"}])"),
              ::testing::HasSubstr("DELETE /api/v1/timers/"));
  EXPECT_EQ(hint(schedule("")), "");
}

class TimerReadsRoute : public ::testing::Test {
 protected:
  void put(const std::string& key, store::TimerRow row = {}) {
    if (row.transaction_id.empty()) row.transaction_id = "x";
    if (row.partition.empty()) row.partition = "Default";
    const auto gate = rig.broker.store.write_gate();
    ASSERT_TRUE(machine::run_effect(rig.broker.store,
                                    machine::TimerUpsert{std::string(kDefaultTenant), "q", key, row},
                                    EntryIndex{1}, 0, 1));
  }
  std::string get(RouteHandler handler, std::vector<std::string> params, const std::string& query = {}) {
    const auto reply = rig.call(handler, on_path(http::Method::get, std::move(params), query));
    if (!rig.broker.barriers.empty()) {
      // Nothing is read before the barrier has passed.
      EXPECT_TRUE(reply->responses.empty());
      auto passed = std::move(rig.broker.barriers.front());
      rig.broker.barriers.pop_front();
      passed({});
    }
    return answer_of(reply);
  }
  Rig rig;
};

TEST_F(TimerReadsRoute, PeekShowsTheTimer) {
  store::TimerRow row;
  row.deliver_at = 2'000'000;
  row.payload = "{}";
  row.message_id.bytes[15] = 7;
  row.attempts = 2;
  row.last_error = "too large";
  row.producer_sub = "svc";
  row.created = row.updated = 1'000'000;
  put("a/b", row);
  EXPECT_EQ(
      get(handle_timer_peek, {"q", "a/b"}),
      R"(200 {"found":true,"queue":"q","timerKey":"a/b","partition":"Default","deliverAt":"1970-01-01T00:00:02.000000Z","txn":"x",)"
      R"("messageId":"00000000-0000-0000-0000-000000000007","payload":"e30=","payloadZstd":false,"encrypted":false,)"
      R"("producerSub":"svc","attempts":2,"lastError":"too large","claimed":false,)"
      R"("createdAt":"1970-01-01T00:00:01.000000Z","updatedAt":"1970-01-01T00:00:01.000000Z"})");
  EXPECT_EQ(get(handle_timer_peek, {"q", "a"}), R"(200 {"found":false,"queue":"q","timerKey":"a"})");
}

TEST_F(TimerReadsRoute, ListHasPagesWithoutPayloads) {
  for (const char* key : {"c", "a", "b"}) put(key);
  const std::string page = get(handle_timer_list, {"q"}, "limit=2");
  EXPECT_THAT(page, ::testing::StartsWith(R"(200 {"rows":[{"queue":"q","timerKey":"a",)"));
  EXPECT_THAT(page, ::testing::EndsWith(R"(],"truncated":true,"nextAfter":"b"})"));
  EXPECT_THAT(page, ::testing::Not(::testing::HasSubstr("\"payload\"")));
  EXPECT_THAT(get(handle_timer_list, {"q"}, "after=b&limit=many"),
              ::testing::AllOf(::testing::HasSubstr(R"("timerKey":"c")"),
                               ::testing::EndsWith(R"(],"truncated":false,"nextAfter":null})")));
  EXPECT_EQ(get(handle_timer_list, {"none"}), R"(200 {"rows":[],"truncated":false,"nextAfter":null})");
  // Clamped, not refused.
  EXPECT_THAT(get(handle_timer_list, {"q"}, "limit=0"), ::testing::EndsWith(R"("nextAfter":"a"})"));
}

TEST_F(TimerReadsRoute, CountIsByPrefix) {
  for (const char* key : {"in/1", "in/2", "out/1"}) put(key);
  EXPECT_EQ(get(handle_timer_list, {"q"}, "mode=count&prefix=in%2F"),
            R"(200 {"queue":"q","prefix":"in/","count":2})");
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"mode=count", "timers_count_prefix_required"},
      {"mode=count&prefix=", "timers_count_prefix_required"},
      {"mode=count&prefix=a%00", "timers_count_prefix_invalid"},
      {"mode=count&prefix=" + std::string(129, 'a'), "timers_count_prefix_too_long"},
      {"mode=count&prefix=a&limit=1", "timers_count_page_parameters"},
      {"mode=count&prefix=a&after=b", "timers_count_page_parameters"},
      {"mode=all", "timers_read_mode_unknown"}};
  for (const auto& [query, reason] : refused)
    EXPECT_THAT(get(handle_timer_list, {"q"}, query),
                ::testing::StartsWith(R"(400 {"error":"timers_bad_request","reason":")" + reason + "\""))
        << query;
}

TEST_F(TimerReadsRoute, ABarrierThatFailsAnswersForTheRead) {
  const auto reply = rig.call(handle_timer_peek, on_path(http::Method::get, {"q", "k"}));
  rig.broker.barriers.at(0)(tl::unexpected(broker::Refusal{"retry", "stopping"}));
  EXPECT_THAT(answer_of(reply), ::testing::StartsWith(R"(503 {"error":"timers_unavailable")"));
  const auto late = rig.call(handle_timer_peek, on_path(http::Method::get, {"q", "k"}));
  rig.timers.run_for(30'000'000);
  EXPECT_THAT(answer_of(late), ::testing::HasSubstr("timers_timeout"));
}

TEST(TransactionTimers, ShapesAre400AndValuesRollBack) {
  const auto answer = [](const std::string& timer) {
    Rig rig;
    const std::string text = answer_of(rig.post(handle_transaction, R"({"timers":[)" + timer + "]}"));
    constexpr std::string_view kReason = R"("reason":")";
    const std::size_t at = text.find(kReason);
    if (at == std::string::npos) return text;
    const std::size_t from = at + kReason.size();
    return text.substr(0, 4) + text.substr(from, text.find('"', from) - from);
  };
  const auto with = [](const std::string& more) { return R"({"op":"schedule",)" + kBody + more + "}"; };
  EXPECT_EQ(answer("1"), "400 bad_request");
  EXPECT_EQ(answer(R"({"op":"cancel"})"), "400 bad_request");
  EXPECT_EQ(answer(with(R"(,"payload":"M")")), "400 bad_request");
  EXPECT_EQ(answer(with(R"(,"payloadZstd":true)")), "400 bad_request");
  EXPECT_EQ(answer(with("") + "," + with("")), "400 bad_request");
  EXPECT_EQ(answer(with(R"(,"_x":1)")), "400 timers_server_owned_field");
  EXPECT_EQ(answer(with(R"(,"delayMs":7776000001)")), "200 bad_request");
  EXPECT_EQ(answer(with(",\"payload\":\"" + std::string((1 << 20) / 3 * 4 + 4, 'A') + "\"")),
            "200 bad_request");
  EXPECT_EQ(answer(with(",\"timerKey\":\"" + std::string(500, 'k') + "\"")), "200 name_too_long");
}

TEST(TransactionTimers, StandBehindKvInTheResults) {
  Rig rig;
  const auto reply = rig.post(
      handle_transaction, R"({"operations":[{"type":"push","queue":"q","payload":1}],)"
                          R"("kv":[{"op":"get","ns":"n","key":"k"}],"timers":[{"op":"schedule",)" +
                              kBody + R"(}],"positions":[{"queue":"q","consumerGroup":"g","offset":0}]})");
  const auto& command = std::get<machine::TransactionCommand>(rig.broker.commands.at(0).body);
  const Uuid id = command.timers.ops.at(0).message_id;
  EXPECT_NE(id, Uuid{});
  machine::TransactionOutcome out;
  out.push.batches.resize(1);
  out.push.batches[0].items.resize(1);
  out.kv.ops.resize(1);
  out.timers.ops = {{Status::scheduled, "x", id, 2'000'000}};
  rig.broker.outcomes.at(0)(machine::Outcome{{}, {}, out});
  const std::string text = answer_of(reply);
  EXPECT_THAT(
      text,
      ::testing::HasSubstr(
          R"({"index":2,"opIndex":0,"type":"timer","ok":true,"status":"scheduled","queue":"q","timerKey":"k","txn":"x","messageId":")" +
          id.str() + R"(","deliverAt":"1970-01-01T00:00:02.000000Z"})"));
  EXPECT_THAT(text, ::testing::HasSubstr(R"({"index":3,"opIndex":0,"type":"position")"));
}

TEST(TransactionTimers, HaveNoCountOfTheirOwn) {
  Rig rig;
  std::string timers;
  for (int i = 0; i < 300; ++i)
    timers += (i == 0 ? "" : ",") + std::string(R"({"op":"cancel","queue":"q","timerKey":")") +
              std::to_string(i) + "\"}";
  const auto reply = rig.post(handle_transaction, R"({"timers":[)" + timers + "]}");
  EXPECT_TRUE(reply->responses.empty());
  EXPECT_EQ(std::get<machine::TransactionCommand>(rig.broker.commands.at(0).body).timers.ops.size(), 300U);
}

}  // namespace
}  // namespace queen::api

// KV: the contract's validation table row by row, and every result element.
#include "api/detail/kv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/tests/fake_broker.h"
#include "base/text.h"

namespace queen::api {
namespace {

using machine::KvKind;

tl::expected<machine::KvCommand, KvFault> parse(std::string_view body) {
  const auto text = read_kv_batch(body);
  if (!text) return tl::unexpected(text.error());
  if (auto fault = check_kv_ceilings(*text, KvLimits{})) return tl::unexpected(*fault);
  return parse_kv(*text, kDefaultTenant, KvLimits{});
}
// `status error reason` of a refusal.
std::string verdict(std::string_view body) {
  const auto parsed = parse(body);
  if (parsed) return "accepted";
  return std::to_string(parsed.error().status) + " " + parsed.error().error + " " + parsed.error().reason;
}
std::string op(const std::string& fields) {
  return "[{" + fields + "}]";
}
std::string put(const std::string& fields) {
  return op(R"("op":"put","ns":"n","key":"k",)" + fields);
}
std::string incr(const std::string& fields) {
  return op(R"("op":"incr","ns":"n","key":"k",)" + fields);
}

TEST(KvValidation, FollowsItsTable) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", "kv_bad_body"},
      {"{", "kv_bad_body"},
      {"7", "kv_bad_body"},
      {"{}", "kv_bad_body"},
      {R"({"operations":{}})", "kv_bad_body"},
      {R"({"operations":null})", "kv_bad_body"},
      {"[1]", "kv_bad_request"},
      {op(R"("ns":"n","key":"k")"), "kv_unknown_op"},
      {op(R"("op":"increment","ns":"n","key":"k")"), "kv_unknown_op"},
      {op(R"("op":7,"ns":"n","key":"k")"), "kv_unknown_op"},
      {op(R"("op":"putIfVersion","ns":"n","key":"k")"), "kv_unknown_op"},
      {op(R"("op":"get","ns":"n","key":"k","tenant":null)"), "kv_tenant_not_an_input"},
      {op(R"("op":"get","ns":"n","key":"k","tenantId":"t")"), "kv_tenant_not_an_input"},
      {op(R"("op":"get","ns":"n","key":"k","_tenant":"t")"), "kv_tenant_not_an_input"},
      {op(R"("op":"get","key":"k")"), "kv_bad_namespace"},
      {op(R"("op":"get","ns":"","key":"k")"), "kv_bad_namespace"},
      {op(R"("op":"get","ns":"N","key":"k")"), "kv_bad_namespace"},
      {op(R"("op":"get","ns":".n","key":"k")"), "kv_bad_namespace"},
      {op(R"("op":"get","ns":"n/x","key":"k")"), "kv_bad_namespace"},
      {op(R"("op":"get","ns":")" + std::string(65, 'n') + R"(","key":"k")"), "kv_bad_namespace"},
      {op(R"("op":"get","ns":["n"],"key":"k")"), "kv_bad_request"},
      {op(R"("op":"get","ns":"n")"), "kv_bad_key"},
      {op(R"("op":"get","ns":"n","key":"")"), "kv_bad_key"},
      {op(R"("op":"get","ns":"n","key":null)"), "kv_bad_key"},
      {op(R"("op":"get","ns":"n","key":"a\u0000b")"), "kv_bad_key"},
      {op(R"("op":"get","ns":"n","key":{})"), "kv_bad_request"},
      {op(R"("op":"getMany","ns":"n","keys":["a",""])"), "kv_bad_key"},
      {op(R"("op":"getMany","ns":"n","keys":"a")"), "kv_bad_request"},
      {op(R"("op":"getMany","ns":"n","keys":null)"), "kv_bad_request"},
      {op(R"("op":"getPrefix","ns":"n")"), "kv_prefix_required"},
      {op(R"("op":"getPrefix","ns":"n","prefix":"")"), "kv_prefix_required"},
      {op(R"("op":"getPrefix","ns":"n","prefix":"p","limit":1.5)"), "kv_bad_request"},
      {op(R"("op":"getPrefix","ns":"n","prefix":"p","keysOnly":1)"), "kv_bad_request"},
      {op(R"("op":"getPrefix","ns":"n","prefix":"p","after":[])"), "kv_bad_request"},
      {put(R"("value":1)"), "kv_expiry_not_specified"},
      {put(R"("value":1,"forever":false)"), "kv_expiry_not_specified"},
      {put(R"("value":1,"forever":true,"ttlSeconds":5)"), "kv_expiry_not_specified"},
      {put(R"("value":1,"forever":"yes")"), "kv_bad_request"},
      {put(R"("value":1,"ttlSeconds":1.5)"), "kv_bad_ttl"},
      {put(R"("value":1,"ttlSeconds":"30")"), "kv_bad_ttl"},
      {put(R"("value":1,"ttlSeconds":null)"), "kv_bad_ttl"},
      {put(R"("value":1,"ttlSeconds":0)"), "kv_bad_ttl"},
      {put(R"("value":1,"ttlSeconds":-1)"), "kv_bad_ttl"},
      {put(R"("value":1,"ttlSeconds":9000000000000000000)"), "kv_bad_ttl"},
      {put(R"("forever":true)"), "kv_bad_request"},
      {put(R"("value":1,"forever":true,"expect":-1)"), "kv_bad_expect"},
      {put(R"("value":1,"forever":true,"expect":1.5)"), "kv_bad_expect"},
      {put(R"("value":1,"forever":true,"expect":null)"), "kv_bad_expect"},
      {put(R"("value":1,"forever":true,"expect":"1")"), "kv_bad_expect"},
      {op(R"("op":"putIfAbsent","ns":"n","key":"k","value":1,"forever":true,"expect":1)"), "kv_bad_expect"},
      {put(R"("value":1,"forever":true,"required":1)"), "kv_bad_request"},
      {put(R"("value":1,"forever":true,"required":null)"), "kv_bad_request"},
      {incr(R"("delta":1)"), "kv_expiry_not_specified"},
      {incr(R"("delta":1,"ttlSeconds":0)"), "kv_bad_ttl"},
      {incr(R"("forever":true)"), "kv_bad_request"},
      {incr(R"("forever":true,"delta":"1")"), "kv_bad_request"},
      {incr(R"("forever":true,"delta":null)"), "kv_bad_request"},
      {incr(R"("forever":true,"delta":1e999)"), "kv_bad_request"},
      {incr(R"("forever":true,"delta":1,"min":"0")"), "kv_bad_request"},
      {incr(R"("forever":true,"delta":1,"max":null)"), "kv_bad_request"},
      {incr(R"("forever":true,"delta":1,"expect":0)"), "kv_bad_request"},
      {incr(R"("forever":true,"delta":1,"expect":null)"), "kv_bad_request"},
      {op(R"("op":"check","ns":"n","key":"k")"), "kv_bad_expect"},
      {op(R"("op":"check","ns":"n","key":"k","expect":null)"), "kv_bad_expect"},
      {op(R"("op":"check","ns":"n","key":"k","expect":-1)"), "kv_bad_expect"},
      {op(R"("op":"check","ns":"n","key":"k","expect":1,"required":"yes")"), "kv_bad_request"},
      {R"([{"op":"put","ns":"n","key":"k","value":1,"forever":true},{"op":"delete","ns":"n","key":"k"}])",
       "kv_duplicate_key_in_call"},
      {R"([{"op":"check","ns":"n","key":"k","expect":0},{"op":"incr","ns":"n","key":"k","delta":1,"forever":true}])",
       "kv_duplicate_key_in_call"}};
  for (const auto& [body, reason] : rows) EXPECT_EQ(verdict(body), "400 kv_bad_request " + reason) << body;
}

TEST(KvValidation, RefusesWhatIsTooLargeWith413) {
  const auto get = [](std::size_t bytes) {
    return op(R"("op":"get","ns":"n","key":")" + std::string(bytes, 'k') + '"');
  };
  // 511 bytes of store key hold the tenant's 36, the namespace, two ends of two bytes each, and the key.
  EXPECT_EQ(verdict(get(470)), "accepted");
  EXPECT_EQ(verdict(get(471)), "413 payload_too_large kv_key_too_large");
  EXPECT_EQ(verdict(get(513)), "413 payload_too_large kv_key_too_large");
  const auto store = [](std::size_t bytes) {
    return put(R"("forever":true,"value": [ ")" + std::string(bytes - 4, 'v') + R"(" ])");
  };
  EXPECT_EQ(verdict(store(65'536)), "accepted");
  EXPECT_EQ(verdict(store(65'537)), "413 payload_too_large kv_value_too_large");
}

std::string many(std::size_t count, const std::string& fields) {
  std::string body = "[";
  for (std::size_t i = 0; i < count; ++i) body += (i == 0 ? "{" : ",{") + fields + "}";
  return body + "]";
}

TEST(KvValidation, CountsOperationsAndKeysFirst) {
  const std::string get = R"("op":"get","ns":"n","key":"k")";
  EXPECT_EQ(verdict(many(256, get)), "accepted");
  EXPECT_EQ(verdict(many(257, get)), "400 kv_bad_request kv_too_many_ops");
  EXPECT_EQ(verdict(many(257, R"("op":"nothing")")), "400 kv_bad_request kv_too_many_ops");
  const std::string page = R"("op":"getPrefix","ns":"n","prefix":"p","limit":)";
  EXPECT_EQ(verdict("[{" + page + "5000},{" + page + "24}]"), "accepted");
  EXPECT_EQ(verdict("[{" + page + "5000},{" + page + "25}]"), "400 kv_bad_request kv_too_many_keys");
  std::string keys = R"("a")";
  for (int i = 0; i < 1024; ++i) keys += R"(,"a")";
  EXPECT_EQ(verdict(op(R"("op":"getMany","ns":"n","keys":[)" + keys + "]")),
            "400 kv_bad_request kv_too_many_keys");
}

TEST(KvValidation, NamesTheFirstFailingOperation) {
  EXPECT_EQ(verdict(R"([{"op":"get","ns":"N","key":"k"},{"op":"x"}])"),
            "400 kv_bad_request kv_bad_namespace");
}

TEST(KvParse, ReadsOperations) {
  const auto parsed = parse(
      R"({"operations":[{"op":"put","ns":"n","key":7,"value": { "a" : 1.00 } ,"ttlSeconds":30.0,"expect":0,"required":true},
          {"op":"getMany","ns":"n"},{"op":"getPrefix","ns":"n","prefix":true,"limit":null,"keysOnly":null,"after":"z"},
          {"op":"delete","ns":"n","key":"d","expect":5120},{"op":"putIfAbsent","ns":"n","key":"p","value":null,"forever":true},
          {"op":"get","ns":"n","key":"k","required":true}]})");
  ASSERT_TRUE(parsed);
  const auto& ops = parsed->ops;
  EXPECT_EQ(ops[0].key, "7");
  EXPECT_EQ(ops[0].value, R"({ "a" : 1.00 })");
  EXPECT_EQ(ops[0].ttl_seconds, 30);
  EXPECT_EQ(ops[0].expect, 0U);
  EXPECT_TRUE(ops[0].required);
  EXPECT_TRUE(ops[1].keys.empty());
  EXPECT_EQ(ops[2].prefix + ops[2].after, "truez");
  EXPECT_EQ(ops[2].limit, 100U);
  EXPECT_EQ(ops[3].expect, 5120U);
  EXPECT_EQ(ops[4].value, "null");
  EXPECT_FALSE(ops[4].ttl_seconds);
  EXPECT_FALSE(ops[5].required);
}

TEST(KvParse, ReadsIncrementsAndChecks) {
  const auto parsed = parse(
      R"([{"op":"incr","ns":"n","key":"a","delta": -1.50 ,"min":0,"max":1e2,"ttlSeconds":5,"required":true},
          {"op":"check","ns":"n","key":"b","expect":0,"required":true},{"op":"get","ns":"n","key":"b"}])");
  ASSERT_TRUE(parsed);
  const auto& ops = parsed->ops;
  EXPECT_EQ(ops[0].delta + " " + ops[0].min + " " + ops[0].max, "-1.50 0 1e2");
  EXPECT_EQ(ops[0].ttl_seconds, 5);
  EXPECT_TRUE(ops[0].required);
  EXPECT_EQ(ops[1].kind, KvKind::check);
  EXPECT_EQ(ops[1].expect, 0U);
  EXPECT_TRUE(ops[1].required);
}

machine::KvFound row(std::string key, std::string value, std::uint64_t version) {
  machine::KvFound out;
  out.key = std::move(key);
  out.value = std::move(value);
  out.version = version;
  out.updated_at = *parse_iso_micros_strict("2026-11-29T10:00:00.250000Z");
  return out;
}

TEST(KvAnswer, HasOneElementPerOperation) {
  machine::KvOutcome outcome;
  outcome.ops.resize(7);
  outcome.ops[0].applied = true;
  outcome.ops[0].row = row("c-81", R"({"lines": 2})", 5120);
  outcome.ops[1].reason = "version";
  outcome.ops[1].row = row("k", "1", 7);
  outcome.ops[2].reason = "absent";
  outcome.ops[3].row = row("k", "null", 9);
  outcome.ops[3].row->expires_at = *parse_iso_micros_strict("2026-11-30T10:00:00.000000Z");
  outcome.ops[5].rows = {row("a", "1", 3)};
  outcome.ops[5].missing = {"b"};
  outcome.ops[6].rows = {row("a", "1", 3)};
  outcome.ops[6].truncated = true;
  outcome.ops[6].next_after = "a";
  const std::vector<KvEcho> echo = {{KvKind::put, "c-81", false},  {KvKind::put_if_absent, "k", false},
                                    {KvKind::del, "d", false},     {KvKind::get, "k", false},
                                    {KvKind::get, "m", false},     {KvKind::get_many, "", false},
                                    {KvKind::get_prefix, "", true}};
  EXPECT_EQ(
      render_kv(echo, outcome),
      R"({"results":[{"index":0,"op":"put","applied":true,"key":"c-81","value":{"lines": 2},"version":5120},)"
      R"({"index":1,"op":"putIfAbsent","applied":false,"reason":"version","key":"k","value":1,"version":7},)"
      R"({"index":2,"op":"delete","applied":false,"reason":"absent","key":"d","value":null,"version":0},)"
      R"({"index":3,"op":"get","found":true,"key":"k","value":null,"version":9,"expiresAt":"2026-11-30T10:00:00+00:00","updatedAt":"2026-11-29T10:00:00.25+00:00"},)"
      R"({"index":4,"op":"get","found":false,"key":"m"},)"
      R"({"index":5,"op":"getMany","rows":[{"key":"a","value":1,"version":3,"expiresAt":null,"updatedAt":"2026-11-29T10:00:00.25+00:00"}],"missing":["b"],"truncated":false},)"
      R"({"index":6,"op":"getPrefix","rows":[{"key":"a","version":3,"expiresAt":null,"updatedAt":"2026-11-29T10:00:00.25+00:00"}],"truncated":true,"nextAfter":"a"}]})");
}

TEST(KvAnswer, ACheckThatHeldHasNoValue) {
  machine::KvOutcome outcome;
  outcome.ops.resize(4);
  outcome.ops[0].applied = true;
  outcome.ops[0].row = row("a", "1", 7);
  outcome.ops[1].applied = true;
  outcome.ops[2].reason = "version";
  outcome.ops[2].row = row("c", "1", 9);
  outcome.ops[3].reason = "limit";
  outcome.ops[3].row = row("d", "0", 0);
  const std::vector<KvEcho> echo = {{KvKind::check, "a", false},
                                    {KvKind::check, "b", false},
                                    {KvKind::check, "c", false},
                                    {KvKind::incr, "d", false}};
  EXPECT_EQ(render_kv(echo, outcome),
            R"({"results":[{"index":0,"op":"check","applied":true,"key":"a","version":7},)"
            R"({"index":1,"op":"check","applied":true,"key":"b","version":0},)"
            R"({"index":2,"op":"check","applied":false,"reason":"version","key":"c","value":1,"version":9},)"
            R"({"index":3,"op":"incr","applied":false,"reason":"limit","key":"d","value":0,"version":0}]})");
}

TEST(KvAnswer, TellsALostPrecondition) {
  machine::KvOutcome outcome;
  outcome.failed_index = 1;
  outcome.failed_reason = "exists";
  outcome.failed_row = row("k", R"("v")", 7);
  EXPECT_EQ(
      render_kv({}, outcome),
      R"({"ok":false,"reason":"kv_precondition","failedIndex":1,"kvReason":"exists","version":7,"value":"v"})");
  outcome.failed_row = row("k", '"' + std::string(5000, 'v') + '"', 7);
  EXPECT_EQ(render_kv({}, outcome), R"({"ok":false,"reason":"kv_precondition"})");
}

TEST(KvRoute, AnswersNothingForNothing) {
  Rig rig;
  EXPECT_EQ(answer_of(rig.post(handle_kv, "[]")), R"(200 {"results":[]})");
  EXPECT_TRUE(rig.broker.commands.empty());
}

TEST(KvRoute, PutsEngineRefusalsIntoTheRightEnvelope) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"timeout", R"(503 {"error":"kv_unavailable","reason":"kv_timeout","detail":"x"})"},
      {"retry", R"(503 {"error":"kv_unavailable","reason":"kv_retry","detail":"x"})"},
      {"no_leader", R"(503 {"error":"kv_unavailable","reason":"kv_no_leader","detail":"x"})"},
      {"too_large", R"(413 {"error":"payload_too_large","reason":"too_large","detail":"x"})"},
      {"internal", R"(500 {"error":"kv_error","detail":"x"})"},
      {"storage_full", R"(507 {"error":"x","code":"storage_full"})"},
      {"overloaded", R"(429 {"error":"x","code":"overloaded"})"},
      {"standby", R"(503 {"error":"x","code":"standby"})"}};
  for (const auto& [code, expected] : rows) {
    Rig rig;
    const auto sent = rig.post(handle_kv, op(R"("op":"get","ns":"n","key":"k")"));
    rig.broker.outcomes.at(0)(tl::unexpected(broker::Refusal{code, "x"}));
    EXPECT_EQ(answer_of(sent), expected);
    EXPECT_EQ(header_of(sent->responses[0], "Retry-After").empty(),
              sent->responses[0].status != 503 && sent->responses[0].status != 429)
        << code;
  }
}

TEST(KvRoute, AnswersFaultsOfTheEngineAsSuch) {
  const std::string get = op(R"("op":"get","ns":"n","key":"k")");
  const auto answer = [&](auto body) {
    Rig rig;
    const auto sent = rig.post(handle_kv, get);
    rig.broker.outcomes.at(0)(machine::Outcome{{}, {}, std::move(body)});
    return answer_of(sent);
  };
  EXPECT_THAT(answer(machine::ConfigureOutcome{}),
              ::testing::StartsWith(R"(500 {"error":"kv_error","reason":"kv_result_missing")"));
  machine::KvOutcome outcome;
  EXPECT_THAT(answer(outcome),
              ::testing::StartsWith(R"(500 {"error":"kv_error","reason":"kv_result_missing")"));
  outcome.ops.resize(2);
  EXPECT_THAT(answer(outcome),
              ::testing::StartsWith(R"(500 {"error":"kv_error","reason":"kv_result_misaligned")"));
}

TEST(KvRoute, RefusesWhatIsLargerThanAnEntry) {
  Rig rig;
  rig.context->settings.kv_value_bytes_max = 200 << 20;
  rig.broker.entry_bytes = 4096;
  const auto sent = rig.post(handle_kv, put(R"("forever":true,"value":")" + std::string(5000, 'v') + '"'));
  EXPECT_THAT(answer_of(sent),
              ::testing::StartsWith(R"(413 {"error":"payload_too_large","reason":"too_large")"));
  EXPECT_TRUE(rig.broker.commands.empty());
}

TEST(KvRoute, ADeadlineThatPassesIsATimeoutWithAnUnknownOutcome) {
  Rig rig;
  const auto sent = rig.post(handle_kv, op(R"("op":"get","ns":"n","key":"k")"));
  rig.timers.run_for(31'000'000);
  EXPECT_THAT(answer_of(sent),
              ::testing::StartsWith(R"(503 {"error":"kv_unavailable","reason":"kv_timeout")"));
}

// ---- one key by its path ----

struct PathCall {
  RouteHandler handler = handle_kv_get;
  std::string ns = "n", key = "a/b", body = {}, query = {};
};
std::shared_ptr<Sent> call(Rig& rig, const PathCall& path) {
  http::Request request;
  request.params = {path.ns, path.key};
  request.body = path.body;
  request.query = path.query;
  return rig.call(path.handler, std::move(request));
}
std::string refusal(const PathCall& path) {
  Rig rig;
  const std::string text = answer_of(call(rig, path));
  if (!rig.broker.commands.empty()) return "accepted";
  const std::size_t at = text.find(R"("reason":")") + 10;
  return text.substr(0, 4) + text.substr(at, text.find('"', at) - at);
}
const machine::KvOp& sent_op(const Rig& rig) {
  return std::get<machine::KvCommand>(rig.broker.commands.back().body).ops.at(0);
}

TEST(KvPathRoutes, TakeTheirKeyFromThePathAndTheRestFromTheBody) {
  Rig rig;
  call(rig, {handle_kv_get});
  EXPECT_EQ(sent_op(rig).key, "a/b");
  call(rig,
       {handle_kv_put, "n", "k", R"({"value":1.50,"ttlSeconds":5,"expect":0,"required":true,"other":7})"});
  EXPECT_EQ(sent_op(rig).kind, KvKind::put);
  EXPECT_EQ(sent_op(rig).value, "1.50");
  EXPECT_EQ(sent_op(rig).expect, 0U);
  EXPECT_TRUE(sent_op(rig).required);
  for (const char* body : {"", " ", "null", "{}", R"({"expect":7})"}) {
    call(rig, {handle_kv_delete, "n", "k", body});
    EXPECT_EQ(sent_op(rig).kind, KvKind::del) << body;
  }
  EXPECT_EQ(sent_op(rig).expect, 7U);
}

TEST(KvPathRoutes, RefuseWhatTheTableRefuses) {
  const std::string forever = R"("forever":true)";
  const std::vector<std::pair<PathCall, std::string>> rows = {
      {{handle_kv_get, "n", "k", "", "a=1"}, "400 kv_no_query_string"},
      {{handle_kv_put, "n", "k", "{", "a"}, "400 kv_no_query_string"},
      {{handle_kv_delete, "n", "k", "", "a"}, "400 kv_no_query_string"},
      {{handle_kv_get, "N", "k"}, "400 kv_bad_namespace"},
      {{handle_kv_get, "n", ""}, "400 kv_bad_key"},
      {{handle_kv_get, "n", std::string("a\0b", 3)}, "400 kv_bad_key"},
      {{handle_kv_get, "n", "\xff"}, "400 kv_bad_key"},
      {{handle_kv_get, "n", std::string(513, 'k')}, "413 kv_key_too_large"},
      {{handle_kv_put, "n", "k", ""}, "400 kv_bad_body"},
      {{handle_kv_put, "n", "k", "null"}, "400 kv_bad_body"},
      {{handle_kv_put, "n", "k", "[]"}, "400 kv_bad_body"},
      {{handle_kv_put, "n", "k", "{"}, "400 kv_bad_body"},
      {{handle_kv_delete, "n", "k", "7"}, "400 kv_bad_body"},
      {{handle_kv_put, "n", "k", R"({"value":1,"forever":true,"op":"put"})"}, "400 kv_field_in_path"},
      {{handle_kv_put, "n", "k", R"({"value":1,"forever":true,"ns":"n"})"}, "400 kv_field_in_path"},
      {{handle_kv_put, "n", "k", R"({"value":1,"forever":true,"namespace":"n"})"}, "400 kv_field_in_path"},
      {{handle_kv_delete, "n", "k", R"({"key":null})"}, "400 kv_field_in_path"},
      {{handle_kv_delete, "n", "k", R"({"tenant":"t"})"}, "400 kv_tenant_not_an_input"},
      {{handle_kv_delete, "n", "k", R"({"expect":null})"}, "400 kv_bad_expect"},
      {{handle_kv_put, "n", "k", R"({"value":1})"}, "400 kv_expiry_not_specified"},
      {{handle_kv_put, "n", "k", R"({"forever":true})"}, "400 kv_bad_request"},
      {{handle_kv_put, "n", "k", "{" + forever + R"(,"value":")" + std::string(70'000, 'v') + R"("})"},
       "413 kv_value_too_large"}};
  for (const auto& [path, expected] : rows)
    EXPECT_EQ(refusal(path), expected) << path.key << " " << path.body.substr(0, 80);
}

TEST(KvPathRoutes, AnswerTheElementAlone) {
  Rig rig;
  machine::KvOutcome found;
  found.ops.resize(1);
  found.ops[0].row = row("a/b", "1", 7);
  const auto got = call(rig, {handle_kv_get});
  rig.broker.outcomes.back()(machine::Outcome{{}, {}, found});
  EXPECT_EQ(
      answer_of(got),
      R"(200 {"index":0,"op":"get","found":true,"key":"a/b","value":1,"version":7,"expiresAt":null,"updatedAt":"2026-11-29T10:00:00.25+00:00"})");
  EXPECT_EQ(header_of(got->responses[0], "ETag"), R"("7")");
  found.ops[0].row.reset();
  const auto missed = call(rig, {handle_kv_get});
  rig.broker.outcomes.back()(machine::Outcome{{}, {}, found});
  EXPECT_EQ(answer_of(missed), R"(200 {"index":0,"op":"get","found":false,"key":"a/b"})");
  EXPECT_EQ(header_of(missed->responses[0], "ETag"), "");
  machine::KvOutcome lost;
  lost.failed_index = 0;
  lost.failed_reason = "absent";
  const auto put =
      call(rig, {handle_kv_put, "n", "k", R"({"value":1,"forever":true,"expect":7,"required":true})"});
  rig.broker.outcomes.back()(machine::Outcome{{}, {}, lost});
  EXPECT_EQ(
      answer_of(put),
      R"(200 {"ok":false,"reason":"kv_precondition","failedIndex":0,"kvReason":"absent","version":0,"value":null})");
}

}  // namespace
}  // namespace queen::api

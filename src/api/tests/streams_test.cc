// Streams: what bodies become, every refusal, and the answers (api-state.md 5).
#include "api/detail/streams.h"

#include <gtest/gtest.h>

#include "api/tests/fake_broker.h"
#include "machine/planner.h"
#include "qlog/record.h"

namespace queen::api {
namespace {

constexpr const char* kQuery = "01b7c0df-1111-7222-8333-444455556666";
const std::string kTarget = R"("query_id":"01b7c0df-1111-7222-8333-444455556666","partition_id":"42")";

std::string body(const std::string& fields = "") {
  return "{" + kTarget + (fields.empty() ? "" : ",") + fields + "}";
}
const machine::StreamsCycleCommand& cycle_of(const Rig& rig) {
  return std::get<machine::StreamsCycleCommand>(rig.broker.commands.back().body);
}

TEST(StreamsQuery, RefusesByNameWhatIsMissing) {
  for (const char* missing : {"name", "source_queue", "config_hash"}) {
    for (const char* instead : {"", ":null", ":\"\""}) {
      std::string text = "{";
      for (const char* field : {"name", "source_queue", "config_hash"}) {
        const bool is_missing = std::string_view(field) == missing;
        if (is_missing && *instead == 0) continue;
        text +=
            std::string(text.size() > 1 ? "," : "") + '"' + field + '"' + (is_missing ? instead : ":\"x\"");
      }
      Rig rig;
      EXPECT_EQ(answer_of(rig.post(handle_streams_query, text + "}")),
                "400 {\"error\":\"" + std::string(missing) + R"( is required","code":"bad_request"})");
      EXPECT_TRUE(rig.broker.commands.empty());
    }
  }
  const auto code = [](std::string_view text) {
    const auto parsed = parse_streams_query(text);
    return parsed ? "accepted" : parsed.error().code;
  };
  EXPECT_EQ(code("[]"), "bad_body");
  EXPECT_EQ(code("{"), "bad_body");
  EXPECT_EQ(code(R"({"name":7,"source_queue":"s","config_hash":"h"})"), "bad_request");
  EXPECT_EQ(code(R"({"name":"n","source_queue":"s","config_hash":"h","reset":"yes"})"), "bad_request");
  EXPECT_EQ(code(R"({"name":"n","source_queue":"s","config_hash":"h","sink_queue":[]})"), "bad_request");
  EXPECT_EQ(code(R"({"name":"n","source_queue":"s","config_hash":"h","sink_queue":null,"reset":null})"),
            "accepted");
}

TEST(StreamsQuery, AnswersWhatBecameOfIt) {
  Rig rig;
  const auto sent =
      rig.post(handle_streams_query, R"({"name":"n","source_queue":"s","config_hash":"h","reset":true})");
  const auto& command = std::get<machine::StreamsRegisterCommand>(rig.broker.commands.at(0).body);
  EXPECT_TRUE(command.reset);
  EXPECT_FALSE(command.queries_max.has_value());  // the default tenant is free
  machine::StreamsRegisterOutcome outcome;
  outcome.query_id = *Uuid::parse(kQuery);
  outcome.fresh = true;
  rig.broker.outcomes.at(0)(machine::Outcome{{}, {}, outcome});
  EXPECT_EQ(
      answer_of(sent),
      R"(200 {"success":true,"query_id":"01b7c0df-1111-7222-8333-444455556666","name":"n","config_hash":"h","fresh":true,"reset":false})");
  outcome.fresh = false;
  outcome.mismatch = true;
  const auto refused = render_streams_query({"n", "h"}, outcome);
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(
      refused.body,
      R"({"success":false,"query_id":"01b7c0df-1111-7222-8333-444455556666","name":"n","error":"config_hash mismatch; retry with reset:true"})");
  outcome = {};
  outcome.denied = true;
  const auto denied = render_streams_query({"n", "h"}, outcome);
  EXPECT_EQ(denied.status, 403);
  EXPECT_TRUE(denied.body.starts_with(R"({"success":false,"denied":true,"error":")"));
}

// ST-4
TEST(StreamsQuery, OtherTenantsNeedAGrant) {
  Rig rig;
  const std::string tenant = kQuery;
  const auto grant = [&](std::optional<store::QuotaRow> row) {
    const auto gate = rig.broker.store.write_gate();
    ASSERT_TRUE(machine::run_effect(
        rig.broker.store, machine::QuotaSet{store::QuotaKind::streams, tenant, row}, EntryIndex{1}, 0, 1));
  };
  EXPECT_EQ(streams_queries_max(rig.broker.state_reads, kDefaultTenant), std::nullopt);
  EXPECT_EQ(streams_queries_max(rig.broker.state_reads, tenant), 0U);
  store::QuotaRow row;
  row.max_queries = 3;
  grant(row);
  EXPECT_EQ(streams_queries_max(rig.broker.state_reads, tenant), 0U);  // not enabled
  row.enabled = true;
  grant(row);
  EXPECT_EQ(streams_queries_max(rig.broker.state_reads, tenant), 3U);
  row.max_queries = 0;
  grant(row);
  EXPECT_EQ(streams_queries_max(rig.broker.state_reads, tenant), std::nullopt);
}

TEST(StreamsState, RefusesWhatIsNotItsShape) {
  const auto code = [](const std::string& text) {
    const auto parsed = parse_streams_state(text);
    return parsed ? "accepted" : parsed.error().code;
  };
  EXPECT_EQ(code("7"), "bad_body");
  EXPECT_EQ(code("{}"), "bad_request");
  EXPECT_EQ(code(R"({"query_id":"x","partition_id":"1"})"), "bad_request");
  EXPECT_EQ(code(R"({"query_id":"01b7c0df-1111-7222-8333-444455556666"})"), "bad_request");
  EXPECT_EQ(code(R"({"query_id":"01b7c0df-1111-7222-8333-444455556666","partition_id":42})"), "bad_request");
  for (const char* fields : {R"("keys":{})", R"("keys":[7])", R"("key_prefix":7)",
                             R"("ripe_at_or_before":"1")", R"("ripe_at_or_before":1.5)"})
    EXPECT_EQ(code(body(fields)), "bad_request") << fields;
  EXPECT_EQ(code(body(R"("keys":null,"key_prefix":null,"ripe_at_or_before":null)")), "accepted");
}

TEST(StreamsState, ReadsBehindABarrierWithAllFilters) {
  Rig rig;
  const Uuid query = *Uuid::parse(kQuery);
  const auto run = [&](const machine::Effect& effect) {
    const auto gate = rig.broker.store.write_gate();
    ASSERT_TRUE(machine::run_effect(rig.broker.store, effect, EntryIndex{1}, 0, 1'000'000));
  };
  const std::string tenant(kDefaultTenant);
  run(machine::PartitionCreate{Pid{42}, Uuid{}, tenant, "q", "p", 1});
  run(machine::StreamsQueryUpsert{tenant, query, {"n", "q", std::nullopt, "h", 1, 1}});
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"a1", R"({"windowEnd":10})"},
                                                        {"a2", R"({"windowEnd":20})"},
                                                        {"a3", R"({"windowEnd":10.5})"},
                                                        {"a4", R"({"windowEnd":"10"})"},
                                                        {"b1", R"({"windowEnd":10})"},
                                                        {std::string("a\0z", 3), "[10]"},
                                                        {"", "1"}})
    run(machine::StreamsStatePut{query, Pid{42}, key, {value, 1'000'001}});
  const auto keys = [&](const std::string& fields) {
    const auto sent = rig.post(handle_streams_state, body(fields));
    EXPECT_TRUE(sent->responses.empty());
    rig.broker.barriers.back()({});
    rig.broker.barriers.pop_back();
    std::string out;
    const std::string text = answer_of(sent);
    for (std::size_t at = text.find("\"key\":\""); at != std::string::npos;
         at = text.find("\"key\":\"", at + 1))
      out += text.substr(at + 7, text.find('"', at + 7) - at - 7) + " ";
    return out;
  };
  EXPECT_EQ(keys(""), " a\\u0000z a1 a2 a3 a4 b1 ");
  EXPECT_EQ(keys(R"("keys":["b1","a2","nope","a2"])"), "a2 b1 ");
  EXPECT_EQ(keys(R"("keys":["b1","a2"],"key_prefix":"a")"), "a2 ");
  EXPECT_EQ(keys(R"("key_prefix":"a")"), "a\\u0000z a1 a2 a3 a4 ");
  EXPECT_EQ(keys(R"("key_prefix":"a\u0000")"), "a\\u0000z ");
  EXPECT_EQ(keys(R"("ripe_at_or_before":10)"), "a1 b1 ");
  EXPECT_EQ(keys(R"("ripe_at_or_before":20,"key_prefix":"a")"), "a1 a2 ");

  const auto sent = rig.post(handle_streams_state, body(R"("keys":["a1"])"));
  rig.broker.barriers.back()({});
  EXPECT_EQ(
      answer_of(sent),
      R"(200 {"success":true,"rows":[{"key":"a1","value":{"windowEnd":10},"updated_at":"1970-01-01T00:00:01.000001Z"}]})");
  for (const char* nowhere : {R"({"query_id":"01b7c0df-1111-7222-8333-444455556667","partition_id":"42"})",
                              R"({"query_id":"01b7c0df-1111-7222-8333-444455556666","partition_id":"43"})",
                              R"({"query_id":"01b7c0df-1111-7222-8333-444455556666","partition_id":"-1"})"}) {
    const auto missing = rig.post(handle_streams_state, nowhere);
    rig.broker.barriers.back()({});
    EXPECT_EQ(answer_of(missing), R"(404 {"error":"not found"})");
  }
}

TEST(StreamsCycle, RefusesWhatIsNotItsShape) {
  const auto code = [](const std::string& text) {
    const auto parsed = parse_streams_cycle(text, kDefaultTenant);
    return parsed ? "accepted" : parsed.error().code;
  };
  EXPECT_EQ(code("[]"), "bad_body");
  EXPECT_EQ(code("{}"), "bad_request");
  for (const char* fields :
       {R"("state_ops":{})", R"("state_ops":[7])", R"("state_ops":[{"type":"put","key":"k"}])",
        R"("push_items":"x")", R"("push_items":[[]])", R"("push_items":[{"queue":"q","messageId":"x"}])",
        R"("push_items":[{"queue":"q","partition":7}])", R"("push_items":[{"queue":"q","transactionId":7}])",
        R"("ack":[])", R"("ack":{"leaseId":7})", R"("ack":{"status":true})", R"("ack":{"count":"3"})",
        R"("ack":{"count":1.5})", R"("release_lease":"no")", R"("consumer_group":7)"})
    EXPECT_EQ(code(body(fields)), "bad_request") << fields;
  const std::string long_name(500, 'x');
  EXPECT_EQ(code(body(R"("state_ops":[{"key":")" + long_name + R"("}])")), "name_too_long");
  EXPECT_EQ(code(body(R"("state_ops":[{"key":")" + std::string(485, 'x') + R"("}])")), "accepted");
  EXPECT_EQ(code(body(R"("state_ops":[{"key":")" + std::string(486, 'x') + R"("}])")), "name_too_long");
  EXPECT_EQ(code(body(R"("push_items":[{"queue":")" + long_name + R"("}])")), "name_too_long");
  EXPECT_EQ(code(body(R"("consumer_group":")" + long_name + '"')), "name_too_long");
  EXPECT_EQ(
      code(body(
          R"("state_ops":null,"push_items":null,"ack":null,"release_lease":null,"consumer_group":null)")),
      "accepted");
}

// ST-10 to ST-17
TEST(StreamsCycle, BecomesOneCommand) {
  Rig rig;
  rig.post(handle_streams_cycle, body(R"("consumer_group":"g","release_lease":false,
    "state_ops":[{"key":"a","value":{ "n" : 1.50 }},{"type":"delete","key":"b","value":1},{"type":"upsert","key":"c"},
                 {"type":"upsert"},{"key":7}],
    "push_items":[{"queue":"s","payload":{"x":1},"data":2},{"queue":"s","partition":"p","data":[2]},{"payload":1},
                  {"queue":""},{"queue":"s","messageId":"01b7c0df-1111-7222-8333-444455556667"},
                  {"queue":"s","transactionId":"t","payload":null}],
    "ack":{"transactionId":"ignored","leaseId":"L","status":"acked","count":17})"));
  const auto& cycle = cycle_of(rig);
  EXPECT_EQ(cycle.query_id, *Uuid::parse(kQuery));
  EXPECT_EQ(cycle.pid, Pid{42});
  EXPECT_EQ(cycle.group, "g");
  EXPECT_FALSE(cycle.release_lease);
  ASSERT_EQ(cycle.state.size(), 3U);
  EXPECT_EQ(cycle.state[0].value, "{ \"n\" : 1.50 }");
  EXPECT_EQ(cycle.state[1].value, std::nullopt);
  EXPECT_EQ(cycle.state[2].value, "null");
  EXPECT_EQ(cycle.ack->lease_id, "L");
  EXPECT_TRUE(cycle.ack->completed);
  EXPECT_EQ(cycle.ack->count, 17);
  ASSERT_EQ(cycle.push.batches.size(), 2U);
  const auto frames = *qlog::decode_frames(cycle.push.batches[0].frames, 3);
  EXPECT_EQ(frames[0].payload, "{\"x\":1}");
  EXPECT_EQ(frames[0].transaction_id, frames[0].message_id.str());
  EXPECT_EQ(frames[1].payload, "{}");
  EXPECT_EQ(frames[1].transaction_id, "01b7c0df-1111-7222-8333-444455556667");
  EXPECT_TRUE(frames[2].null_payload);
  EXPECT_EQ(frames[2].transaction_id, "t");
  EXPECT_EQ(cycle.push.batches[1].partition, "p");
  EXPECT_EQ(qlog::decode_frames(cycle.push.batches[1].frames, 1)->front().payload, "[2]");
  rig.post(handle_streams_cycle, body(R"("consumer_group":"","ack":{})"));
  EXPECT_EQ(cycle_of(rig).group, machine::kQueueMode);
  EXPECT_TRUE(cycle_of(rig).ack->completed && cycle_of(rig).release_lease);
  for (const auto& [status, ok] : std::vector<std::pair<std::string, bool>>{{"completed", true},
                                                                            {"success", true},
                                                                            {"ok", true},
                                                                            {"", true},
                                                                            {"failed", false},
                                                                            {"Completed", false}}) {
    rig.post(handle_streams_cycle, body(R"("ack":{"status":")" + status + R"("})"));
    EXPECT_EQ(cycle_of(rig).ack->completed, ok) << status;
  }
  rig.post(handle_streams_cycle, body());
  EXPECT_FALSE(cycle_of(rig).ack.has_value());
}

TEST(StreamsCycle, AnswersWhatWasCommitted) {
  Rig rig;
  const auto sent = rig.post(handle_streams_cycle, body(R"("push_items":[{"queue":"s","transactionId":"t",
      "messageId":"01b7c0df-1111-7222-8333-444455556667"},{"queue":"s","transactionId":"t"}])"));
  machine::StreamsCycleOutcome outcome;
  outcome.found = true;
  outcome.queue = "sales";
  outcome.state_ops = 2;
  outcome.push.batches.resize(1);
  outcome.push.batches[0].items.resize(2);
  outcome.push.batches[0].items[1] = {machine::PushItemOutcome::Status::duplicate, 0, 0};
  outcome.ack = machine::StreamsCycleOutcome::Acked{17, true};
  rig.broker.outcomes.at(0)(machine::Outcome{{}, {}, outcome});
  EXPECT_EQ(
      answer_of(sent),
      R"(200 {"success":true,"query_id":"01b7c0df-1111-7222-8333-444455556666","partition_id":"42","queueName":"sales","state_ops_applied":2,"push_results":[{"queueName":"s","messageId":"01b7c0df-1111-7222-8333-444455556667","transactionId":"t","status":"created"},{"queueName":"s","messageId":"01b7c0df-1111-7222-8333-444455556667","transactionId":"t","status":"duplicate"}],"ack_result":{"success":true,"count":17,"lease_released":true,"dlq":false}})");
  machine::StreamsCycleOutcome refused;
  refused.found = true;
  refused.reason = "bad_lease";
  refused.error = "invalid or expired lease";
  EXPECT_EQ(render_streams_cycle({}, refused).body,
            R"({"success":false,"error":"invalid or expired lease","reason":"bad_lease"})");
  EXPECT_EQ(render_streams_cycle({}, {}).status, 404);
  EXPECT_EQ(render_streams_cycle({}, {}).body, R"({"success":false,"error":"query or partition not found"})");
  const auto nowhere = rig.post(
      handle_streams_cycle,
      R"({"query_id":"01b7c0df-1111-7222-8333-444455556666","partition_id":"01b7c0df-1111-7222-8333-444455556699"})");
  EXPECT_EQ(answer_of(nowhere), R"(404 {"success":false,"error":"query or partition not found"})");
}

TEST(StreamsCycle, SealsWhatItPushesIntoAFlaggedQueueOnceAsked) {
  Rig rig;
  const auto sent = rig.post(handle_streams_cycle, body(R"("push_items":[{"queue":"s"}])"));
  machine::StreamsCycleOutcome refused;
  refused.found = true;
  refused.reason = "encryption_required";
  refused.error = "no key";
  rig.broker.outcomes.at(0)(machine::Outcome{{}, {}, refused});
  EXPECT_EQ(answer_of(sent), R"(200 {"success":false,"error":"no key","reason":"encryption_required"})");
}

}  // namespace
}  // namespace queen::api

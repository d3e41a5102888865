// Switches and quotas: bodies, answers, and what the ladder makes of them.
#include "api/detail/switches.h"

#include <gtest/gtest.h>

#include "api/detail/kv.h"
#include "api/tests/fake_broker.h"

namespace queen::api {
namespace {

std::string get(Rig& rig, RouteHandler handler) {
  return answer_of(rig.call(handler, {}));
}

TEST(KvTimersSwitches, NeedOneBooleanAtLeast) {
  for (const auto* body : {"", "[]", "{}", R"({"kvEnabled":true})", R"({"kv":null})", R"({"kv":1})",
                           R"({"kv":true,"timersFire":"no"})"}) {
    Rig rig;
    EXPECT_EQ(answer_of(rig.post(handle_kv_timers_switch, body)).substr(0, 13), R"(400 {"error":)") << body;
    EXPECT_TRUE(rig.broker.commands.empty());
  }
}

TEST(KvTimersSwitches, AreFlagsOneAfterTheOther) {
  Rig rig;
  const auto sent = rig.post(handle_kv_timers_switch, R"({"kv":false,"timersFire":true})");
  ASSERT_EQ(rig.broker.commands.size(), 1U);
  const auto& first = std::get<machine::FlagCommand>(rig.broker.commands[0].body);
  EXPECT_EQ(first.name + "=" + first.value.value_or("unset"), "kv_enabled=0");
  rig.broker.outcomes.at(0)(machine::Outcome{});
  const auto& second = std::get<machine::FlagCommand>(rig.broker.commands.at(1).body);
  EXPECT_EQ(second.name + "=" + second.value.value_or("unset"), "timers_fire_enabled=unset");
  EXPECT_TRUE(sent->responses.empty());
  rig.broker.outcomes.at(1)(machine::Outcome{});
  EXPECT_EQ(answer_of(sent), R"(200 {"kvEnabled":true,"timersScheduleEnabled":true,"timersFireEnabled":true,)"
                             R"("quotaTenants":0,"quotaAgeMs":0,"quotaHot":false})");
  EXPECT_EQ(rig.context->deadlines.waiting(), 0U);
}

TEST(KvTimersSwitches, AnswerARefusalOfTheEngine) {
  Rig rig;
  const auto sent = rig.post(handle_kv_timers_switch, R"({"kv":false,"timersFire":false})");
  rig.broker.outcomes.at(0)(tl::unexpected(broker::Refusal{"no_leader", "x"}));
  EXPECT_EQ(answer_of(sent), R"(503 {"error":"x","code":"no_leader"})");
  EXPECT_EQ(rig.broker.commands.size(), 1U);
}

void store_flag(Rig& rig, std::string_view name, std::string_view value) {
  const auto gate = rig.broker.store.write_gate();
  rig.broker.store.put(store::Keyspace::flags, store::flag_key(name), store::encode_bytes_row(value));
}

TEST(KvTimersSwitches, ShowWhatIsStored) {
  Rig rig;
  store_flag(rig, broker::kTimersFireSwitch, "0");
  EXPECT_EQ(get(rig, handle_kv_timers),
            R"(200 {"kvEnabled":true,"timersScheduleEnabled":true,"timersFireEnabled":false,)"
            R"("quotaTenants":0,"quotaAgeMs":0,"quotaHot":false})");
}

TEST(KvTimersSwitches, CloseAndOpenKv) {
  Rig rig;
  store_flag(rig, broker::kKvSwitch, "0");
  const auto sent = rig.post(handle_kv, R"([{"op":"nothing"}])");  // a pause comes before the operations
  EXPECT_EQ(answer_of(sent), R"(503 {"error":"kv_disabled","detail":"an operator has paused this surface"})");
  EXPECT_EQ(header_of(sent->responses[0], "Retry-After"), "1");
  EXPECT_EQ(answer_of(rig.post(handle_kv, "{")).substr(0, 3), "400");
}

TEST(EphemeralSwitch, SetsItsFlag) {
  Rig rig;
  EXPECT_EQ(answer_of(rig.post(handle_ephemeral_switch, R"({"enabled":0})")),
            R"(400 {"error":"enabled must be true or false"})");
  EXPECT_EQ(answer_of(rig.post(handle_ephemeral_switch, "{}")),
            R"(400 {"error":"at least one of enabled is needed"})");
  EXPECT_EQ(get(rig, handle_ephemeral_switch_shown), R"(200 {"ephemeralEnabled":true})");
  const auto sent = rig.post(handle_ephemeral_switch, R"({"enabled":false})");
  store_flag(rig, broker::kEphemeralSwitch, "0");
  rig.broker.outcomes.at(0)(machine::Outcome{});
  EXPECT_EQ(answer_of(sent), R"(200 {"ephemeralEnabled":false,"mirrored":true})");
  EXPECT_EQ(get(rig, handle_ephemeral_switch_shown), R"(200 {"ephemeralEnabled":false})");
}

std::string fault_of(std::string_view body) {
  const auto parsed = parse_quota(body, kDefaultTenant);
  return parsed ? "" : parsed.error();
}

TEST(Quota, RefusesWhatItCannotStore) {
  EXPECT_EQ(fault_of("[]"), "the body must be a JSON object");
  EXPECT_EQ(fault_of("{}"), "kind must be kv, ephemeral or streams");
  EXPECT_EQ(fault_of(R"({"kind":"timers"})"), "kind must be kv, ephemeral or streams");
  EXPECT_EQ(fault_of(R"({"kind":"kv","tenant":"x"})"),
            "tenant must be the UUID of a tenant that may be served");
  EXPECT_EQ(fault_of(R"({"kind":"kv","tenant":"00000000-0000-0000-0000-00000000fffe"})"),
            "tenant must be the UUID of a tenant that may be served");
  EXPECT_EQ(fault_of(R"({"kind":"kv","enabled":1})"), "enabled must be true or false");
  EXPECT_EQ(fault_of(R"({"kind":"kv","maxRows":-1})"), "maxRows must be an integer, at least 0");
  EXPECT_EQ(fault_of(R"({"kind":"kv","max_rows":1.5})"), "maxRows must be an integer, at least 0");
  EXPECT_EQ(fault_of(R"({"kind":"kv","maxQueries":"1"})"), "maxQueries must be an integer, at least 0");
}

TEST(Quota, ReadsBothSpellings) {
  const auto parsed = parse_quota(
      R"({"kind":"ephemeral","tenantId":"01B7C0DE-0001-7AAA-8BBB-00000000000A","enabled":false,"max_rows":1,
          "maxBytes":2,"max_timers":3,"max_timer_horizon_seconds":4,"maxReadsPerSecond":5,
          "max_writes_per_second":6,"max_queues":7,"max_messages_per_second":8,"max_queries":9.0})",
      kDefaultTenant);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(render_quota(*parsed),
            R"({"success":true,"tenant":"01b7c0de-0001-7aaa-8bbb-00000000000a","kind":"ephemeral",)"
            R"("enabled":false,"maxRows":1,"maxBytes":2,"maxTimers":3,"maxTimerHorizonSeconds":4,)"
            R"("maxReadsPerSecond":5,"maxWritesPerSecond":6,"maxQueues":7,"maxMessagesPerSecond":8,)"
            R"("maxQueries":9})");
}

TEST(Quota, IsStoredForTheTenantOfTheRequestByDefault) {
  Rig rig;
  const auto sent = rig.post(handle_quota, R"({"kind":"kv","maxRows":5})");
  const auto& command = std::get<machine::QuotaCommand>(rig.broker.commands.at(0).body);
  EXPECT_EQ(command.tenant, kDefaultTenant);
  EXPECT_TRUE(command.row && command.row->enabled && command.row->max_rows == 5);
  rig.broker.outcomes.at(0)(machine::Outcome{});
  EXPECT_EQ(answer_of(sent).substr(0, 22), R"(200 {"success":true,"t)");
}

void store_quota(Rig& rig, const store::QuotaRow& row) {
  const auto gate = rig.broker.store.write_gate();
  rig.broker.store.put(store::Keyspace::quotas, store::quota_key(store::QuotaKind::kv, kDefaultTenant),
                       row.encode());
}

constexpr const char* kPut = R"([{"op":"put","ns":"n","key":"k","value":1,"forever":true}])";

TEST(KvOccupancy, IsChargedBeforeTheCallAndGivenBackWhenItWroteNothing) {
  Rig rig;
  store::QuotaRow row;
  row.max_rows = 1;
  store_quota(rig, row);
  rig.context->ladder.count_due();
  const auto first = rig.post(handle_kv, kPut);
  EXPECT_EQ(answer_of(rig.post(handle_kv, kPut)),
            R"(403 {"error":"kv_quota_exceeded","detail":"the tenant's allowance of rows is used up"})");
  machine::Outcome lost;
  lost.body = machine::KvOutcome{{machine::KvOpOutcome{}}, {}, {}, {}};
  rig.broker.outcomes.at(0)(std::move(lost));
  EXPECT_EQ(answer_of(first).substr(0, 3), "200");
  rig.context->ladder.count_now(std::string(kDefaultTenant));
  rig.post(handle_kv, kPut);  // the charge of the first was given back
  ASSERT_EQ(rig.broker.outcomes.size(), 2U);
  rig.broker.outcomes.at(1)(tl::unexpected(broker::Refusal{"retry", "unknown"}));
  EXPECT_EQ(answer_of(rig.post(handle_kv, kPut)).substr(0, 3), "403");  // the second's was not
}

TEST(KvOccupancy, IsGivenBackByACallThatIsRefused) {
  Rig rig;
  store::QuotaRow row;
  row.max_rows = 1;
  store_quota(rig, row);
  rig.context->ladder.count_due();
  EXPECT_EQ(answer_of(rig.post(handle_kv, R"([{"op":"put","ns":"N","key":"k","value":1,"forever":true}])"))
                .substr(0, 3),
            "400");
  rig.post(handle_kv, kPut);
  EXPECT_EQ(rig.broker.commands.size(), 1U);
}

TEST(KeepCounting, EndsWithItsContext) {
  ManualClock clock;
  ManualExecutor timers{clock};
  SeededRandom random{7};
  FakeBroker broker;
  store::QuotaRow row;
  row.max_rows = 5;
  {
    const auto gate = broker.store.write_gate();
    broker.store.put(store::Keyspace::quotas, store::quota_key(store::QuotaKind::kv, kDefaultTenant),
                     row.encode());
  }
  SharedContext context(new Context{broker, clock, random, timers, {}, Logger(null_log(), "api")});
  keep_counting(context);
  timers.run_for(3'500'000);
  EXPECT_EQ(context->ladder.shown().quota_tenants, 1U);
  EXPECT_EQ(context->ladder.shown().quota_age_us, 3'500'000);
  context.reset();
  timers.run_for(2'000'000);
  EXPECT_TRUE(timers.idle());
}

}  // namespace
}  // namespace queen::api

// Operator's switches (operations.md 8): flags of the replicated state.
#include "api/detail/switches.h"

#include <array>

#include "api/detail/json_check.h"
#include "api/detail/names.h"
#include "api/detail/resources.h"
#include "api/detail/submit.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

struct SwitchField {
  std::string_view field, flag;
};
constexpr std::array kKvTimers = {SwitchField{"kv", broker::kKvSwitch},
                                  SwitchField{"timersSchedule", broker::kTimersScheduleSwitch},
                                  SwitchField{"timersFire", broker::kTimersFireSwitch}};
constexpr std::array kEphemeral = {SwitchField{"enabled", broker::kEphemeralSwitch}};

tl::expected<std::vector<SwitchSetting>, std::string> parse_switches(std::string_view body,
                                                                     std::span<const SwitchField> known) {
  const auto value = body_value(body);
  const auto fields = value ? JsonFields::of(*value) : std::nullopt;
  if (!fields) return tl::unexpected(std::string("the body must be a JSON object"));
  std::vector<SwitchSetting> out;
  std::string names;
  for (const SwitchField& one : known) {
    names.append(names.empty() ? "" : ", ").append(one.field);
    const JsonValue* given = fields->find(one.field);
    if (given == nullptr) continue;
    if (given->kind != JsonKind::boolean)
      return tl::unexpected(std::string(one.field) + " must be true or false");
    out.push_back({one.flag, given->is_true()});
  }
  if (out.empty()) return tl::unexpected("at least one of " + names + " is needed");
  return out;
}

using Render = std::string (*)(const Ladder::Shown& shown);

// One flag after the other: each is an entry of its own.
void set_next(const SharedContext& context, std::unique_ptr<Reply> reply, std::vector<SwitchSetting> left,
              Render render) {
  if (left.empty()) {
    context->ladder.forget();
    // On a thread that may wait for the store.
    return answer_from_look(context, std::move(reply), [context, render] {
      return json_response(200, render(context->ladder.shown()));
    });
  }
  const SwitchSetting one = left.front();
  left.erase(left.begin());
  machine::FlagCommand flag{std::string(one.name), std::nullopt};
  if (!one.on) flag.value = Bytes(broker::kSwitchedOff);
  auto pending = std::make_shared<Pending>(context->deadlines, std::move(reply));
  machine::Command command{std::string(kDefaultTenant),
                           make_uuid_v7(context->clock.wall_us(), context->random), std::move(flag)};
  command.deadline_mono_us = context->deadline_us(context->settings.stmt_timeout_ms);
  pending->set_deadline(command.deadline_mono_us, [pending] { pending->answer(timeout_response()); });
  context->broker.submit(std::move(command), [context, pending, one, left = std::move(left),
                                              render](broker::Answer<machine::Outcome> answer) mutable {
    if (!pending->claim()) return;
    if (const auto refusal = refusal_of(answer)) return pending->send(refusal_response(*refusal));
    context->log.warn("switch", {{"name", one.name}, {"on", one.on}});
    set_next(context, pending->release(), std::move(left), render);
  });
}

std::string render_ephemeral(const Ladder::Shown& shown) {
  return shown.ephemeral ? R"({"ephemeralEnabled":true,"mirrored":true})"
                         : R"({"ephemeralEnabled":false,"mirrored":true})";
}

}  // namespace

tl::expected<std::vector<SwitchSetting>, std::string> parse_kv_timers(std::string_view body) {
  return parse_switches(body, kKvTimers);
}
tl::expected<std::vector<SwitchSetting>, std::string> parse_ephemeral_switch(std::string_view body) {
  return parse_switches(body, kEphemeral);
}

std::string render_kv_timers(const Ladder::Shown& shown) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("kvEnabled").boolean(shown.kv);
  out.name("timersScheduleEnabled").boolean(shown.timers_schedule);
  out.name("timersFireEnabled").boolean(shown.timers_fire);
  out.name("quotaTenants").number(shown.quota_tenants);
  out.name("quotaAgeMs").number(shown.quota_age_us / 1000).name("quotaHot").boolean(shown.quota_hot);
  out.close('}');
  return text;
}

void handle_kv_timers(const SharedContext& context, Inbound inbound) {
  inbound.reply->send(json_response(200, render_kv_timers(context->ladder.shown())));
}

void handle_kv_timers_switch(const SharedContext& context, Inbound inbound) {
  auto parsed = parse_kv_timers(inbound.request.body);
  if (!parsed) return inbound.reply->send(operator_fault(parsed.error()));
  set_next(context, std::move(inbound.reply), *std::move(parsed), render_kv_timers);
}

void handle_ephemeral_switch_shown(const SharedContext& context, Inbound inbound) {
  const bool on = context->ladder.shown().ephemeral;
  inbound.reply->send(
      json_response(200, on ? R"({"ephemeralEnabled":true})" : R"({"ephemeralEnabled":false})"));
}

void handle_ephemeral_switch(const SharedContext& context, Inbound inbound) {
  auto parsed = parse_ephemeral_switch(inbound.request.body);
  if (!parsed) return inbound.reply->send(operator_fault(parsed.error()));
  set_next(context, std::move(inbound.reply), *std::move(parsed), render_ephemeral);
}

}  // namespace queen::api

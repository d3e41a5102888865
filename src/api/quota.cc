// Grants and limits of a tenant (operations.md 8).
#include <array>

#include "api/detail/json_check.h"
#include "api/detail/names.h"
#include "api/detail/submit.h"
#include "api/detail/switches.h"
#include "api/json_writer.h"
#include "base/text.h"

namespace queen::api {
namespace {

struct KindName {
  std::string_view name;
  store::QuotaKind kind;
};
constexpr std::array kKinds = {KindName{"kv", store::QuotaKind::kv},
                               KindName{"ephemeral", store::QuotaKind::ephemeral},
                               KindName{"streams", store::QuotaKind::streams}};

struct Limit {
  std::string_view name, snake;
  std::int64_t store::QuotaRow::* member;
};
constexpr std::array kLimits = {
    Limit{"maxRows", "max_rows", &store::QuotaRow::max_rows},
    Limit{"maxBytes", "max_bytes", &store::QuotaRow::max_bytes},
    Limit{"maxTimers", "max_timers", &store::QuotaRow::max_timers},
    Limit{"maxTimerHorizonSeconds", "max_timer_horizon_seconds", &store::QuotaRow::max_timer_horizon_s},
    Limit{"maxReadsPerSecond", "max_reads_per_second", &store::QuotaRow::max_reads_per_s},
    Limit{"maxWritesPerSecond", "max_writes_per_second", &store::QuotaRow::max_writes_per_s},
    Limit{"maxQueues", "max_queues", &store::QuotaRow::max_queues},
    Limit{"maxMessagesPerSecond", "max_messages_per_second", &store::QuotaRow::max_msgs_per_s},
    Limit{"maxQueries", "max_queries", &store::QuotaRow::max_queries}};

const JsonValue* either(const JsonFields& fields, std::string_view name, std::string_view other) {
  const JsonValue* value = fields.find_set(name);
  return value != nullptr ? value : fields.find_set(other);
}

std::string text_of(const JsonValue* value) {
  return value != nullptr ? string_of(*value).value_or("") : "";
}

// Nothing: the body names none. Empty: one that no request can have.
std::optional<std::string> tenant_of(const JsonFields& fields) {
  const JsonValue* value = either(fields, "tenant", "tenantId");
  if (value == nullptr) value = fields.find_set("tenant_id");
  if (value == nullptr) return std::nullopt;
  const std::string text = text_of(value);
  if (text.empty()) return "";
  const TenantChoice choice = choose_tenant(true, text);
  return choice.verdict == TenantChoice::Verdict::served ? choice.tenant : "";
}

}  // namespace

tl::expected<QuotaRequest, std::string> parse_quota(std::string_view body, std::string_view tenant) {
  const auto value = body_value(body);
  const auto fields = value ? JsonFields::of(*value) : std::nullopt;
  if (!fields) return tl::unexpected(std::string("the body must be a JSON object"));
  QuotaRequest out;
  const std::string kind = text_of(fields->find("kind"));
  const KindName* known = nullptr;
  for (const KindName& one : kKinds)
    if (one.name == kind) known = &one;
  if (known == nullptr) return tl::unexpected(std::string("kind must be kv, ephemeral or streams"));
  out.kind = known->kind;
  out.tenant = tenant_of(*fields).value_or(std::string(tenant));
  if (out.tenant.empty())
    return tl::unexpected(std::string("tenant must be the UUID of a tenant that may be served"));
  out.row.enabled = true;
  if (const JsonValue* enabled = fields->find_set("enabled")) {
    if (enabled->kind != JsonKind::boolean)
      return tl::unexpected(std::string("enabled must be true or false"));
    out.row.enabled = enabled->is_true();
  }
  for (const Limit& limit : kLimits) {
    const JsonValue* given = either(*fields, limit.name, limit.snake);
    if (given == nullptr) continue;
    const auto number = integral_of(*given);
    if (!number || *number < 0)
      return tl::unexpected(std::string(limit.name) + " must be an integer, at least 0");
    out.row.*limit.member = *number;
  }
  return out;
}

std::string render_quota(const QuotaRequest& quota) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("success").boolean(true).name("tenant").text(quota.tenant).name("kind");
  for (const KindName& one : kKinds)
    if (one.kind == quota.kind) out.text(one.name);
  out.name("enabled").boolean(quota.row.enabled);
  for (const Limit& limit : kLimits) out.name(limit.name).number(quota.row.*limit.member);
  out.close('}');
  return text;
}

http::Response operator_fault(std::string_view what) {
  http::Response response;
  response.status = 400;
  JsonWriter out(response.body);
  out.open('{').name("error").text(what).close('}');
  return response;
}

void handle_quota(const SharedContext& context, Inbound inbound) {
  auto parsed = parse_quota(inbound.request.body, inbound.tenant);
  if (!parsed) return inbound.reply->send(operator_fault(parsed.error()));
  machine::Command command{std::move(inbound.tenant), make_uuid_v7(context->clock.wall_us(), context->random),
                           machine::QuotaCommand{parsed->kind, parsed->tenant, parsed->row}};
  submit_command<machine::Nothing>(
      context, std::move(inbound.reply), context->settings.stmt_timeout_ms, std::move(command),
      // The tenant's use is counted before the answer, so that its next call is judged by the new limits.
      [context, tenant = parsed->tenant](machine::Command quota, auto done) {
        context->broker.submit(
            std::move(quota), [context, tenant, done = std::move(done)](auto answer) mutable {
              context->ladder.forget();
              context->broker.look(
                  [context, tenant, done = std::move(done), answer = std::move(answer)]() mutable {
                    context->ladder.count_now(tenant);
                    done(std::move(answer));
                  });
            });
      },
      [quota = *parsed](const machine::Nothing&) { return json_response(200, render_quota(quota)); },
      refusal_response);
}

void keep_counting(const SharedContext& context) {
  context->broker.look([weak = std::weak_ptr(context)] {
    const auto held = weak.lock();
    if (!held) return;
    held->ladder.count_due();
    held->timers.post_after(Ladder::kTickUs, [weak] {
      if (const auto again = weak.lock()) keep_counting(again);
    });
  });
}

}  // namespace queen::api

// Lease renewal (api-messaging.md 6).
#include "api/detail/lease.h"

#include <algorithm>
#include <limits>

#include "api/detail/names.h"
#include "api/detail/submit.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

constexpr std::int64_t kSecondsDefault = 60;
constexpr std::int64_t kSecondsMax = std::numeric_limits<std::int32_t>::max();

}  // namespace

std::int64_t parse_renewal_seconds(std::string_view body) {
  const auto value = body_value(body);
  const auto fields = value ? JsonFields::of(*value) : std::nullopt;
  const JsonValue* seconds = fields ? fields->find_set("seconds") : nullptr;
  const auto number = seconds != nullptr ? integral_of(*seconds) : std::nullopt;
  return std::clamp<std::int64_t>(number.value_or(kSecondsDefault), 1, kSecondsMax);
}

// Three clients read the expiry under three names.
std::string render_renewal(std::string_view lease_id, const machine::RenewOutcome& outcome) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("leaseId").text(to_valid_utf8(lease_id)).name("success").boolean(outcome.renewed > 0);
  out.name("renewed").number(outcome.renewed);
  for (const std::string_view name : {"newExpiresAt", "expiresAt", "lease_expires_at"}) {
    out.name(name);
    if (outcome.expires_at) {
      out.instant(*outcome.expires_at);
    } else {
      out.null();
    }
  }
  out.close('}');
  return text;
}

void handle_lease_extend(const SharedContext& context, Inbound inbound) {
  std::string lease_id = inbound.request.params.at(0);
  machine::Command command{std::move(inbound.tenant), make_uuid_v7(context->clock.wall_us(), context->random),
                           machine::RenewCommand{lease_id, parse_renewal_seconds(inbound.request.body)}};
  submit_command<machine::RenewOutcome>(
      context, std::move(inbound.reply), context->settings.stmt_timeout_ms, std::move(command),
      [&broker = context->broker](machine::Command renewal, auto done) {
        broker.submit(std::move(renewal), std::move(done));
      },
      [lease_id = std::move(lease_id)](const machine::RenewOutcome& outcome) {
        return json_response(200, render_renewal(lease_id, outcome));
      },
      refusal_response);
}

}  // namespace queen::api

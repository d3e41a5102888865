// What an operator sets: switches of the state plane, grants and limits of tenants (operations.md 8).
#pragma once

#include <string>
#include <string_view>

#include "api/detail/context.h"
#include "store/rows.h"

namespace queen::api {

// Flags to set, in order; `on` true unsets.
struct SwitchSetting {
  std::string_view name;
  bool on = true;
};
// Errors: a sentence for the operator.
tl::expected<std::vector<SwitchSetting>, std::string> parse_kv_timers(std::string_view body);
tl::expected<std::vector<SwitchSetting>, std::string> parse_ephemeral_switch(std::string_view body);
std::string render_kv_timers(const Ladder::Shown& shown);

struct QuotaRequest {
  store::QuotaKind kind = store::QuotaKind::kv;
  std::string tenant;
  store::QuotaRow row;
};
// `tenant`: of the request, for a body that names none.
tl::expected<QuotaRequest, std::string> parse_quota(std::string_view body, std::string_view tenant);
std::string render_quota(const QuotaRequest& quota);
// 400 `{"error":…}`.
http::Response operator_fault(std::string_view what);

void handle_kv_timers(const SharedContext& context, Inbound inbound);
void handle_kv_timers_switch(const SharedContext& context, Inbound inbound);
void handle_ephemeral_switch_shown(const SharedContext& context, Inbound inbound);
void handle_ephemeral_switch(const SharedContext& context, Inbound inbound);
void handle_quota(const SharedContext& context, Inbound inbound);

// Counts what limited tenants hold, now and every Ladder::kTickUs, as long as `context` is there.
void keep_counting(const SharedContext& context);

}  // namespace queen::api

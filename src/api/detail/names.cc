#include "api/detail/names.h"

#include <algorithm>

#include "base/text.h"

namespace queen::api {
namespace {

constexpr std::string_view kProxyTenant = "00000000-0000-0000-0000-00000000fffe";

std::size_t key_bytes(std::string_view name) {
  return name.size() + static_cast<std::size_t>(std::count(name.begin(), name.end(), '\0'));
}

}  // namespace

bool names_fit(std::string_view tenant, std::string_view queue, std::string_view partition,
               std::string_view group) {
  const std::size_t group_bytes = group == machine::kQueueMode ? 0 : key_bytes(group);
  return tenant.size() + key_bytes(queue) + std::max(key_bytes(partition), group_bytes) <= kNameBudgetBytes;
}

broker::Refusal name_too_long() {
  return {"name_too_long", "tenant, queue and the longer of partition and group exceed 447 bytes together"};
}
broker::Refusal bad_body(std::string what) {
  return {"bad_body", std::move(what)};
}
broker::Refusal bad_request(std::string what) {
  return {"bad_request", std::move(what)};
}

broker::Answer<JsonValue> body_value(std::string_view body) {
  if (!is_utf8_fast(body)) return tl::unexpected(bad_body("the body is not UTF-8"));
  JsonScanner scanner(body);
  JsonValue value;
  if (!scanner.value(value) || !scanner.done())
    return tl::unexpected(bad_body("the body is not JSON, or nested deeper than 1024"));
  return value;
}

machine::Subscription::Mode subscription_mode(std::string_view text) {
  const std::string word = lower_ascii(trim(text));
  const bool fresh = word == "new" || word == "new-only" || word == "new_only" || word == "newonly";
  return fresh ? machine::Subscription::Mode::fresh : machine::Subscription::Mode::all;
}

TenantChoice choose_tenant(bool header_counts, std::string_view header) {
  using Verdict = TenantChoice::Verdict;
  if (!header_counts || header.empty()) return {std::string(kDefaultTenant), Verdict::served};
  const auto id = Uuid::parse(header);
  if (!id) return {{}, Verdict::malformed};
  std::string tenant = id->str();
  if (tenant == kProxyTenant) return {std::move(tenant), Verdict::reserved};
  return {std::move(tenant), Verdict::served};
}

}  // namespace queen::api

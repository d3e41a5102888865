// Fields that the routes of the key/value store read alike.
#include "api/detail/kv_fields.h"

#include <algorithm>

#include "api/detail/names.h"

namespace queen::api {
namespace {

constexpr std::size_t kNamespaceBytesMax = 64;

}  // namespace

KvFault kv_bad_request(std::string_view reason, std::string detail) {
  return {400, "kv_bad_request", std::string(reason), std::move(detail)};
}

std::optional<KvFault> kv_query_fault(const http::Request& request) {
  if (request.query.empty()) return std::nullopt;
  return kv_bad_request("kv_no_query_string", "this route takes no query string");
}

bool is_kv_namespace(std::string_view name) {
  const auto inner = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  if (name.empty() || name.size() > kNamespaceBytesMax) return false;
  const bool head = inner(name[0]) && name[0] != '.' && name[0] != '_' && name[0] != '-';
  return head && std::all_of(name.begin(), name.end(), inner);
}

KvScalar kv_scalar_of(const JsonValue* value) {
  if (value == nullptr || value->is_null()) return {};
  if (value->kind == JsonKind::array || value->kind == JsonKind::object) return {true, std::nullopt};
  if (value->kind != JsonKind::string) return {false, std::string(value->text)};
  auto text = string_of(*value);
  return {!text.has_value(), std::move(text)};
}

std::optional<KvFault> kv_tenant_fault(const JsonFields& fields) {
  for (const std::string_view name : {"tenant", "tenantId", "_tenant"})
    if (fields.find(name) != nullptr)
      return kv_bad_request("kv_tenant_not_an_input", "the tenant comes from the request, not from its body");
  return std::nullopt;
}

std::optional<KvFault> read_kv_limit(const JsonFields& fields, std::uint32_t& out) {
  const JsonValue* value = fields.find_set("limit");
  const auto limit = value != nullptr ? integral_of(*value) : std::optional(kKvPageDefault);
  if (!limit) return kv_bad_request("kv_bad_request", "limit must be an integer");
  out = static_cast<std::uint32_t>(std::clamp<std::int64_t>(*limit, 1, kKvPageMax));
  return std::nullopt;
}

std::optional<KvFault> read_kv_flag(const JsonFields& fields, std::string_view name, bool& out) {
  const JsonValue* value = fields.find_set(name);
  if (value == nullptr) return std::nullopt;
  if (value->kind != JsonKind::boolean)
    return kv_bad_request("kv_bad_request", std::string(name) + " must be true or false");
  out = value->is_true();
  return std::nullopt;
}

std::optional<std::vector<JsonValue>> operations_of(std::string_view body) {
  const auto value = body_value(body);
  if (!value) return std::nullopt;
  if (value->kind == JsonKind::array) return elements_of(*value);
  const auto top = JsonFields::of(*value);
  const JsonValue* list = top ? top->find("operations") : nullptr;
  return list != nullptr ? elements_of(*list) : std::nullopt;
}

}  // namespace queen::api

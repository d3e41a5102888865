// Fields that the routes of the key/value store read alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/detail/json_check.h"
#include "api/detail/kv.h"

namespace queen::api {

inline constexpr std::int64_t kKvPageDefault = 100;
inline constexpr std::int64_t kKvPageMax = 1000;
// About 3,000 years: an expiry that still fits a timestamp of four-digit years.
inline constexpr std::int64_t kTtlSecondsMax = 100'000'000'000;

KvFault kv_bad_request(std::string_view reason, std::string detail);

// Of routes that take no query string: a key or a prefix must never end up in a log of addresses.
std::optional<KvFault> kv_query_fault(const http::Request& request);

// `^[a-z0-9][a-z0-9._-]{0,63}$`
bool is_kv_namespace(std::string_view name);

// A name given as a string, or as another scalar whose JSON text it is.
struct KvScalar {
  bool wrong_type = false;          // an array or an object, or a string without a UTF-8 form
  std::optional<std::string> text;  // nothing when absent or null
};
KvScalar kv_scalar_of(const JsonValue* value);

// A body may not name a tenant.
std::optional<KvFault> kv_tenant_fault(const JsonFields& fields);
// `limit`, held within 1..1000, and flags; absent and null leave the default.
std::optional<KvFault> read_kv_limit(const JsonFields& fields, std::uint32_t& out);
std::optional<KvFault> read_kv_flag(const JsonFields& fields, std::string_view name, bool& out);

// The operations of a batch: the body itself when it is an array, else its `operations`. Nothing when it is
// neither.
std::optional<std::vector<JsonValue>> operations_of(std::string_view body);

}  // namespace queen::api

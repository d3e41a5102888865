// Names and the request values that several resources share.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "api/detail/json_check.h"
#include "broker/broker.h"

namespace queen::api {

inline constexpr std::size_t kNameBudgetBytes = 447;
inline constexpr std::size_t kTransactionIdBytesMax = 65'535;
inline constexpr std::string_view kDefaultPartition = "Default";

// tenant + queue + the longer of partition and group, at most 447 bytes. A NUL counts two, as the store's
// keys write it. The group of queue mode is free.
bool names_fit(std::string_view tenant, std::string_view queue, std::string_view partition,
               std::string_view group = {});
broker::Refusal name_too_long();
broker::Refusal bad_body(std::string what);
broker::Refusal bad_request(std::string what);

// The one value of a request body: UTF-8, one JSON value, nothing after it. Errors: bad_body.
broker::Answer<JsonValue> body_value(std::string_view body);

// `new` and its spellings; every other text means all (api-messaging.md 4.1).
machine::Subscription::Mode subscription_mode(std::string_view text);

// The tenant a request belongs to.
struct TenantChoice {
  std::string tenant;
  enum class Verdict : std::uint8_t { served, malformed, reserved } verdict = Verdict::served;
};
TenantChoice choose_tenant(bool header_counts, std::string_view header);

}  // namespace queen::api

// POST /api/v1/lease/:leaseId/extend.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/detail/context.h"

namespace queen::api {

// Never refuses: whatever names no whole number of seconds means 60.
std::int64_t parse_renewal_seconds(std::string_view body);
std::string render_renewal(std::string_view lease_id, const machine::RenewOutcome& outcome);

void handle_lease_extend(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

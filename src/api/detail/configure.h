// POST /api/v1/configure: create or change a queue.
#pragma once

#include <string>
#include <string_view>

#include "api/detail/context.h"

namespace queen::api {

// Without the minted id. Errors: bad_body (no JSON object), bad_request, name_too_long.
broker::Answer<machine::ConfigureCommand> parse_configure(std::string_view body, std::string_view tenant);
std::string render_configure(std::string_view queue, const store::QueueRow& row);

void handle_configure(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

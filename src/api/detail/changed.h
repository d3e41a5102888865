// POST /api/v1/partitions/changed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/detail/context.h"

namespace queen::api {

// Errors: bad_body.
broker::Answer<std::vector<broker::ChangedEntry>> parse_changed(std::string_view body);
std::string render_changed(const std::vector<broker::ChangedEntry>& entries,
                           const broker::ChangedAnswer& answer);

void handle_changed(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

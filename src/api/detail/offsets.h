// POST /api/v1/fetch/offsets: the first message at or after a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/detail/context.h"

namespace queen::api {

// Errors: bad_body; its text is what §8 of the contract names.
broker::Answer<std::vector<broker::OffsetEntry>> parse_offsets(std::string_view body);
std::string render_offsets(const std::vector<broker::OffsetEntry>& entries,
                           const std::vector<broker::OffsetEntryAnswer>& answers);

void handle_fetch_offsets(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

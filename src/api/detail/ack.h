// POST /api/v1/ack and /api/v1/ack/batch: both take both bodies, the answer is always an array.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/detail/context.h"

namespace queen::api {

// Without the minted dead letter ids. Errors: bad_body.
broker::Answer<machine::AckCommand> parse_ack(std::string_view body);
// `transaction_ids`: of the items, in request order.
std::string render_ack(const std::vector<std::string>& transaction_ids, const machine::AckOutcome& outcome);

void handle_ack(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

// POST /api/v1/ack and /api/v1/ack/batch: both take both bodies, the answer is always an array.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/detail/context.h"
#include "api/detail/json_check.h"

namespace queen::api {

// One acknowledgment, also of a transaction. Errors: bad_body.
broker::Answer<machine::AckItem> parse_ack_item(const JsonFields& fields);
void mint_dead_letter_ids(machine::AckCommand& command, std::int64_t wall_us, Random& random);

// Without the minted dead letter ids. Errors: bad_body.
broker::Answer<machine::AckCommand> parse_ack(std::string_view body);
// `transaction_ids`: of the items, in request order.
std::string render_ack(const std::vector<std::string>& transaction_ids, const machine::AckOutcome& outcome);

void handle_ack(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

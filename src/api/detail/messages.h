// GET /api/v1/messages and GET /api/v1/messages/:partitionId/:transactionId.
#pragma once

#include <string>

#include "api/detail/context.h"
#include "api/detail/query.h"
#include "broker/resources.h"

namespace queen::api {

// The query of a browse; `now_us` stands for what is not given. `query` knows what did not parse; another
// refusal is the answer's error.
broker::Answer<broker::MessageQuery> parse_browse(Query& query, std::int64_t now_us);

std::string render_messages(const broker::MessageQuery& query, const broker::MessagesView& view);
std::string render_message(const broker::MessageDetail& detail);

void handle_messages(const SharedContext& context, Inbound inbound);
void handle_message(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

// GET /api/v1/resources/queues.
#pragma once

#include <string>

#include "api/detail/context.h"

namespace queen::api {

std::string render_queues(const broker::QueuesAnswer& answer);
// The cheap form, `?stats=lanes`.
std::string render_queue_lanes(const broker::QueuesAnswer& answer);

void handle_queues(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

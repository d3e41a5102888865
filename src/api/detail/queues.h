// GET /api/v1/resources/queues and DELETE /api/v1/resources/queues/:queue.
#pragma once

#include <string>
#include <string_view>

#include "api/detail/context.h"

namespace queen::api {

std::string render_queues(const broker::QueuesAnswer& answer);
// Their rows alone, as `GET /api/v1/status/queues` has them.
std::string render_queue_rows(const broker::QueuesAnswer& answer);
// The cheap form, `?stats=lanes`.
std::string render_queue_lanes(const broker::QueuesAnswer& answer);

std::string render_queue_deleted(std::string_view queue, const machine::QueueDeleteOutcome& outcome);

void handle_queue_delete(const SharedContext& context, Inbound inbound);
void handle_queues(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

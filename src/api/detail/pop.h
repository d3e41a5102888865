// GET /api/v1/pop/queue/:queue, …/partition/:partition, and /api/v1/pop for discovery.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/detail/context.h"
#include "api/detail/query.h"

namespace queen::api {

struct PopRequest {
  machine::PopCommand command;  // without its minted ids
  bool wait = false;
  std::int64_t timeout_ms = 0;  // clamped
  bool group_named = false;
};
// What a request is refused with before it reaches the broker.
using PopParse = tl::expected<PopRequest, http::Response>;
// `partition`: of a pinned pop. Errors: the response to send.
PopParse parse_pop(Query query, std::string queue, std::optional<std::string> partition,
                   std::string_view tenant, const ApiSettings& settings);
// Of a discovery: every queue with the labels that the query names.
PopParse parse_discovery(Query query, std::string_view tenant, const ApiSettings& settings);

// What the answer needs of the request.
struct PopEcho {
  std::string queue;
  std::optional<std::string> partition;
  std::string group;
  Uuid lease_id;
  bool commit_on_delivery = false;
  bool autopilot = false;  // the broker chose at least one of batch and partitions
};
PopEcho echo_of(const PopRequest& request);
// 200 with messages, 204 without; 200 without messages when a conflation flag must be told (C-4).
http::Response render_pop(const PopEcho& echo, const broker::PopAnswer& answer);

void handle_pop_discovery(const SharedContext& context, Inbound inbound);
void handle_pop_queue(const SharedContext& context, Inbound inbound);
void handle_pop_partition(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

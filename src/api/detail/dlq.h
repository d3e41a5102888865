// Dead letters: list, purge, delete, replay (api-messaging.md 12 and 11.3).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/detail/context.h"
#include "broker/dead_letters.h"

namespace queen::api {

std::string render_dlq_page(const broker::DeadLetterPage& page, const broker::PageRange& range);

// Where a replay shall go instead of where the message came from.
struct ReplayTarget {
  std::optional<std::string> queue, partition;
};
// An empty body is none. Errors: bad_body, bad_request (an empty name).
broker::Answer<ReplayTarget> parse_replay(std::string_view body);

// What the answer of a replay tells.
struct ReplayEcho {
  std::string queue, partition;  // where the copy goes
  std::string group;             // that gave up on the message
  std::string transaction_id;    // of the message
  Uuid dlq_id;
  Uuid message_id;  // of the copy
};
http::Response render_replay(const ReplayEcho& echo, const machine::DeadLetterReplayOutcome& outcome);

void handle_dlq_list(const SharedContext& context, Inbound inbound);
void handle_dlq_purge(const SharedContext& context, Inbound inbound);
void handle_dlq_replay(const SharedContext& context, Inbound inbound);
void handle_message_delete(const SharedContext& context, Inbound inbound);
void handle_message_retry(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

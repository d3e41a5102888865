// Streams: the registry of queries, a query's state, and the cycle that commits state, sink pushes and the
// ack of the source together (api-state.md 5). Windows and operators are the client's. The bodies are in
// snake_case, but for `ack` and `push_items`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/detail/context.h"
#include "api/detail/push.h"
#include "broker/streams_reads.h"

namespace queen::api {

// Errors of all three: bad_body, bad_request; a cycle's also name_too_long.
broker::Answer<machine::StreamsRegisterCommand> parse_streams_query(std::string_view body);

struct StreamsStateAsk {
  Uuid query_id;
  std::string partition;  // its number or UUID
  broker::StreamsStateFilter filter;
  std::optional<std::int64_t> ripe_at_or_before;  // ms since the epoch
};
broker::Answer<StreamsStateAsk> parse_streams_state(std::string_view body);

struct StreamsCycleBody {
  std::string partition;
  machine::StreamsCycleCommand command;  // without pid and push
  PushBody push;
};
// `body` must outlive the result and stay where it is.
broker::Answer<StreamsCycleBody> parse_streams_cycle(std::string_view body, std::string_view tenant);

// How many queries the tenant may have, nothing for no limit: the default tenant is free, others need a grant
// (ST-4).
std::optional<std::uint64_t> streams_queries_max(const broker::StateReads& state, std::string_view tenant);

// What an answer tells of the request.
struct StreamsRegisterEcho {
  std::string name, config_hash;
};
http::Response render_streams_query(const StreamsRegisterEcho& echo,
                                    const machine::StreamsRegisterOutcome& outcome);
std::string render_streams_state(const StreamsStateAsk& ask, const std::vector<broker::StreamsState>& rows);
struct StreamsCycleEcho {
  Uuid query_id;
  Pid pid;
  PushBody push;
  std::vector<PushPlace> places;  // aligned with the items
};
http::Response render_streams_cycle(const StreamsCycleEcho& echo,
                                    const machine::StreamsCycleOutcome& outcome);

void handle_streams_query(const SharedContext& context, Inbound inbound);
void handle_streams_state(const SharedContext& context, Inbound inbound);
void handle_streams_cycle(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

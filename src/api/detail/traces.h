// Traces: what workers tell of a message (api-messaging.md 13).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/detail/context.h"
#include "broker/traces.h"

namespace queen::api {

// Names of one trace event; each is a row.
inline constexpr std::size_t kTraceNamesMax = 256;

struct TraceRequest {
  std::optional<std::string> partition;  // number or UUID, as sent
  std::string transaction_id;
  std::optional<Uuid> trace_id;
  store::TraceRow row;  // without its ids and its stamp
};
// Errors: bad_body, bad_request, name_too_long (a store key above its limit), which is 400 here.
broker::Answer<TraceRequest> parse_trace(std::string_view body, std::string_view tenant);
http::Response trace_refused(const broker::Refusal& refusal);

std::string render_traces(const broker::TracePage& page, const broker::PageRange& range);
std::string render_trace_names(const broker::TraceNamesPage& page, const broker::PageRange& range);

void handle_trace_append(const SharedContext& context, Inbound inbound);
void handle_traces_of_message(const SharedContext& context, Inbound inbound);
void handle_traces_by_name(const SharedContext& context, Inbound inbound);
void handle_trace_names(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

// In-memory queues over HTTP (api-state.md 6).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/detail/context.h"
#include "api/detail/query.h"
#include "ephemeral/engine.h"

namespace queen::api {

// Errors of the parsers: a sentence for the client, sent as ephemeral_bad_request.
template <class T>
using EphemeralParse = tl::expected<T, std::string>;

struct EphemeralPush {
  std::string queue, partition;
  std::vector<std::string> payloads;  // JSON texts as sent
};
EphemeralParse<EphemeralPush> parse_ephemeral_push(std::string_view body);

struct EphemeralPop {
  ephemeral::PopRequest request;  // without tenant and end of the wait
  bool wait = false;
  std::int64_t timeout_ms = 0;
};
EphemeralParse<EphemeralPop> parse_ephemeral_pop(Query query, const ApiSettings& settings);

struct EphemeralAcks {
  std::string queue, group;
  struct One {
    std::string id;
    ephemeral::Status status = ephemeral::Status::done;
  };
  std::vector<One> acks;
};
EphemeralParse<EphemeralAcks> parse_ephemeral_acks(std::string_view body);

struct EphemeralOptions {
  std::string queue;
  ephemeral::Declaration declaration;
};
EphemeralParse<EphemeralOptions> parse_ephemeral_configure(std::string_view body);
// The body of a reset: nothing but its queue.
EphemeralParse<std::string> parse_ephemeral_reset(std::string_view body);
// "" or what is wrong with it.
std::string ephemeral_name_fault(std::string_view what, std::string_view name);

std::string render_ephemeral_messages(std::string_view queue,
                                      const std::vector<ephemeral::Message>& messages);
std::string render_ephemeral_acks(const EphemeralAcks& acks,
                                  const std::vector<ephemeral::AckOutcome>& outcomes);
std::string render_ephemeral_declaration(std::string_view queue, const ephemeral::Declaration& declaration);
std::string render_ephemeral_queues(const std::vector<ephemeral::QueueView>& queues, std::int64_t bytes);
std::string render_ephemeral_depth(std::string_view queue, std::string_view group,
                                   const ephemeral::DepthView& depth);

// `{"error":…,"code":…}`.
http::Response ephemeral_fault(int status, std::string_view code, std::string_view text,
                               std::int64_t retry_after_s = 0);
http::Response ephemeral_bad_request(std::string_view text);
http::Response ephemeral_refused(ephemeral::Refused refused);
http::Response ephemeral_denied(const Denied& denied);

// Declarations are rows of the replicated state.
ephemeral::Declaration declaration_of(const store::EphemeralRow& row);
store::EphemeralRow row_of(const ephemeral::Declaration& declaration);
// What the tenant may hold, as far as this node knows.
ephemeral::TenantMax ephemeral_max(const SharedContext& context, const std::string& tenant);

void handle_ephemeral_push(const SharedContext& context, Inbound inbound);
void handle_ephemeral_pop(const SharedContext& context, Inbound inbound);
void handle_ephemeral_ack(const SharedContext& context, Inbound inbound);
void handle_ephemeral_configure(const SharedContext& context, Inbound inbound);
void handle_ephemeral_reset(const SharedContext& context, Inbound inbound);
void handle_ephemeral_delete(const SharedContext& context, Inbound inbound);
void handle_ephemeral_queues(const SharedContext& context, Inbound inbound);
void handle_ephemeral_depth(const SharedContext& context, Inbound inbound);
// Calls of one node to another: refused, as this node is alone.
void handle_ephemeral_peer(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

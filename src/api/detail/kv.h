// POST /api/v1/kv: a batch of operations on the key-value store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/detail/context.h"
#include "api/detail/json_check.h"
#include "api/json_writer.h"

namespace queen::api {

// `{"error":code,"reason":reason,"detail":detail}`: the envelope of the state plane.
struct KvFault {
  int status = 400;
  std::string error = "kv_bad_request";
  std::string reason;
  std::string detail;
};
http::Response kv_fault_response(const KvFault& fault);
// A refusal of the engine underneath, in the envelope that the code calls for.
http::Response kv_refusal_response(const broker::Refusal& refusal);

// Errors: what the contract's validation table names, the first in its order.
tl::expected<machine::KvCommand, KvFault> parse_kv(std::string_view body, std::string_view tenant,
                                                   const ApiSettings& settings);
// What one call may name. A transaction's bounds are its own, and it has no pages.
struct KvLimits {
  std::uint32_t ops_max = 256, keys_max = 1024;
  std::int64_t value_bytes_max = 65'536;
  bool prefixes = true;  // getPrefix is allowed
};
tl::expected<machine::KvCommand, KvFault> parse_kv_ops(const std::vector<JsonValue>& elements,
                                                       std::string_view tenant, const KvLimits& limits);
// `echo`: the operations' own `op` texts, keys and kinds. Always 200: a lost precondition is a verdict.
struct KvEcho {
  machine::KvKind kind = machine::KvKind::get;
  std::string key;
  bool keys_only = false;
};
std::vector<KvEcho> echo_of(const machine::KvCommand& command);
// `"op":…` and what belongs to it; into an object that is open.
void write_kv_result(JsonWriter& out, const KvEcho& echo, const machine::KvOpOutcome& outcome);
std::string render_kv(const std::vector<KvEcho>& echo, const machine::KvOutcome& outcome);

void handle_kv(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

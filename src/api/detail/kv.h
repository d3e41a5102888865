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
  std::int64_t retry_after_s = 0;  // 0: 1 with status 503, else the header is not sent
};
http::Response kv_fault_response(const KvFault& fault);
// A refusal of the engine underneath, in the envelope that the code calls for.
http::Response kv_refusal_response(const broker::Refusal& refusal);

// What a call is to the ladder, before its operations are looked at one by one: an operation that will be
// refused weighs what it asks for.
struct KvAsk {
  bool writes = false;  // put, putIfAbsent, delete, incr or check is among them
  Weight adds;
};
using KvGate = std::function<std::optional<KvFault>(const KvAsk& ask)>;
// Errors: what the contract's validation table names, the first in its order; what `gate` gives stands
// between the ceilings of the call and its operations.
tl::expected<machine::KvCommand, KvFault> parse_kv(std::string_view body, std::string_view tenant,
                                                   const ApiSettings& settings, const KvGate& gate = {});
KvAsk kv_ask(const std::vector<JsonValue>& elements);
KvFault kv_denied(const Denied& denied);
// What one call may name. A transaction's bounds are its own, and it has no pages.
struct KvLimits {
  std::uint32_t ops_max = 256, keys_max = 1024;
  std::int64_t value_bytes_max = 65'536;
  bool prefixes = true;  // getPrefix is allowed
};
tl::expected<machine::KvCommand, KvFault> parse_kv_ops(const std::vector<JsonValue>& elements,
                                                       std::string_view tenant, const KvLimits& limits,
                                                       const KvGate& gate = {});
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

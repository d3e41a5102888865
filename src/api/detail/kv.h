// The key/value store: POST /api/v1/kv, a batch of operations; GET, PUT and DELETE of one key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/detail/context.h"
#include "api/detail/json_check.h"
#include "api/detail/ladder.h"
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
KvFault kv_denied(const Denied& denied);
http::Response kv_fault_response(const KvFault& fault);
// A refusal of the engine underneath, in the envelope that the code calls for.
http::Response kv_refusal_response(const broker::Refusal& refusal);

// What one call may name. A transaction's bounds are its own, and it has no pages.
struct KvLimits {
  std::uint32_t ops_max = 256, keys_max = 1024;
  std::int64_t value_bytes_max = 65'536;
  bool prefixes = true;  // getPrefix is allowed
};

// What a path says of its one operation.
struct KvPath {
  machine::KvKind kind = machine::KvKind::get;  // get, put or del
  std::string ns, key;                          // decoded, not judged
};
// A call whose body has the shape of one, its operations not read yet. Views borrow from the body.
struct KvText {
  std::vector<JsonValue> operations;
  std::optional<KvPath> path;  // then there is one operation, without kind and name
};
tl::expected<KvText, KvFault> read_kv_batch(std::string_view body);
tl::expected<KvText, KvFault> read_kv_path(KvPath path, std::string_view body);
// What a call is to the ladder, before its operations are looked at one by one: an operation that will be
// refused weighs what it asks for.
struct KvAsk {
  bool writes = false;  // put, putIfAbsent, delete, incr or check is among them
  Weight adds;
};
KvAsk kv_ask(const std::vector<JsonValue>& operations);
KvAsk kv_ask(const KvText& text);
// How many operations and keys, and how large their values are: what is judged before the tenant is.
std::optional<KvFault> check_kv_ceilings(const KvText& text, const KvLimits& limits);
// Errors: what the contract's validation table names, the first in its order.
tl::expected<machine::KvCommand, KvFault> parse_kv(const KvText& text, std::string_view tenant,
                                                   const KvLimits& limits);
// Both for the operations of a transaction.
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
// Of a path: the element alone, with the version of what a get found as its ETag.
http::Response kv_path_response(const KvEcho& echo, const machine::KvOutcome& outcome);

// A call that may run.
struct AcceptedKv {
  machine::KvCommand command;
  std::shared_ptr<Ladder::Charge> charge;
};
// Every call of these routes, in the order of its refusals (api-state.md 1.7): the ceilings, the ladder, then
// operation by operation.
tl::expected<AcceptedKv, KvFault> accept_kv(const SharedContext& context, const std::string& tenant,
                                            const KvText& text);

void handle_kv(const SharedContext& context, Inbound inbound);
void handle_kv_get(const SharedContext& context, Inbound inbound);
void handle_kv_put(const SharedContext& context, Inbound inbound);
void handle_kv_delete(const SharedContext& context, Inbound inbound);

}  // namespace queen::api

// KV: outcomes and refusals to answers.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/detail/kv.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

using machine::KvFound;
using machine::KvKind;
using machine::KvOpOutcome;

std::string_view name_of(KvKind kind) {
  switch (kind) {
    case KvKind::get:
      return "get";
    case KvKind::get_many:
      return "getMany";
    case KvKind::get_prefix:
      return "getPrefix";
    case KvKind::put:
      return "put";
    case KvKind::put_if_absent:
      return "putIfAbsent";
    case KvKind::del:
      return "delete";
    case KvKind::incr:
      return "incr";
    case KvKind::check:
      return "check";
  }
  return "";
}

void write_instant(JsonWriter& out, const std::optional<std::int64_t>& us) {
  if (us) {
    out.text(iso_trimmed_offset(*us));
  } else {
    out.null();
  }
}

void write_value_and_version(JsonWriter& out, const std::optional<KvFound>& row) {
  out.name("value").raw(row ? std::string_view(row->value) : "null");
  out.name("version").number(row ? row->version : 0);
}

// The fields of a row that was read, without its key.
void write_found(JsonWriter& out, const KvFound& row, bool with_value) {
  if (with_value) out.name("value").raw(row.value);
  out.name("version").number(row.version).name("expiresAt");
  write_instant(out, row.expires_at);
  out.name("updatedAt");
  write_instant(out, row.updated_at);
}

void write_get(JsonWriter& out, const KvEcho& echo, const KvOpOutcome& outcome) {
  out.name("found").boolean(outcome.row.has_value()).name("key").text(echo.key);
  if (outcome.row) write_found(out, *outcome.row, true);
}

void write_rows(JsonWriter& out, const KvEcho& echo, const KvOpOutcome& outcome) {
  out.name("rows").open('[');
  for (const KvFound& row : outcome.rows) {
    out.open('{').name("key").text(row.key);
    write_found(out, row, !echo.keys_only);
    out.close('}');
  }
  out.close(']');
  if (echo.kind == KvKind::get_many) {
    out.name("missing").open('[');
    for (const std::string& key : outcome.missing) out.text(key);
    out.close(']');
  }
  out.name("truncated").boolean(outcome.truncated);
  if (echo.kind != KvKind::get_prefix) return;
  out.name("nextAfter");
  if (outcome.next_after) {
    out.text(*outcome.next_after);
  } else {
    out.null();
  }
}

void write_verdict(JsonWriter& out, const KvEcho& echo, const KvOpOutcome& outcome) {
  out.name("applied").boolean(outcome.applied);
  if (!outcome.applied) out.name("reason").text(outcome.reason);
  out.name("key").text(echo.key);
  // A check that held read no value (1.3).
  if (echo.kind == KvKind::check && outcome.applied)
    out.name("version").number(outcome.row ? outcome.row->version : 0);
  else
    write_value_and_version(out, outcome.row);
}

// A `required` operation lost: nothing was written. A detail of more than 4,096 characters is left out, and
// then only what happened is told.
std::string render_lost(const machine::KvOutcome& outcome) {
  constexpr std::size_t kDetailCharsMax = 4096;
  std::string detail;
  JsonWriter out(detail);
  out.name("failedIndex").number(*outcome.failed_index).name("kvReason").text(outcome.failed_reason);
  out.name("version").number(outcome.failed_row ? outcome.failed_row->version : 0);
  out.name("value").raw(outcome.failed_row ? std::string_view(outcome.failed_row->value) : "null");
  const auto continuation = [](char c) { return (c & 0xC0) == 0x80; };
  const auto extra = static_cast<std::size_t>(std::count_if(detail.begin(), detail.end(), continuation));
  std::string text = R"({"ok":false,"reason":"kv_precondition")";
  if (detail.size() - extra <= kDetailCharsMax) text += ',' + detail;
  text += '}';
  return text;
}

struct EngineRow {
  std::string_view code;  // of the engine
  int status;
  std::string_view error, reason;
};
constexpr std::array kEngineRows = {
    EngineRow{"timeout", 503, "kv_unavailable", "kv_timeout"},
    EngineRow{"outcome_unknown", 503, "kv_unavailable", "kv_retry"},
    EngineRow{"retry", 503, "kv_unavailable", "kv_retry"},
    EngineRow{"no_leader", 503, "kv_unavailable", "kv_no_leader"},
    EngineRow{"too_large", 413, "payload_too_large", "too_large"},
    EngineRow{"internal", 500, "kv_error", ""},
};

}  // namespace

http::Response kv_fault_response(const KvFault& fault) {
  http::Response response;
  response.status = fault.status;
  JsonWriter out(response.body);
  out.open('{').name("error").text(fault.error);
  if (!fault.reason.empty()) out.name("reason").text(fault.reason);
  if (!fault.detail.empty()) out.name("detail").text(fault.detail);
  out.close('}');
  const std::int64_t wait = fault.retry_after_s == 0 && fault.status == 503 ? 1 : fault.retry_after_s;
  if (wait > 0) response.headers.emplace_back("Retry-After", std::to_string(wait));
  return response;
}

KvFault kv_denied(const Denied& denied) {
  return {denied.status, denied.error, "", denied.detail, denied.retry_after_s};
}

http::Response kv_refusal_response(const broker::Refusal& refusal) {
  for (const EngineRow& row : kEngineRows)
    if (row.code == refusal.code)
      return kv_fault_response({row.status, std::string(row.error), std::string(row.reason), refusal.error});
  return refusal_response(refusal);
}

std::vector<KvEcho> echo_of(const machine::KvCommand& command) {
  std::vector<KvEcho> out;
  out.reserve(command.ops.size());
  for (const machine::KvOp& op : command.ops) out.push_back({op.kind, op.key, op.keys_only});
  return out;
}

void write_kv_result(JsonWriter& out, const KvEcho& echo, const KvOpOutcome& outcome) {
  out.name("op").text(name_of(echo.kind));
  switch (echo.kind) {
    case KvKind::get:
      return write_get(out, echo, outcome);
    case KvKind::get_many:
    case KvKind::get_prefix:
      return write_rows(out, echo, outcome);
    default:
      return write_verdict(out, echo, outcome);
  }
}

namespace {

void write_element(JsonWriter& out, std::size_t index, const KvEcho& echo, const KvOpOutcome& outcome) {
  out.open('{').name("index").number(index);
  write_kv_result(out, echo, outcome);
  out.close('}');
}

}  // namespace

std::string render_kv(const std::vector<KvEcho>& echo, const machine::KvOutcome& outcome) {
  if (outcome.failed_index) return render_lost(outcome);
  std::string text;
  JsonWriter out(text);
  out.open('{').name("results").open('[');
  for (std::size_t i = 0; i < outcome.ops.size(); ++i) write_element(out, i, echo[i], outcome.ops[i]);
  out.close(']').close('}');
  return text;
}

http::Response kv_path_response(const KvEcho& echo, const machine::KvOutcome& outcome) {
  if (outcome.failed_index) return json_response(200, render_lost(outcome));
  const KvOpOutcome& element = outcome.ops.at(0);
  http::Response response = json_response(200, {});
  JsonWriter out(response.body);
  write_element(out, 0, echo, element);
  if (echo.kind == KvKind::get && element.row)
    response.headers.emplace_back("ETag", fmt::format("\"{}\"", element.row->version));
  return response;
}

}  // namespace queen::api

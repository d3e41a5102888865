#include "api/errors.h"

#include <array>

#include "base/text.h"

namespace queen::api {
namespace {

// 429 may name 1 to 5 seconds: 2 gives a full budget time to drain and still feels prompt.
constexpr std::array kErrors = {
    ErrorRow{"bad_body", 400, 0},
    ErrorRow{"bad_request", 400, 0},
    ErrorRow{"encryption_required", 400, 0},
    ErrorRow{"reserved_tenant", 403, 0},
    ErrorRow{"no_such_route", 404, 0},
    ErrorRow{"name_too_long", 413, 0},
    ErrorRow{"overloaded", 429, 2},
    ErrorRow{"internal", 500, 0},
    ErrorRow{"retry", 503, 1},
    ErrorRow{"no_leader", 503, 1},
    ErrorRow{"timeout", 503, 1},
    ErrorRow{"outcome_unknown", 503, 1},
    ErrorRow{"standby", 503, 1},
    ErrorRow{"raft_phase1_unsupported", 503, 1},
    ErrorRow{"storage_full", 507, 0},
};

}  // namespace

std::span<const ErrorRow> error_table() {
  return kErrors;
}

ErrorRow error_row(std::string_view code) {
  for (const ErrorRow& row : kErrors)
    if (row.code == code) return row;
  return {code, 400, 0};
}

http::Response error_response(std::string_view code, std::string_view text) {
  const ErrorRow row = error_row(code);
  http::Response response;
  response.status = row.status;
  response.body = R"({"error":)";
  append_json_string(response.body, text);
  response.body += R"(,"code":)";
  append_json_string(response.body, code);
  response.body += '}';
  if (row.retry_after_seconds > 0)
    response.headers.emplace_back("Retry-After", std::to_string(row.retry_after_seconds));
  return response;
}

}  // namespace queen::api

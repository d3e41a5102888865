// What the OpenAPI document says of each route. The route table (detail/context.h) says which routes there
// are.
#pragma once

#include <span>
#include <string_view>

#include "http/server.h"

namespace queen::api {

// A query parameter. `schema` is JSON text.
struct QueryDoc {
  std::string_view name, schema, text;
  bool required = false;
};
// An answer with a body of its own; `schema` is JSON text, empty for an answer without a body.
struct AnswerDoc {
  int status = 200;
  std::string_view text, schema;
};
struct RouteDoc {
  http::Method method = http::Method::get;
  std::string_view pattern;  // as in the route table
  std::string_view id, tag, summary;
  std::span<const QueryDoc> query;
  std::string_view body;  // schema of the request body as JSON text; empty: the route reads none
  bool body_required = true;
  std::span<const AnswerDoc> answers;
  // Statuses of the engine's error envelope beyond those that every route may give (400, 403, 413, 500, 503).
  std::span<const int> errors;
};

// By resource; every document of them all is of another route.
std::span<const RouteDoc> message_docs();
std::span<const RouteDoc> read_docs();
std::span<const RouteDoc> group_docs();
std::span<const RouteDoc> queue_docs();
std::span<const RouteDoc> dead_letter_docs();
std::span<const RouteDoc> state_docs();
std::span<const RouteDoc> timer_docs();
std::span<const RouteDoc> operator_docs();
std::span<const RouteDoc> ephemeral_docs();
std::span<const RouteDoc> kv_docs();
std::span<const RouteDoc> streams_docs();
std::span<const RouteDoc> figure_docs();

}  // namespace queen::api

#include "api/openapi/document.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "api/json_writer.h"
#include "api/openapi/components.h"
#include "base/invariant.h"

namespace queen::api {
namespace {

constexpr std::array kEveryRoute = {400, 403, 413, 500, 503};

std::string_view method_name(http::Method method) {
  switch (method) {
    case http::Method::post:
      return "post";
    case http::Method::put:
      return "put";
    case http::Method::del:
      return "delete";
    case http::Method::head:
      return "head";
    default:
      return "get";
  }
}

std::string_view access_name(Access access) {
  switch (access) {
    case Access::read_only:
      return "read-only";
    case Access::write_only:
      return "write-only";
    case Access::read_write:
      return "read-write";
    case Access::admin:
      return "admin";
  }
  return "admin";
}

struct Pattern {
  std::string path;  // with {name} for :name and *name
  std::vector<std::string_view> names;
};
Pattern parse(std::string_view pattern) {
  Pattern out;
  for (std::size_t at = 0; at < pattern.size();) {
    const std::size_t end = std::min(pattern.find('/', at + 1), pattern.size());
    const std::string_view segment = pattern.substr(at + 1, end - at - 1);
    out.path += '/';
    if (segment.starts_with(':') || segment.starts_with('*')) {
      out.names.push_back(segment.substr(1));
      out.path.append("{").append(segment.substr(1)).append("}");
    } else {
      out.path += segment;
    }
    at = end;
  }
  return out;
}

void write_parameters(JsonWriter& out, const Pattern& pattern, const RouteDoc& doc) {
  if (pattern.names.empty() && doc.query.empty()) return;
  out.name("parameters").open('[');
  for (const std::string_view name : pattern.names) {
    out.open('{').name("name").text(name).name("in").text("path").name("required").boolean(true);
    out.name("schema").raw(R"({"type":"string","minLength":1})").close('}');
  }
  for (const QueryDoc& query : doc.query) {
    out.open('{').name("name").text(query.name).name("in").text("query");
    out.name("required").boolean(query.required).name("description").text(query.text);
    out.name("schema").raw(query.schema).close('}');
  }
  out.close(']');
}

void write_body(JsonWriter& out, const RouteDoc& doc) {
  if (doc.body.empty()) return;
  out.name("requestBody").open('{').name("required").boolean(doc.body_required).name("content").open('{');
  out.name("application/json").open('{').name("schema").raw(doc.body).close('}').close('}').close('}');
}

void write_answer(JsonWriter& out, int status, std::string_view text, std::string_view schema) {
  out.name(std::to_string(status)).open('{').name("description").text(text);
  if (!schema.empty()) {
    out.name("content").open('{').name("application/json").open('{').name("schema").raw(schema);
    out.close('}');
    // Typed query parameters that do not parse and bodies above the limit are refused in plain text.
    if (status == 400 || status == 413)
      out.name("text/plain").open('{').name("schema").raw(R"({"type":"string"})").close('}');
    out.close('}');
  }
  out.close('}');
}

// A component of its own: the same answer stands under dozens of routes.
void write_error(JsonWriter& out, int status) {
  out.name(std::to_string(status)).open('{').name("$ref");
  out.text("#/components/responses/Error" + std::to_string(status)).close('}');
}

void write_answers(JsonWriter& out, const RouteDoc& doc) {
  std::map<int, const AnswerDoc*> answers;
  for (const int status : kEveryRoute) answers[status] = nullptr;
  for (const int status : doc.errors) answers[status] = nullptr;
  for (const AnswerDoc& answer : doc.answers) answers[answer.status] = &answer;
  out.name("responses").open('{');
  for (const auto& [status, answer] : answers) {
    if (answer == nullptr)
      write_error(out, status);
    else
      write_answer(out, status, answer->text, answer->schema);
  }
  out.close('}');
}

void write_operation(JsonWriter& out, const Route& route, const Pattern& pattern) {
  const RouteDoc* doc = find_doc(route);
  INVARIANT(doc != nullptr, "route {} {} has no document", method_name(route.method), route.pattern);
  out.name(method_name(route.method)).open('{').name("operationId").text(doc->id);
  out.name("tags").open('[').text(doc->tag).close(']').name("summary").text(doc->summary);
  out.name("x-queen-access").text(access_name(route.access));
  write_parameters(out, pattern, *doc);
  write_body(out, *doc);
  write_answers(out, *doc);
  out.close('}');
}

}  // namespace

std::vector<const RouteDoc*> all_docs() {
  std::vector<const RouteDoc*> out;
  for (const auto docs :
       {message_docs(), read_docs(), group_docs(), queue_docs(), dead_letter_docs(), state_docs(),
        operator_docs(), kv_docs(), timer_docs(), streams_docs(), ephemeral_docs(), figure_docs()})
    for (const RouteDoc& doc : docs) out.push_back(&doc);
  return out;
}

const RouteDoc* find_doc(const Route& route) {
  for (const RouteDoc* doc : all_docs())
    if (doc->method == route.method && doc->pattern == route.pattern) return doc;
  return nullptr;
}

std::string openapi_document(std::span<const Route> routes, std::string_view version) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("openapi").text("3.1.0").name("info").open('{').name("title").text("Queen");
  out.name("version").text(version).name("license").open('{').name("name").text("Apache-2.0");
  out.name("identifier").text("Apache-2.0").close('}').close('}');
  // A path's methods stand together, in the order of its first route.
  std::vector<std::pair<std::string_view, std::vector<const Route*>>> paths;
  for (const Route& route : routes) {
    const auto at = std::find_if(paths.begin(), paths.end(),
                                 [&](const auto& path) { return path.first == route.pattern; });
    if (at == paths.end())
      paths.push_back({route.pattern, {&route}});
    else
      at->second.push_back(&route);
  }
  out.name("paths").open('{');
  for (const auto& [pattern_text, of_path] : paths) {
    const Pattern pattern = parse(pattern_text);
    out.name(pattern.path).open('{');
    for (const Route* route : of_path) write_operation(out, *route, pattern);
    out.close('}');
  }
  out.close('}').name("components").raw(openapi_components()).close('}');
  return text;
}

}  // namespace queen::api

// The way of a client's bytes from the socket to a handler, without the socket: request head and body,
// routing, percent and query decoding. The first byte chooses how the rest is cut into reads; the result must
// not depend on it, and what is taken must obey the limits.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/invariant.h"
#include "base/text.h"
#include "http/detail/request_parser.h"
#include "http/detail/response_head.h"
#include "http/server.h"

namespace {

using namespace queen;
using namespace queen::http;

constexpr detail::ParserLimits kLimits{.body_bytes_max = 4096, .header_bytes_max = 1024};

struct Outcome {
  std::vector<Request> requests;
  int refused_status = 0;
};

void check(const Request& request) {
  INVARIANT(request.body.size() <= kLimits.body_bytes_max, "body of {} bytes", request.body.size());
  INVARIANT(request.body.capacity() >= request.body.size() + detail::kBodySpareBytes, "no spare bytes");
  INVARIANT(!request.path.empty(), "empty path");
  INVARIANT(request.path.find('?') == std::string::npos, "query left in the path");
}

// Feeds as a connection does: reads of `piece` bytes, into the body where the parser offers room.
Outcome run(std::string_view input, std::size_t piece, bool into_body) {
  Outcome outcome;
  detail::RequestParser parser(kLimits);
  std::string buffer;
  while (!input.empty() && outcome.refused_status == 0) {
    const auto room = into_body && buffer.empty() ? parser.body_room() : std::span<char>{};
    const std::size_t size =
        std::min(piece, room.empty() ? input.size() : std::min(input.size(), room.size()));
    if (room.empty()) {
      buffer.append(input.substr(0, size));
    } else {
      input.copy(room.data(), size);
      parser.commit_body(size);
    }
    input.remove_prefix(size);
    do {
      buffer.erase(0, parser.feed(buffer));
      if (parser.state() == detail::ParseState::failed) {
        outcome.refused_status = parser.failure().status;
        break;
      }
      if (parser.state() != detail::ParseState::done) break;
      outcome.requests.push_back(parser.take());
      check(outcome.requests.back());
      parser.reset();
    } while (!buffer.empty());
    INVARIANT(buffer.size() <= kLimits.header_bytes_max + piece, "{} bytes kept", buffer.size());
  }
  return outcome;
}

void compare(const Outcome& one, const Outcome& other) {
  INVARIANT(one.requests.size() == other.requests.size(), "{} requests or {}", one.requests.size(),
            other.requests.size());
  // When a wrong head is refused may depend on the cuts: one that came in pieces is read to its end first.
  // What becomes a request may not.
  for (std::size_t i = 0; i < one.requests.size(); ++i) {
    INVARIANT(one.requests[i].path == other.requests[i].path, "paths differ");
    INVARIANT(one.requests[i].query == other.requests[i].query, "queries differ");
    INVARIANT(one.requests[i].body == other.requests[i].body, "bodies differ");
    INVARIANT(one.requests[i].tenant_header == other.requests[i].tenant_header, "tenants differ");
  }
}

Routes make_routes() {
  Routes routes;
  const Handler nothing = [](Request, Responder) {};
  for (const char* pattern : {"/", "/a", "/a/:x", "/a/b", "/a/b/:y", "/a/:x/c", "/:x/:y/:z", "/a//b"}) {
    routes.add(Method::get, pattern, nothing);
  }
  routes.add(Method::post, "/a/:x/c", nothing);
  return routes;
}

void route(const Routes& routes, const Request& request) {
  std::vector<std::string> params;
  const Handler* handler = routes.find(request.method, request.path, params);
  INVARIANT(handler != nullptr || params.empty(), "params without a match");
  for (const std::string& param : params) {
    INVARIANT(percent_decode(percent_encode_name(param), PlusIs::plus) == param, "segment changed");
  }
  const std::optional<std::string> value = request.query_value("a");
  Response response;
  response.headers.emplace_back("X", value.value_or(request.path));
  std::string head;
  detail::append_response_head(head, response, {});
  INVARIANT(head.find("\r\n\r\n") == head.size() - 4, "a value ended the head");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Routes routes = make_routes();
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t piece = 1 + data[0] % 64;
  const Outcome whole = run(input, std::max<std::size_t>(input.size(), 1), false);
  compare(whole, run(input, piece, true));
  for (const Request& request : whole.requests) route(routes, request);
  Request query;
  query.path = "/";
  query.query = std::string(input);
  route(routes, query);
  return 0;
}

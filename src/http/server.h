// HTTP/1.1 server on Boost.Beast: connections, limits, routing; handlers may answer later, from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "base/unique_function.h"

namespace queen::http {

enum class Method : std::uint8_t { get, head, post, put, del, other };  // other stays the last

struct Request {
  Method method = Method::get;
  std::string path;                 // as sent, without the query, not decoded
  std::vector<std::string> params;  // decoded `:name` and `*name` parts of the route, in order
  std::string query;                // as sent, without `?`
  std::string body;  // owned: handlers may move it; 64 spare bytes of capacity follow it (for the parser)
  std::string tenant_header;   // x-queen-tenant, empty when absent
  std::shared_ptr<void> pass;  // what the route's gate gave for the body; null without one
  std::optional<std::string> query_value(
      std::string_view name) const;  // decoded (`+` is a blank); first one wins
};

// Runs when it is destroyed, unless the answer that holds it went to the kernel whole: the client never got
// it.
struct Undelivered {
  explicit Undelivered(UniqueFunction<void()> function) : run(std::move(function)) {}
  Undelivered(const Undelivered&) = delete;
  Undelivered& operator=(const Undelivered&) = delete;
  ~Undelivered() {
    if (run) run();
  }
  UniqueFunction<void()> run;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;  // must be empty for 204, which is sent without body headers
  std::vector<std::pair<std::string, std::string>> headers;  // further ones, e.g. Retry-After
  std::shared_ptr<Undelivered>
      undelivered;  // optional; for claims that must not stay with a client that is gone
};

// Gives the answer; call exactly once, from any thread. Destroying it unanswered answers 500 `internal`.
// `gone` tells a parked handler that the client went away.
class Responder {
 public:
  struct Impl;
  explicit Responder(std::shared_ptr<Impl> impl);
  Responder(Responder&&) noexcept;
  Responder& operator=(Responder&&) noexcept;
  ~Responder();
  void send(Response response);
  // `gone` runs (on a server thread) if the client disconnects before send(); at most one per request. (W-5)
  void on_disconnect(UniqueFunction<void()> gone);
  bool client_gone() const;

 private:
  std::shared_ptr<Impl> impl_;
};

// Runs on a server thread; must not block.
using Handler = std::function<void(Request, Responder)>;

// Whether a body is read: with `pass`, which goes with the request, or not at all and `refusal` is the
// answer.
struct Admittance {
  std::shared_ptr<void> pass;
  std::optional<Response> refusal;
};
// Asked on a server thread, once per request, when its head says that more of a body of `body_bytes` follows
// than has come. Nothing of it is read until `decided` runs: once, from any thread. Must not block.
using Gate = std::function<void(std::uint64_t body_bytes, UniqueFunction<void(Admittance)> decided)>;

// Patterns: literal segments, `:name` (one segment, percent-decoded) and, last, `*name`: all that is left of
// the path, one segment or more, its slashes kept, percent-decoded as a whole. The most literal match wins:
// the first segment that differs decides, a literal before a `:name` before a `*name`. Literals are compared
// as sent, not decoded. Empty segments count: `/a//b` has three, and `:name` and `*name` take an empty one
// (the handler judges names).
class Routes {
 public:
  Routes();
  ~Routes();
  Routes(Routes&&) noexcept;
  // `gate` may be null: every body is read.
  void add(Method method, std::string_view pattern, Handler handler, Gate gate = nullptr);
  // What answers a path or method that no pattern matches.
  void fallback(Handler handler);
  // The handler of the best match (else the fallback, else null; borrowed from this table) and the decoded
  // `:name` and `*name` parts of that match. Thread-safe.
  const Handler* find(Method method, std::string_view path, std::vector<std::string>& params) const;
  // The gate of the best match, or null; borrowed. Thread-safe.
  const Gate* find_gate(Method method, std::string_view path) const;

 private:
  struct Node;
  std::unique_ptr<Node> root_;
  Handler fallback_;
};

struct ServerSettings {
  std::string bind_address = "0.0.0.0";  // IPv4, IPv6 or host name; no port
  std::uint16_t port = 6632;             // 0: the system picks (see Server::port)
  int threads = 2;
  std::uint64_t body_bytes_max = 64ULL << 20;   // larger: 413 before any handler, plain text body
  std::uint32_t header_bytes_max = 64U << 10;   // larger: 431
  std::int64_t header_timeout_us = 30'000'000;  // from the first byte of a request to the end of its head
  std::int64_t body_progress_timeout_us = 30'000'000;  // without a byte of the body
  std::int64_t write_timeout_us = 30'000'000;  // QUEEN_HTTP_WRITE_TIMEOUT_MS (HD-35): peer does not read
  std::size_t connections_max = SIZE_MAX;  // at it, accepting waits: descriptors stay for the files (HD-28)
  std::int64_t idle_timeout_us = 600'000'000;  // keep-alive connection without a request
};

class Server {
 public:
  virtual ~Server() = default;
  // Binds and listens. Errors: unavailable, naming address, port and cause (`address already in use`).
  // `routes` are served from the first connection on; without any everything answers 503 until set_routes().
  static Result<std::unique_ptr<Server>> listen(ServerSettings settings, Clock& clock, Logger log,
                                                std::shared_ptr<const Routes> routes = nullptr);
  // Swaps the whole route table; requests in flight keep theirs. Before the first call everything answers
  // 503.
  virtual void set_routes(std::shared_ptr<const Routes> routes) = 0;
  virtual std::uint16_t port() const = 0;
  virtual std::size_t connections() const = 0;
  // How many connections ended because their peer did not read its answer (HD-35).
  virtual std::uint64_t write_timeouts() const = 0;
  // Stops accepting; answers already owed are sent, then connections close. Calls `drained` once none is left
  // or `grace_us` has passed, once, on a server thread (so it must not call stop()). Responses from now on
  // carry `Connection: close`.
  virtual void drain(std::int64_t grace_us, UniqueFunction<void()> drained) = 0;
  // Closes everything and joins the threads; not from a server thread. Parked handlers see a disconnect; what
  // they send later is dropped. The destructor calls it.
  virtual void stop() = 0;
};

}  // namespace queen::http

// What every handler of this room works with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "api/api.h"
#include "api/detail/ladder.h"
#include "api/detail/reply.h"
#include "api/errors.h"
#include "ephemeral/engine.h"
#include "qlog/compressor_pool.h"

namespace queen::api {

ephemeral::Engine::Lookup declared_in(const broker::Broker& broker);

struct Context {
  broker::Broker& broker;
  Clock& clock;
  Random& random;
  Executor& timers;
  ApiSettings settings;
  Logger log;
  Ladder ladder{Ladder::sources_of(broker), clock, settings};
  ephemeral::Engine ephemeral{settings.ephemeral, timers, random, declared_in(broker)};
  Deadlines deadlines{timers};
  qlog::CompressorPool compressors{};

  // Deadlines are clamped to 1 ms..60 s (api "Names, ids, limits").
  static std::int64_t clamp_ms(std::int64_t ms) { return std::clamp<std::int64_t>(ms, 1, 60'000); }
  std::int64_t deadline_us(std::int64_t timeout_ms) const {
    return deadlines.now_us() + clamp_ms(timeout_ms) * 1000;
  }
};
using SharedContext = std::shared_ptr<Context>;  // held by routes and by every request on its way

// A request with its tenant settled.
struct Inbound {
  http::Request request;
  std::string tenant;
  std::unique_ptr<Reply> reply;
};
using RouteHandler = void (*)(const SharedContext& context, Inbound inbound);

// Who may call a route once tokens are checked. Sets, not a ladder: `write_only` grants pushes alone
// (api-messaging.md 1.2).
enum class Access : std::uint8_t { read_only, write_only, read_write, admin };

// Whether room for the body of a request is taken before it is read: for calls that grow the data and may be
// large.
enum class Room : bool { none, before_body };

struct Route {
  http::Method method;
  std::string_view pattern;
  Access access;
  RouteHandler handler;
  Room room = Room::none;
};
std::span<const Route> api_routes();
// Takes room from the broker, or refuses as it does.
http::Gate room_gate(const SharedContext& context);

// Settles the tenant, then runs the handler; a tenant that may not be served is answered here.
void serve(const SharedContext& context, RouteHandler handler, http::Request request,
           std::unique_ptr<Reply> reply);
http::Response no_such_route(std::string_view path);

http::Response json_response(int status, std::string body);
// A refusal in the engine's envelope.
http::Response refusal_response(const broker::Refusal& refusal);
// What a passed deadline answers.
http::Response timeout_response();

}  // namespace queen::api

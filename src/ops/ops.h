// The operator's routes of a node: health, status, and what a node answers while it starts.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "broker/broker.h"
#include "http/server.h"

namespace queen::ops {

// What other parts of the node add. Called on a server thread or the broker's; must not block. Any may be
// empty.
struct Additions {
  // The sink's block of the status as JSON text; an empty text when this node runs no sink.
  std::function<std::string()> s3_status;
  // Whole families of Prometheus text.
  std::function<std::string()> metrics;
  // What the process as a whole has to warn of.
  std::function<void(std::vector<std::pair<std::string, std::string>>&)> warnings;
};

// Adds `GET /health`, `GET /status`, `GET /metrics` and `GET /metrics/prometheus`. References must outlive
// the routes.
void add_routes(http::Routes& routes, broker::Broker& broker, std::string version, Additions additions = {});

// The table of a node that still replays: every route answers 503 `{"status":"starting","progress":0.42}`
// with `Retry-After: 1`. `progress` is within 0..1 and may be called from any server thread.
std::shared_ptr<http::Routes> starting_routes(std::function<double()> progress);

// The answers themselves.
http::Response health_response(const broker::Health& health, std::string_view version);
http::Response status_response(std::string_view s3_status, const std::vector<broker::RetentionHold>& holds);
http::Response metrics_response(const broker::Meter& meter, const broker::Health& health);
http::Response starting_response(double progress);

}  // namespace queen::ops

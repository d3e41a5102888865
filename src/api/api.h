// The HTTP API: one file per resource, each turning a request into a command and an outcome into an answer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/executor.h"
#include "base/ids.h"
#include "base/log.h"
#include "broker/broker.h"
#include "ephemeral/options.h"
#include "http/server.h"
#include "machine/commands.h"

namespace queen::auth {
class PayloadCipher;
}

namespace queen::api {

struct ApiSettings {
  std::int64_t default_timeout_ms = 30'000;  // DEFAULT_TIMEOUT; used within 1..60,000
  std::int64_t stmt_timeout_ms = 30'000;     // QUEEN_STMT_TIMEOUT_MS; used within 1..60,000
  // DEFAULT_SUBSCRIPTION_MODE: `all` or `fresh`.
  machine::Subscription::Mode default_subscription = machine::Subscription::Mode::fresh;
  bool tenancy_header = false;               // QUEEN_TENANCY_HEADER
  std::int64_t kv_value_bytes_max = 65'536;  // compact JSON bytes
  std::uint32_t kv_ops_max = 256;            // per call, 1..256
  std::uint32_t kv_keys_max = 1024;          // per call, 1..4096
  // Of one tenant on this node, in calls; a bucket holds the burst (api-state.md 1.6).
  struct Rate {
    std::int64_t per_second = 0, burst = 0;
  };
  Rate kv_reads{200, 400}, kv_writes{100, 200};
  Rate ephemeral_messages{5000, 10'000};
  std::size_t tenants_max = 10'000;  // that rates and quotas are kept for
  bool kv_require_grant = false;     // QUEEN_KV_REQUIRE_GRANT
  // Of a tenant's cap: below it a blocked one is released, above it its rows are counted more often.
  std::int64_t kv_quota_release_percent = 90, kv_quota_hot_percent = 80;
  bool ephemeral_require_grant = false;
  ephemeral::Settings ephemeral;
  std::int64_t timers_horizon_s = 7'776'000;
  std::uint32_t timers_ops_max = 256;
  std::int64_t timers_payload_bytes_max = 1 << 20;  // decoded
  const auth::PayloadCipher* cipher = nullptr;      // outlives the routes; null = no key
  std::size_t partitions_listed_max = 100'000;      // QUEEN_DASH_SIZES_MAX
  // Payload bytes that one fetch call collects; above it the remaining entries answer one record each.
  std::uint64_t fetch_bytes_max = 64ULL << 20;
  std::string node_name;      // as the figures of nodes name this one
  std::uint16_t port = 0;     // that it serves on, for the same
  std::string version = "0";  // of the product, as /openapi.json names it
};

// Adds every route of the API, its OpenAPI document at /openapi.json, and a fallback that answers 404
// `no_such_route` to everything else. Deadlines run on `timers`. All references must outlive the last answer;
// handlers do not block beyond short reads of the disk. What it gives answers every parked pop of in-memory
// queues and lets none wait from then on: SIGTERM.
std::function<void()> add_routes(http::Routes& routes, broker::Broker& broker, Clock& clock, Random& random,
                                 Executor& timers, ApiSettings settings, Logger log);

}  // namespace queen::api

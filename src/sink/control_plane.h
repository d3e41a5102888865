// The sinks of tenants that the control plane stores, as a node reads them (s3-sink.md 21.2, 21.3).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/task.h"
#include "sink/broker_port.h"
#include "sink/calls.h"

namespace queen::sink {

// Where the rows are: namespace and tenant of the proxy's own KV.
inline constexpr std::string_view kSinkRowNamespace = "px.s3sinks";
inline constexpr std::string_view kProxyTenant = "00000000-0000-0000-0000-00000000fffe";

// How a cluster, or the tenant that owns it, stands; from best to worst.
enum class Standing : std::uint8_t { active, push_blocked, suspended, deleting, unknown };
struct ClusterStanding {
  std::string slug;  // empty when unknown
  Standing cluster = Standing::unknown;
  Standing owner = Standing::unknown;
};

// One sink of a tenant as it is stored.
struct StoredSink {
  std::string cluster_id;
  std::string tenant;  // of the broker
  bool enabled = true;
  std::string config;             // one JSON object: see tenant_document.h
  std::string secret_key_sealed;  // envelope of auth::PayloadCipher
  std::int64_t updated_at_us = 0;
};
// Errors: corrupt, naming the field; never a value.
Result<StoredSink> parse_sink_row(std::string_view json);

struct SinkRow {
  std::string key;
  std::string value;
  ClusterStanding standing;
};
struct SinkRowPage {
  std::vector<SinkRow> rows;
  std::optional<std::string> next;  // `after` of the next page
};

// Rows and standings, on the sink's executor. Nothing of a failed read is used.
class ControlPlanePort {
 public:
  virtual ~ControlPlanePort() = default;
  // The rows with a key above `after`, in key order.
  virtual Task<CallOutcome<SinkRowPage>> page(std::string after) = 0;
};

using StandingOf = std::function<ClusterStanding(const std::string& cluster_id)>;
// Reads the rows in pages of 1000 through `proxy`, the port of kProxyTenant. `standing` is asked on the
// executor and must not block. Both outlive it.
std::unique_ptr<ControlPlanePort> make_kv_control_plane(BrokerPort& proxy, Executor& executor,
                                                        StandingOf standing);

}  // namespace queen::sink

// The S3 sink of a node: one manager, which runs the environment's sink and those of tenants (s3-sink.md 20).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/executor.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/unique_function.h"
#include "s3/object_store.h"
#include "sink/broker_port.h"
#include "sink/settings.h"

namespace queen::auth {
class PayloadCipher;
}

namespace queen::sink {

class ControlPlanePort;

// The world of a node's sinks. What it points to outlives the manager.
struct SinkParts {
  // The broker for one tenant, and a client for one bucket. Called on the executor, at each start of a sink.
  std::function<std::unique_ptr<BrokerPort>(const std::string& tenant)> broker;
  std::function<std::unique_ptr<s3::ObjectStore>(s3::ClientSettings)> store;
  // Threads that encode objects, NodeSettings::threads of them; without any, objects are encoded on the
  // executor.
  std::vector<Executor*> builders;
  // Called where QUEEN_S3_CRASH_AT says; without one the process aborts on the spot, nothing flushed.
  std::function<void(CrashPoint)> crash;
  // Rows of the sinks of tenants, and what opens their secrets. Null: only the environment's sink runs.
  ControlPlanePort* control_plane = nullptr;
  const auth::PayloadCipher* cipher = nullptr;
};

// Thread-safe. Everything it does runs on its executor. The executor and the random source outlive it.
// Destroy it after drain() called back and the executor has stopped: work that a cut-short drain left behind
// is dropped with the executor.
class SinkManager {
 public:
  virtual ~SinkManager() = default;
  // Once. Touches no network before it returns.
  virtual void start() = 0;
  // Starts the drain: finishes what is worth it, releases the leases. `done` runs once on the executor, when
  // all is released or QUEEN_S3_SHUTDOWN_GRACE_MS have passed since this call, whichever comes first. Once.
  virtual void drain(UniqueFunction<void()> done) = 0;
  // The `s3` block of the status: one JSON object. Never a key or a secret.
  virtual std::string status_json() const = 0;
  // The sink's families for GET /metrics/prometheus.
  virtual std::string metrics_text() const = 0;
  // Whether every queue that this node runs keeps up and the buckets answer.
  virtual bool healthy() const = 0;
};

std::unique_ptr<SinkManager> make_sink(SinkSettings settings, SinkParts parts, Executor& executor,
                                       Random& random, Logger log, std::string version);

}  // namespace queen::sink

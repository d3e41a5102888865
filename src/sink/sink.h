// The S3 sink of a node: one manager, which runs the environment's sink (s3-sink.md 20).
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

namespace queen::broker {
class Broker;
}

namespace queen::sink {

// What a program may pass beside what every sink needs.
struct SinkExtras {
  // Threads that encode objects, NodeSettings::threads of them; without any, objects are encoded on the
  // executor.
  std::vector<Executor*> builders;
  // Called where QUEEN_S3_CRASH_AT says; without one the process aborts on the spot, nothing flushed.
  std::function<void(CrashPoint)> crash;
};

// Thread-safe. Everything it does runs on its executor. The executor, the builders, the random source and the
// port outlive it. Destroy it after drain() called back and the executor has stopped: work that a cut-short
// drain left behind is dropped with the executor.
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
  // Whether every queue that this node runs keeps up and the bucket answers.
  virtual bool healthy() const = 0;
};

// `store` is null when `settings` name no sink of the environment. The port acts for the default tenant.
std::unique_ptr<SinkManager> make_sink(SinkSettings settings, BrokerPort& port,
                                       std::unique_ptr<s3::ObjectStore> store, Executor& executor,
                                       Random& random, Logger log, std::string version,
                                       SinkExtras extras = {});
std::unique_ptr<SinkManager> make_sink(SinkSettings settings, broker::Broker& broker,
                                       std::unique_ptr<s3::ObjectStore> store, Executor& executor,
                                       Random& random, Logger log, std::string version,
                                       SinkExtras extras = {});

}  // namespace queen::sink

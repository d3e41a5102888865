// The sink of one tenant on this node over its whole life: built, run, and built again after a run that ended
// unasked (s3-sink.md 20).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sink/sink_unit.h"

namespace queen::sink {

// What all sinks of a node share. Everything outlives them.
struct HostParts {
  const NodeSettings& node;
  std::string version;
  Executor& executor;
  std::vector<Executor*> builders;
  Random& random;
  Logger log;
  SinkNode& shared;
  std::function<void(CrashPoint)> crash;
  std::function<std::unique_ptr<BrokerPort>(const std::string& tenant)> broker;
  std::function<std::unique_ptr<s3::ObjectStore>(s3::ClientSettings)> store;
};

struct UnitOwner {
  std::string tenant;
  std::string source = "env";  // or `cp`
  std::string cluster;         // of a control-plane sink
};

// run() and stop() on the executor; the rest from any thread. Outlives its run().
class HostedUnit {
 public:
  // A sink whose `settings` cannot be built stays in phase error with their sentence until it is stopped.
  HostedUnit(const HostParts& parts, UnitOwner owner, Result<UnitSettings> settings);
  ~HostedUnit();
  HostedUnit(const HostedUnit&) = delete;
  HostedUnit& operator=(const HostedUnit&) = delete;

  // Ends after stop(), once everything is released.
  Task<void> run();
  void stop();

  const std::string& tenant() const { return owner_.tenant; }
  std::string status_json() const;
  bool healthy() const;
  // The rows of its queues; none unless it runs.
  std::map<std::string, QueueRow> running_queues() const;

 private:
  struct Built;
  // The part of UnitState that changes.
  struct Life {
    std::string phase = "starting";
    std::string last_exit;
    std::uint64_t restarts = 0;
    std::int64_t running_since_us = 0;
    std::int64_t backoff_us = 0;
  };
  Task<std::string> run_once();
  void note(const std::function<void(Life&)>& change);
  Life life() const;

  const HostParts& parts_;
  UnitOwner owner_;
  Logger log_;
  std::optional<UnitSettings> settings_;
  std::string error_;
  Interrupt interrupt_;
  StatusBoard board_;
  std::unique_ptr<Built> built_;
  mutable std::mutex mutex_;  // guards life_
  Life life_;
};

}  // namespace queen::sink

// The sinks of tenants on this node, kept as the control plane's rows say (s3-sink.md 20, 21.3).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "auth/payload_cipher.h"
#include "sink/control_plane.h"
#include "sink/hosted_unit.h"

namespace queen::sink {

// On the executor of `parts`; error() and visit() from any thread.
class TenantSinks {
 public:
  // `cipher` opens the secrets; null on a node without a key. Everything outlives it.
  TenantSinks(const HostParts& parts, ControlPlanePort& rows, const auth::PayloadCipher* cipher);

  // Reads the rows every 5 s and makes the sinks match. Ends after stop(), once every sink has drained.
  Task<void> run();
  void stop();

  // The last failed read of the rows, until one succeeds; empty otherwise.
  std::string error() const;
  // Every sink of a tenant on this node, in the order of the tenants.
  void visit(const std::function<void(const HostedUnit&)>& look) const;

 private:
  struct Wanted {
    StoredSink sink;
    std::string cluster;
  };
  // One tenant. It has one sink at a time: the next one is built when the last has drained.
  struct Slot {
    std::optional<Wanted> wanted;
    std::unique_ptr<HostedUnit> unit;
    std::int64_t built_from_us = 0;  // updated_at_us of what `unit` was built from
  };
  using AllWanted = std::map<std::string, Wanted>;

  Task<void> reconcile();
  Task<CallOutcome<AllWanted>> read();
  void take_row(const SinkRow& row, AllWanted& wanted);
  void match(AllWanted wanted);
  Task<void> host(std::string tenant);
  std::unique_ptr<HostedUnit> make_unit(const Wanted& wanted) const;
  Result<UnitSettings> settings_of(const StoredSink& sink) const;
  void set_error(std::string error);

  const HostParts& parts_;
  ControlPlanePort& rows_;
  const auth::PayloadCipher* cipher_;
  Logger log_;
  LogLimit limit_;
  Interrupt interrupt_;
  TaskGroup hosts_;
  mutable std::mutex mutex_;  // guards error_, the keys of slots_ and each slot's unit pointer
  std::string error_;
  std::map<std::string, Slot> slots_;  // by tenant; changed on the executor only
};

}  // namespace queen::sink

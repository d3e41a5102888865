// Upkeep of the queue logs on a thread of its own: every 5 s the idle pass, every second a reclaim pass
// (storage.md 18, 19).
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "base/executor.h"
#include "base/log.h"
#include "broker/checkpointer.h"
#include "qlog/upkeep.h"
#include "store/store.h"

namespace queen::broker {

// How upkeep and the node it belongs to fail.
struct UpkeepFailure {
  std::function<bool()> node_is_sound;   // any thread; false: nothing may be changed any more
  std::function<void(Error)> stop_node;  // a seal failed; on the upkeep thread
};

// start() and stop() from any thread; everything else happens on the executor.
class Upkeep final : public qlog::UpkeepHost {
 public:
  // All outlive it, and the executor has stopped before it is destroyed.
  Upkeep(qlog::QueueLogs& logs, store::Store& store, Checkpointer& checkpointer, Executor& executor,
         qlog::UpkeepSettings settings, UpkeepFailure failure, Logger log);

  void start();
  // A pass that runs ends at its next step; none begins.
  void stop() { stopping_.store(true, std::memory_order_relaxed); }

  // UpkeepHost.
  std::vector<std::optional<Partition>> look_up(std::span<const Pid> pids) override;
  EntryIndex recovery_floor() override { return checkpointer_.durable(); }
  std::uint64_t cuts_begun() override { return checkpointer_.cuts_begun(); }
  std::uint64_t cut_durable() override { return checkpointer_.cut_durable(); }
  bool go_on() override;

 private:
  void tick_idle();
  void tick_reclaim();
  std::optional<Partition> partition_of(Pid pid) const;

  qlog::QueueLogs& logs_;
  store::Store& store_;
  Checkpointer& checkpointer_;
  Executor& executor_;
  const UpkeepFailure failure_;
  Logger log_;
  std::unique_ptr<qlog::LogUpkeep> upkeep_;
  std::atomic<bool> stopping_{false};
};

}  // namespace queen::broker

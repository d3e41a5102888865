// The life of one queue on one node: look for its lease, claim it in turn, run it, give it back, and again
// (s3-sink.md 6.4, 7.3).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sink/sink_world.h"

namespace queen::sink {

// On the sink's executor; outlives its run().
class QueueTask {
 public:
  QueueTask(SinkWorld& world, std::string queue) : context_(world, std::move(queue)) {}

  // Ends after stop(), with the lease released; and in a crash test. A task that dies begins anew after a
  // minute.
  Task<void> run();
  // Drains and ends.
  void stop() { context_.interrupt.stop(); }
  // Drains, releases the lease and goes on looking.
  void hand_off() { context_.interrupt.hand_off(); }

  const std::string& queue() const { return context_.queue; }
  // The state machine runs it here now; a queue that is being given back no longer counts.
  bool held() const { return context_.row.owned_here; }
  std::uint64_t buffered() const { return context_.row.buffered_bytes; }
  QueueState state() const { return context_.row.state; }

 private:
  enum class Next : std::uint8_t { again, end };
  Task<void> live();
  // Waits until the row is ours; false when a stop came first.
  Task<bool> take(Lease& lease);
  Task<bool> wait_turn(Lease& lease);
  Task<std::optional<LookResult>> look(Lease& lease);
  Task<bool> claim(Lease& lease);
  Task<void> wait_after_failure(const CallError& error);
  Task<void> rest_while_held(std::string holder);
  Task<RunStop> run_held(Lease& lease);
  Task<Next> ended(RunStop stop);
  Task<Next> rest(std::int64_t us);
  void forget_run();

  QueueContext context_;
  ClaimLine::Place node_place_, sink_place_;  // held from the turn to the release
  std::optional<std::int64_t> gave_back_at_us_;
  std::string last_holder_;
  int failures_ = 0;  // of looks and claims in a row
  bool missing_logged_ = false;
};

}  // namespace queen::sink

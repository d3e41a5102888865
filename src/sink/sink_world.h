// What the tasks of one sink share. Everything here is used on the sink's executor and outlives its tasks.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "sink/async.h"
#include "sink/calls.h"
#include "sink/lease.h"
#include "sink/memory_budget.h"
#include "sink/metrics.h"
#include "sink/pace.h"
#include "sink/placement.h"
#include "sink/settings.h"
#include "sink/status.h"

namespace queen::sink {

// Windows that a node encodes or uploads at once. Memory is bounded by the budget plus this many windows
// (HD-14).
inline constexpr int kWindowsAtOnce = 4;
inline constexpr std::int64_t kRepeatLogUs = 5 * kSecondUs;

// Shared by all sinks of a node.
struct SinkNode {
  SinkNode(Executor& executor, std::uint64_t memory_limit_bytes)
      : memory(memory_limit_bytes), windows(executor, kWindowsAtOnce) {}
  MemoryBudget memory;
  ClaimLine line;
  AsyncPermits windows;
  MetricRegistry metrics;
};

// One sink.
struct SinkWorld {
  const UnitSettings& unit;
  const NodeSettings& node;
  std::string tenant;
  std::string version;
  Executor& executor;
  std::vector<Executor*> builders;  // that encode objects; at least one
  Random& random;
  Logger log;
  BrokerCalls& calls;
  StoreCalls& store;
  SinkNode& shared;
  StatusBoard& board;
  std::function<void(CrashPoint)> crash;  // ends the process; a test's may come back
  ClaimLine line;                         // of this sink
  GiveBack give_back;
  std::size_t nodes = 1;   // that run this sink
  std::size_t queues = 0;  // that this sink has here
  LogLimit limit;
  std::size_t next_builder = 0;

  std::size_t share() const { return fair_share(queues, nodes); }
  Executor& builder() { return *builders[next_builder++ % builders.size()]; }
};

// Why a run of a queue ended.
struct RunStop {
  QueueState state = QueueState::failed;
  std::string why;
};

// One queue of a sink.
struct QueueContext {
  QueueContext(SinkWorld& sink, std::string name)
      : world(sink),
        queue(std::move(name)),
        path{.prefix = sink.unit.prefix, .tenant = sink.tenant, .queue = queue},
        log(sink.log.inside({"queue", queue})),
        memory_key(percent_name(sink.tenant) + "/" + percent_name(queue)),
        interrupt(sink.executor) {}

  SinkWorld& world;
  std::string queue;
  LakePath path;
  Logger log;  // every line of the queue's task
  std::string memory_key;
  Interrupt interrupt;
  QueueRow row;
  bool paths_compared = false;  // with the windows that the bucket has already

  std::int64_t now_us() const { return world.executor.clock().mono_us(); }
  // Puts the row on the board.
  void publish() { world.board.set_queue(queue, row); }
  void set_state(QueueState state) {
    row.state = state;
    publish();
  }
  // For the status row, and at most one log line per 5 s of each `event` over all queues.
  void note_error(const char* event, const std::string& message);
  // What this queue holds against the node's budget.
  void report_memory(std::uint64_t bytes);

 private:
  static std::string percent_name(std::string_view name);
};

}  // namespace queen::sink

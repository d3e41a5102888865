// One KV row per node that runs the sink, so that each knows how many share the queues (s3-sink.md 6.3).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/log.h"
#include "sink/calls.h"
#include "sink/pace.h"

namespace queen::sink {

// On one executor.
class Presence {
 public:
  struct Names {
    std::string sink;
    std::string instance;
    std::string incarnation;
  };
  Presence(BrokerCalls& calls, Names names, std::int64_t lease_ttl_us, Random& random, Logger log);

  // Writes the row and counts the others, every third of the TTL, until `interrupt` stops.
  Task<void> run(Interrupt& interrupt);
  // Called with nodes() after every beat that counted.
  void on_counted(std::function<void(std::size_t)> hook) { on_counted_ = std::move(hook); }
  // Deletes the row, after run() ended and every queue is released.
  Task<void> leave();
  // Nodes that run this sink, this one always among them.
  std::size_t nodes() const { return nodes_; }

 private:
  Task<CallOutcome<std::size_t>> beat();
  Task<CallOutcome<std::size_t>> count_further(std::string after, std::size_t counted, bool own_seen);

  BrokerCalls& calls_;
  Names names_;
  std::int64_t lease_ttl_us_;
  Random& random_;
  Logger log_;
  LogLimit limit_;
  std::int64_t since_ms_ = 0;
  std::size_t nodes_ = 1;
  std::function<void(std::size_t)> on_counted_;
  bool wrote_ = false;
};

}  // namespace queen::sink

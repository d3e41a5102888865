// A running node: the rooms wired, and the order in which they start and stop (operations.md 16).
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "app/descriptors.h"
#include "app/heap_trim.h"
#include "app/process_use.h"
#include "app/settings.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/log.h"
#include "disk/disk.h"
#include "sink/sink.h"

namespace queen::app {

class Node {
 public:
  Node(NodeSettings settings, Clock& clock, Random& random, LogSink& log);
  ~Node();
  // Listens, recovers, serves. Blocks until ready. Errors: the text behind `FATAL: `.
  Status start();
  // Drains and stops everything; blocks, at most as long as the graces allow.
  void stop();

 private:
  Status listen();
  Status open_broker();
  void start_sink();
  void serve();
  void drain_http();
  void watch_heap();

  NodeSettings settings_;
  Clock& clock_;
  Random& random_;
  LogSink& log_sink_;
  Logger boot_, shutdown_;
  std::atomic<double> progress_{0};
  DescriptorWatch descriptors_;
  SystemProcessProbe process_;
  HeapTrim heap_{resident_anonymous_bytes, trim_heap};
  std::unique_ptr<disk::Disk> disk_;
  std::unique_ptr<ThreadExecutor> api_timers_, sink_executor_, keeper_;  // keeper_: the heap
  std::vector<std::unique_ptr<ThreadExecutor>> builders_;                // encode the sink's objects
  std::unique_ptr<broker::Broker> broker_;
  std::unique_ptr<sink::SinkManager> sink_;
  std::unique_ptr<http::Server> server_;
  std::function<void()> release_ephemeral_;  // parked pops of in-memory queues answer
};

}  // namespace queen::app

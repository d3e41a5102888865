// One sink: probe the bucket, then run a task per queue, presence and placement beside them (s3-sink.md
// 6, 7.2, 19).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sink/presence.h"
#include "sink/queue_task.h"
#include "sink/sink_world.h"

namespace queen::sink {

// On one executor; outlives its run().
class SinkUnit {
 public:
  // `store` and everything named in `world` outlive it.
  explicit SinkUnit(SinkWorld& world);
  // Ends after stop(), when every lease and the presence row are released; and likewise, unasked, when a part
  // of it fails that it cannot go on without.
  Task<void> run();
  // Why it ended unasked; empty otherwise.
  const std::string& failure() const { return failure_; }
  void stop();
  bool stopping() const { return interrupt_.stopping(); }
  // For tests and for giving queues back.
  QueueTask* task(const std::string& queue);

 private:
  Task<void> watched(Task<void> part);
  Task<bool> probe_bucket();
  Task<void> watch_queues();
  Task<void> place();
  void decide_placement();
  void add_queue(const std::string& queue);

  SinkWorld& world_;
  Interrupt interrupt_;
  std::string failure_;
  bool probing_ = false;  // the first question to the bucket is on its way
  Presence presence_;
  TaskGroup tasks_;
  std::map<std::string, std::unique_ptr<QueueTask>> queues_;  // never removed: a deleted queue keeps looking
};

}  // namespace queen::sink

// One run of a queue by the node that holds its lease: restore, then steps of its window engine until
// something ends it (s3-sink.md 7.4, 19). Nothing survives in memory from run to run but the status row.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sink/commit_sequence.h"
#include "sink/sink_world.h"
#include "sink/window_engine.h"

namespace queen::sink {

class QueueRun {
 public:
  // `context` and `lease` outlive the run.
  QueueRun(QueueContext& context, Lease& lease);
  // Runs until the lease is lost, the queue is gone, a signal has drained it, or a step fails for good.
  Task<RunStop> run();

 private:
  Task<std::optional<RunStop>> start();
  Task<std::optional<RunStop>> step();
  Task<std::optional<RunStop>> perform(Action action);
  Task<std::optional<RunStop>> perform_intent(IntentAction action);
  Task<std::optional<RunStop>> perform_upload(UploadAction action);
  Task<std::optional<RunStop>> perform_commit(CommitAction action);
  Task<std::optional<RunStop>> perform_checkpoint(Checkpoint checkpoint);
  Task<void> discover(ChangedRequest request);
  Task<void> seek(SeekAction action);
  Task<std::optional<FetchedEntry>> probe(FetchRequest request);
  Task<void> read(std::vector<FetchAction> calls);
  Task<void> fetch(FetchAction action);
  Task<void> finish_drain();
  void begin_drain();
  void publish();

  QueueContext& context_;
  Lease& lease_;
  CommitSequence sequence_;
  std::unique_ptr<WindowEngine> engine_;
  bool acted_ = false;                         // the last step had something to do
  std::optional<std::int64_t> fetch_wait_us_;  // a fetch of this step failed: wait this long
};

}  // namespace queen::sink

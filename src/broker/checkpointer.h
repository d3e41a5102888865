// Store checkpoints: cut on the apply thread, written on a thread of their own, never waited for (storage.md
// 12).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/crash_points.h"
#include "base/executor.h"
#include "base/log.h"
#include "qlog/queue_logs.h"
#include "store/checkpoint_file.h"
#include "store/store.h"

namespace queen::broker {

// All calls but those of the last three from the apply thread.
class Checkpointer {
 public:
  // `failed` runs on the apply executor, once, when a checkpoint cannot be written: the node must stop.
  Checkpointer(store::Store& store, store::CheckpointFile& file, qlog::QueueLogs& logs, Executor& apply,
               Executor& writer, std::function<void(Error)> failed, Logger log,
               CrashPoints* crash_points = nullptr);
  // `full` runs on the apply executor when the volume has no space for a checkpoint. The logs hold
  // everything, and the next tick tries again.
  void on_volume_full(std::function<void()> full) { volume_full_ = std::move(full); }

  // What the file held at boot.
  void start(EntryIndex durable);
  // An entry was applied that touched `logs`.
  void applied(EntryIndex index, const std::vector<LogId>& logs, std::uint64_t bytes);
  std::uint64_t bytes_since() const { return bytes_since_; }
  // Starts one unless one is on its way or nothing changed: neither the store nor the list of any log's
  // files.
  void begin();
  // The last one, in this thread, after both executors have stopped. Everything must have been applied.
  Status finish();

  EntryIndex durable() const { return EntryIndex{durable_.load(std::memory_order_acquire)}; }
  // Cuts are numbered from 1. One with a number above what cuts_begun() gives sees all that was true before
  // that call; it is on disk once cut_durable() has reached its number.
  std::uint64_t cuts_begun() const { return cuts_begun_.load(std::memory_order_acquire); }
  std::uint64_t cut_durable() const { return cut_durable_.load(std::memory_order_acquire); }

 private:
  // A checkpoint on its way to the file; `status` once it was tried.
  struct Running {
    store::Cut cut;  // once it was collected
    std::uint64_t index = 0;
    std::uint64_t number = 0;
    std::optional<Status> status;
  };
  bool nothing_changed() const;
  // Puts the rows that describe the logs, and ends the round of changes: what changed is still to be
  // collected.
  Running begin_cut();
  void put_log_rows(const std::vector<qlog::LogFiles>& files);
  Status write(const store::Cut& cut);
  void done(const Running& running, const Status& status, std::int64_t started_us);

  store::Store& store_;
  store::CheckpointFile& file_;
  qlog::QueueLogs& logs_;
  Executor& apply_;
  Executor& writer_;
  std::function<void(Error)> failed_;
  std::function<void()> volume_full_;
  Logger log_;
  CrashPoints* const crash_points_;
  std::atomic<std::uint64_t> durable_{0}, cuts_begun_{0}, cut_durable_{0};
  std::uint64_t applied_ = 0;
  std::uint64_t bytes_since_ = 0;
  bool busy_ = false;
  std::shared_ptr<Running> running_;
  std::uint64_t failures_ = 0;
  std::map<LogId, std::uint64_t> changed_tails_;  // since the last cut
};

}  // namespace queen::broker

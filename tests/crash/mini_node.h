// A node without threads: recovery, planner, logs, apply, checkpoints and upkeep as they run in a broker, one
// step at a time, so that a test decides what stands between two changes of the disk.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/executor.h"
#include "base/log.h"
#include "broker/boot.h"
#include "broker/checkpointer.h"
#include "broker/log_clock.h"
#include "broker/upkeep.h"
#include "disk_checkpoint.h"
#include "machine/commands.h"
#include "machine/planner.h"
#include "qlog/compressor_pool.h"
#include "replica/replicator.h"

namespace queen::crash {

struct NodeOptions {
  qlog::Options logs;  // its directory is filled in
  qlog::UpkeepSettings upkeep;
};

struct Planned {
  std::uint64_t index = 0;  // 0: nothing to write
  std::vector<machine::Outcome> outcomes;
  std::shared_ptr<const machine::Entry> entry;
  std::shared_ptr<replica::Proposal> proposal;
};

class MiniNode {
 public:
  MiniNode(disk::Disk& disk, ManualClock& clock, NodeOptions options, LogSink& log = null_log());
  ~MiniNode();
  MiniNode(const MiniNode&) = delete;
  MiniNode& operator=(const MiniNode&) = delete;

  // Recovers; what was open is dropped as a killed process drops it.
  Status open();
  void kill();
  // A last checkpoint, and the files closed.
  Status stop();

  // The next entry. Several may be planned before they are written; each call goes on from the one before.
  Planned plan(const std::vector<machine::Command>& commands);
  // Errors: full (nothing was written; the plans are forgotten), others: the node has stopped.
  Status write_and_sync(const std::vector<Planned>& group);
  Status apply(const std::vector<Planned>& group);

  void begin_checkpoint();
  void run_checkpoint();  // what was begun goes to the disk
  void checkpoint() {
    begin_checkpoint();
    run_checkpoint();
  }
  // A pass of the store's scrub and a round of the logs'. Errors: corrupt (damage was found), others: the
  // checkpoint cannot be read.
  Status scrub();
  // Lets `us` pass for upkeep, of which a reclaim pass wants 1 s and an idle pass 5 s.
  void upkeep(std::int64_t us);

  bool stopped() const { return !cause_.empty(); }
  const std::string& cause() const { return cause_; }
  store::Store& store() { return *opened_->store; }
  qlog::QueueLogs& logs() { return *opened_->logs; }
  broker::Checkpointer& checkpointer() { return *checkpointer_; }
  std::uint64_t applied() const { return applied_; }
  bool is_open() const { return opened_.has_value(); }

 private:
  void fail(const Error& error);

  disk::Disk& disk_;
  ManualClock& clock_;
  broker::Settings settings_;
  Logger log_;
  DiskCheckpoints checkpoints_;
  qlog::InlineRunner runner_;
  qlog::CompressorPool compressors_;
  std::optional<broker::Opened> opened_;
  std::optional<ManualExecutor> apply_executor_, writer_executor_, upkeep_executor_;
  std::unique_ptr<broker::Checkpointer> checkpointer_;
  std::unique_ptr<broker::Upkeep> upkeep_;
  std::unique_ptr<machine::Planner> planner_;
  std::optional<broker::LogClock> log_clock_;
  std::uint64_t next_ = 1, applied_ = 0;
  std::string cause_;
};

}  // namespace queen::crash

#include "broker/checkpointer.h"

#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {

using store::Keyspace;

namespace {
constexpr std::uint64_t kFailuresPerLine = 60;
}  // namespace

Checkpointer::Checkpointer(store::Store& store, store::CheckpointFile& file, qlog::QueueLogs& logs,
                           Executor& apply, Executor& writer, std::function<void(Error)> failed, Logger log,
                           CrashPoints* crash_points)
    : store_(store),
      file_(file),
      logs_(logs),
      apply_(apply),
      writer_(writer),
      failed_(std::move(failed)),
      log_(std::move(log)),
      crash_points_(crash_points) {}

void Checkpointer::start(EntryIndex durable, std::map<LogId, std::vector<std::uint32_t>> files) {
  durable_ = durable.value;
  applied_ = durable.value;
  files_written_ = std::move(files);
}

void Checkpointer::applied(EntryIndex index, const std::vector<LogId>& logs, std::uint64_t bytes) {
  applied_ = index.value;
  bytes_since_ += bytes;
  for (const LogId log : logs) changed_tails_[log] = index.value;
}

void Checkpointer::begin_cut() {
  // Apply sees an entry only after its fsyncs, so the logs are synced through applied_ (CP-2).
  auto files = logs_.files();
  const auto gate = store_.write_gate();
  store_.put(Keyspace::meta, store::kMetaDurableIndex, store::encode_meta_u64(applied_));
  store_.put(Keyspace::meta, store::kMetaQlogDurableIndex, store::encode_meta_u64(applied_));
  for (const auto& [log, tail] : changed_tails_) {
    store_.put(Keyspace::meta, store::meta_qlog_tail(log), store::encode_meta_u64(tail));
  }
  for (const auto& [log, ids] : files) {
    const auto written = files_written_.find(log);
    if (written != files_written_.end() && written->second == ids) continue;
    store_.put(Keyspace::meta, store::meta_qlog_files(log), store::encode_meta_u32_list(ids));
  }
  changed_tails_.clear();
  files_written_ = std::move(files);
  bytes_since_ = 0;
  store_.begin_cut();
}

Status Checkpointer::write(const store::Cut& cut) {
  reach_point(crash_points_, CrashPoint::durable_files_synced);
  if (auto status = file_.write(cut); !status) return status;
  reach_point(crash_points_, CrashPoint::durable_store_committed);
  return {};
}

void Checkpointer::begin() {
  if (busy_ || applied_ == durable_.load(std::memory_order_relaxed)) return;
  busy_ = true;
  const std::int64_t started = apply_.clock().mono_us();
  begin_cut();
  running_ = std::make_shared<Running>(Running{{}, applied_, {}});
  writer_.post([this, running = running_, started] {
    running->cut = store_.collect_cut();
    running->status = write(running->cut);
    apply_.post([this, running, started] { done(*running->status, running->cut, running->index, started); });
  });
}

void Checkpointer::done(const Status& status, const store::Cut& cut, std::uint64_t index,
                        std::int64_t started_us) {
  const auto held = std::move(running_);  // `cut` is part of it
  busy_ = false;
  if (status) {
    durable_.store(index, std::memory_order_release);
    log_.debug(
        "checkpoint",
        {{"index", index}, {"rows", cut.count()}, {"ms", (apply_.clock().mono_us() - started_us) / 1000}});
    return;
  }
  {
    const auto gate = store_.write_gate();
    store_.put_back(cut);
  }
  if (status.error().code == Errc::full) {
    // The logs hold everything; the next tick tries again, and space may have come by then.
    if (failures_++ % kFailuresPerLine == 0)
      log_.warn("checkpoint_volume_full", {{"why", status.error().what}});
    return;
  }
  failed_(status.error());
}

Status Checkpointer::finish() {
  // One was on its way when the executors stopped: it is done, or it never began.
  if (busy_ && !running_->status) running_->cut = store_.collect_cut();
  if (busy_)
    done(running_->status.value_or(Error{Errc::full, "stopped before it was written"}), running_->cut,
         running_->index, 0);
  if (applied_ == durable_.load(std::memory_order_relaxed)) return {};
  begin_cut();
  if (auto status = write(store_.collect_cut()); !status) return status;
  durable_.store(applied_, std::memory_order_release);
  return {};
}

}  // namespace queen::broker

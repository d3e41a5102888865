#include "broker/checkpointer.h"

#include "base/planted_bugs.h"
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

void Checkpointer::start(EntryIndex durable) {
  durable_ = durable.value;
  applied_ = durable.value;
}

void Checkpointer::applied(EntryIndex index, const std::vector<LogId>& logs, std::uint64_t bytes) {
  applied_ = index.value;
  bytes_since_ += bytes;
  for (const LogId log : logs) changed_tails_[log] = index.value;
}

// A cut that could not be written is a change as well: its rows are in no checkpoint.
bool Checkpointer::nothing_changed() const {
  return applied_ == durable_.load(std::memory_order_relaxed) && !logs_.files_changed() &&
         cuts_begun() == cut_durable();
}

Checkpointer::Running Checkpointer::begin_cut() {
  // Before anything is looked at: whoever reads the old number and waits for a higher one is waiting for a
  // cut that sees what was there by then.
  const std::uint64_t number = cuts_begun_.fetch_add(1, std::memory_order_acq_rel) + 1;
  const auto files = logs_.take_changed_files();
  const auto gate = store_.write_gate();
  put_log_rows(files);
  bytes_since_ = 0;
  store_.begin_cut();
  return {.cut = {}, .index = applied_, .number = number, .status = {}};
}

// Apply sees an entry only after its fsyncs, so the logs are synced through applied_ (CP-2).
void Checkpointer::put_log_rows(const std::vector<qlog::LogFiles>& files) {
  store_.put(Keyspace::meta, store::kMetaDurableIndex, store::encode_meta_u64(applied_));
  store_.put(Keyspace::meta, store::kMetaQlogDurableIndex, store::encode_meta_u64(applied_));
  for (const auto& [log, ids] : files) {
    if (ids) {
      store_.put(Keyspace::meta, store::meta_qlog_files(log), store::encode_meta_u32_list(*ids));
      continue;
    }
    store_.erase(Keyspace::meta, store::meta_qlog_files(log));
    store_.erase(Keyspace::meta, store::meta_qlog_tail(log));
  }
  // Behind the removals: a log that was written to meanwhile is none.
  for (const auto& [log, tail] : changed_tails_)
    store_.put(Keyspace::meta, store::meta_qlog_tail(log), store::encode_meta_u64(tail));
  changed_tails_.clear();
}

Status Checkpointer::write(const store::Cut& cut) {
  reach_point(crash_points_, CrashPoint::durable_files_synced);
  if (auto status = file_.write(cut); !status) return status;
  reach_point(crash_points_, CrashPoint::durable_store_committed);
  return {};
}

void Checkpointer::begin() {
  if (busy_ || nothing_changed()) return;
  busy_ = true;
  const std::int64_t started = apply_.clock().mono_us();
  running_ = std::make_shared<Running>(begin_cut());
  writer_.post([this, running = running_, started] {
    running->cut = store_.collect_cut();
    running->status = write(running->cut);
    apply_.post([this, running, started] { done(*running, *running->status, started); });
  });
}

void Checkpointer::done(const Running& running, const Status& status, std::int64_t started_us) {
  const auto held = std::move(running_);  // `running` is it
  busy_ = false;
  if (status) {
    durable_.store(running.index, std::memory_order_release);
    cut_durable_.store(running.number, std::memory_order_release);
    log_.debug("checkpoint", {{"index", running.index},
                              {"rows", running.cut.count()},
                              {"ms", (apply_.clock().mono_us() - started_us) / 1000}});
    return;
  }
  if (!planted(PlantedBug::broker_drops_a_failed_cut)) {
    const auto gate = store_.write_gate();
    store_.put_back(running.cut);
  }
  const bool full = status.error().code == Errc::full;
  if (full || status.error().code == Errc::busy) {
    // The logs hold everything; the next tick tries again, and space or descriptors may have come by then.
    if (failures_++ % kFailuresPerLine == 0)
      log_.warn(full ? "checkpoint_volume_full" : "checkpoint_waits", {{"why", status.error().what}});
    // A full map is no full volume: only the system says that.
    if (full && volume_full_ && status.error().sys_errno != 0) volume_full_();
    return;
  }
  failed_(status.error());
}

Status Checkpointer::finish() {
  // One was on its way when the executors stopped: it is done, or it never began.
  if (busy_ && !running_->status) running_->cut = store_.collect_cut();
  if (busy_) {
    const Status tried = running_->status.value_or(Error{Errc::full, "stopped before it was written"});
    done(*running_, tried, 0);
    // A sync that failed is not repeated as if it had not (DUR-10).
    if (!tried && tried.error().code != Errc::full && tried.error().code != Errc::busy) return tried;
  }
  if (nothing_changed()) return {};
  Running last = begin_cut();
  last.cut = store_.collect_cut();
  if (auto status = write(last.cut); !status) return status;
  durable_.store(last.index, std::memory_order_release);
  cut_durable_.store(last.number, std::memory_order_release);
  return {};
}

}  // namespace queen::broker

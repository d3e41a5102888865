#include "qlog/detail/idle_pass.h"

#include <algorithm>

#include "qlog/detail/paths.h"
#include "qlog/detail/settle.h"

namespace queen::qlog::detail {
namespace {

constexpr std::uint32_t kStepsMax = 64;  // seals and removals of one pass

}  // namespace

// A shared log and the system log stay, for something is always on its way to them.
bool IdlePass::of_one_queue(LogId log) const {
  return log != kSystemLog && logs_.layout().shards == 0;
}

bool IdlePass::old_enough(const ActiveFile& file, std::int64_t now_us) const {
  return settings_.seal_age_us > 0 && now_us - file.since_us >= settings_.seal_age_us;
}

// A sealed file never holds an entry that recovery might cut: what is in it is synced in all logs (QL-18).
bool IdlePass::sealable(const ActiveFile& file) const {
  return !file.empty && !file.unsynced && file.highest_seq <= logs_.synced_index();
}

bool IdlePass::removable(const Log& log) {
  const ActiveFile file = log.active_file();
  return file.empty && !file.unsynced && log.sealed_files()->empty() &&
         file.first_seq <= host_.recovery_floor().value;
}

Result<IdleReport> IdlePass::run(std::int64_t now_us) {
  IdleReport report;
  if (auto done = finish_removals(report); !done) return done.error();
  const auto ids = logs_.log_ids();
  const auto start = std::ranges::lower_bound(ids, next_) - ids.begin();
  std::uint32_t planned = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const LogId id = ids[(static_cast<std::size_t>(start) + i) % ids.size()];
    next_ = id;
    if (report.sealed + report.removed + planned >= kStepsMax) return report;
    if (logs_.poisoned() || !host_.go_on()) return report;
    const auto log = logs_.find(id);
    if (!log) continue;
    const ActiveFile file = log->active_file();
    if (old_enough(file, now_us) && sealable(file)) {
      const auto sealed = seal(*log, now_us);
      if (!sealed) return sealed.error();
      if (*sealed) ++report.sealed;
    }
    if (of_one_queue(id) && !log->removal_planned() && removable(*log) && plan_removal(*log)) ++planned;
  }
  if (!ids.empty()) next_ = {next_.value + 1};
  return report;
}

Result<bool> IdlePass::seal(Log& log, std::int64_t now_us) {
  const std::unique_lock turn(log.turn(), std::try_to_lock);
  if (!turn || log.gone()) return false;
  const ActiveFile file = log.active_file();  // anew: it may have been written to
  if (!sealable(file)) return false;
  auto done = log.roll(std::max(logs_.next_index(), file.highest_seq + 1), now_us);
  // Both pass, and the file goes on as it was.
  if (!done && (done.error().code == Errc::full || done.error().code == Errc::busy)) return false;
  if (!done) return logs_.poison(std::move(done).error());
  logs_.mark_changed(log.id());
  return true;
}

bool IdlePass::plan_removal(Log& log) {
  const std::unique_lock turn(log.turn(), std::try_to_lock);
  if (!turn || log.gone() || !removable(log)) return false;
  log.plan_removal();
  logs_.mark_changed(log.id());
  // One that a write took back waited for an older checkpoint, which may list the log.
  std::erase_if(removals_, [&](const Removal& removal) { return removal.log == log.id(); });
  removals_.push_back({log.id(), host_.cuts_begun()});
  return true;
}

Status IdlePass::finish_removals(IdleReport& report) {
  for (auto next = removals_.begin(); next != removals_.end();) {
    if (logs_.poisoned() || !host_.go_on() || report.removed >= kStepsMax) break;
    if (next->cuts_begun >= host_.cut_durable()) {
      ++next;
      continue;
    }
    const auto finished = finish_removal(*next, report);
    if (!finished) return finished.error();
    next = *finished ? removals_.erase(next) : std::next(next);
  }
  return {};
}

Result<bool> IdlePass::finish_removal(const Removal& removal, IdleReport& report) {
  const auto log = logs_.find(removal.log);
  if (!log) return true;
  {
    const std::unique_lock turn(log->turn(), std::try_to_lock);
    if (!turn) return false;
    // Written to meanwhile: that write took it back.
    if (!log->removal_planned()) return true;
    if (auto done = rename_to_dead(*log); !done) {
      // The name is gone, though perhaps not for good: a checkpoint that lists the log again would have the
      // next boot refuse.
      if (logs_.poisoned()) return done.error();
      logs_.shared().log.warn("log_not_removed", {{"log", removal.log.value}, {"why", done.error().what}});
      log->keep();
      logs_.mark_changed(removal.log);
      return true;
    }
    log->set_gone();
    logs_.remove(*log);
  }
  ++report.removed;
  sweep(removal.log);
  return true;
}

// What waits for the turn may only find the log gone once no crash brings the old directory back beside a new
// one of that name: hence the sync.
Status IdlePass::rename_to_dead(const Log& log) {
  Shared& shared = logs_.shared();
  const std::string& root = shared.options.directory;
  const std::string dead = dead_directory(root, log.id());
  const auto left = shared.disk.exists(dead);
  if (!left) return left.error();
  if (*left) {
    if (auto done = sweep_dead(shared.disk, dead); !done) return done;
  }
  if (auto done = note_removal(); !done) return done;
  shared.drop(log.active_key());
  if (auto done = shared.disk.rename(log_directory(root, log.id()), dead); !done) return done;
  if (auto done = shared.disk.sync_dir(root); !done) return logs_.poison(std::move(done).error());
  return {};
}

// From now on the logs are not complete from entry 1, and nothing in those that are left says so: a boot that
// finds no store must refuse (HD-29).
Status IdlePass::note_removal() {
  if (removal_noted_) return {};
  Shared& shared = logs_.shared();
  const auto note = shared.disk.open(removed_note_path(shared.options.directory), disk::Open::create);
  if (!note) return note.error();
  if (auto done = (*note)->sync(); !done) return done;
  if (auto done = shared.disk.sync_dir(shared.options.directory); !done) return done;
  removal_noted_ = true;
  return {};
}

void IdlePass::sweep(LogId log) {
  Shared& shared = logs_.shared();
  const auto done = sweep_dead(shared.disk, dead_directory(shared.options.directory, log));
  if (done) {
    shared.log.info("log_removed", {{"log", log.value}});
    return;
  }
  // The next boot sweeps it (ID-3).
  shared.log.warn("log_not_swept", {{"log", log.value}, {"why", done.error().what}});
}

}  // namespace queen::qlog::detail

#include "qlog/detail/reclaim.h"

#include <algorithm>

#include "base/invariant.h"
#include "base/planted_bugs.h"
#include "qlog/detail/paths.h"

namespace queen::qlog::detail {
namespace {

constexpr std::uint32_t kFilesMax = 256;
constexpr std::uint64_t kLookUpsMax = 262'144;
constexpr std::int64_t kPassUs = 200'000;
constexpr std::size_t kLogsMax = 4096;  // of one pass: most have no sealed file and cost next to nothing
// A file in which nothing was to be done is left alone so long.
constexpr std::int64_t kLookAgainUs = 5'000'000;
constexpr std::int64_t kLookAgainAfterFailureUs = 60'000'000;
// Rewrites follow each other no faster than this: where retention eats a large file message by message, every
// one of them would be a reason to copy the rest.
constexpr std::int64_t kCopyBytesPerSecond = 16LL << 20;
constexpr double kSharedLogDeadPct = 50;

bool holds(const std::vector<std::uint32_t>& ids, std::uint32_t id) {
  return std::ranges::find(ids, id) != ids.end();
}

const SealedFile* file_of(const SealedFiles& files, std::uint32_t id) {
  const auto found = std::ranges::find(files, id, &SealedFile::id);
  return found == files.end() ? nullptr : &*found;
}

}  // namespace

Reclaimer::Reclaimer(QueueLogsImpl& logs, UpkeepHost& host, const UpkeepSettings& settings)
    : logs_(logs), host_(host), settings_(settings) {
  for (const LogId id : logs_.log_ids())
    if (const auto log = logs_.find(id))
      for (const auto file : log->doomed()) unlisted_.emplace_back(id, file);
}

double Reclaimer::min_dead_pct() const {
  return settings_.min_dead_pct.value_or(logs_.layout().shards > 0 ? kSharedLogDeadPct : 0);
}

ReclaimReport Reclaimer::pass() {
  report_ = {};
  budget_ = {.look_ups_left = kLookUpsMax, .deadline_us = now() + kPassUs, .clock = settings_.clock};
  if (!settings_.reclaim || stopped()) return report_;
  for (const auto& key : std::exchange(dropped_, {})) logs_.shared().drop(key);
  forget_doomed();
  unlink_doomed();
  finish_copy();
  if (finish_judgement()) {
    judge_unlisted();
    walk();
  }
  report_.look_ups = kLookUpsMax - budget_.look_ups_left;
  return report_;
}

// Takes files that no durable checkpoint lists out of the readers' sight, log by log.
void Reclaimer::forget_doomed() {
  const std::uint64_t durable = host_.cut_durable();
  std::unordered_map<LogId, std::vector<std::uint32_t>> due;
  for (const auto& doomed : doomed_)
    if (!doomed.forgotten && (doomed.cuts_begun < durable || planted(PlantedBug::qlog_unlinks_too_early)))
      due[doomed.log].push_back(doomed.file.id);
  for (const auto& [id, files] : due) {
    if (const auto log = logs_.find(id)) {
      const std::unique_lock turn(log->turn(), std::try_to_lock);
      if (!turn) continue;
      log->forget(files);
    }
    for (auto& doomed : doomed_)
      if (doomed.log == id && holds(files, doomed.file.id)) doomed.forgotten = true;
  }
}

void Reclaimer::unlink_doomed() {
  std::erase_if(doomed_, [&](const Doomed& doomed) {
    return doomed.forgotten && report_.unlinked < kFilesMax && !stopped() && unlink(doomed);
  });
}

bool Reclaimer::unlink(const Doomed& doomed) {
  Shared& shared = logs_.shared();
  const std::string& root = shared.options.directory;
  reach_point(shared.options.crash_points, CrashPoint::gc_before_unlink);
  auto done = shared.disk.remove_file(record_file(root, doomed.log, doomed.file.id));
  reach_point(shared.options.crash_points, CrashPoint::gc_after_unlink);
  if (!done && done.error().code != Errc::not_found) {
    shared.log.warn("unlink_failed",
                    {{"log", doomed.log.value}, {"file", doomed.file.id}, {"why", done.error().what}});
    return false;
  }
  ignore(shared.disk.remove_file(index_path(root, doomed.log, doomed.file.id)),
         "an index without its file is removed at the next open");
  drop({doomed.log, doomed.file.id, doomed.file.generation});
  ++report_.unlinked;
  report_.freed_bytes += doomed.file.bytes;
  return true;
}

// Twice: a reader that was on its way when the bytes were replaced may put them into the cache afterwards,
// and would hold their space there.
void Reclaimer::drop(const FileKey& key) {
  logs_.shared().drop(key);
  dropped_.push_back(key);
  memory_.erase(key);
}

void Reclaimer::finish_copy() {
  if (!copy_ || copy_->cuts_begun >= host_.cut_durable()) return;
  Shared& shared = logs_.shared();
  const Rewrite& rewrite = copy_->rewrite;
  const auto log = logs_.find(rewrite.log);
  INVARIANT(log != nullptr, "log {} went while file {} was rewritten", rewrite.log.value, rewrite.old.id);
  if (!copy_->shown && !show(shared, *log, rewrite)) return;
  copy_->shown = true;
  if (auto done = take_name(shared, rewrite); !done) {
    shared.log.warn("rewrite_failed",
                    {{"log", rewrite.log.value}, {"file", rewrite.old.id}, {"why", done.error().what}});
    return;
  }
  reach_point(shared.options.crash_points, CrashPoint::compaction_loc_committed);
  shared.log.debug("rewritten", {{"log", rewrite.log.value},
                                 {"file", rewrite.old.id},
                                 {"bytes", rewrite.fresh.bytes},
                                 {"was", rewrite.old.bytes}});
  drop(log->key_of(rewrite.old));
  report_.freed_bytes += rewrite.old.bytes - rewrite.fresh.bytes;
  copy_.reset();
}

// Files whose unlink a crash prevented. They were found dead before, and are asked about once more: whatever
// lives in them after all stays.
void Reclaimer::judge_unlisted() {
  for (std::size_t left = unlisted_.size(); left > 0 && report_.looked_at < kFilesMax; --left) {
    const auto [id, file_id] = unlisted_.front();
    unlisted_.pop_front();
    const auto log = logs_.find(id);
    const auto files = log ? log->sealed_files() : nullptr;
    const SealedFile* file = files ? file_of(*files, file_id) : nullptr;
    if (file == nullptr) continue;
    if (file->highest_seq > host_.recovery_floor().value) {
      unlisted_.emplace_back(id, file_id);
      continue;
    }
    log->spare(file_id);
    const bool within_budget = look_at(*log, *file);
    if (!holds(log->doomed(), file_id)) logs_.mark_changed(id);
    if (!within_budget) return;
  }
}

void Reclaimer::walk() {
  bool began_round = false;
  for (std::size_t logs = 0; logs < kLogsMax && !stopped(); ++logs) {
    if (walk_.at >= walk_.logs.size()) {
      if (began_round) return;
      began_round = true;
      walk_ = {.logs = logs_.log_ids(), .at = 0, .behind_file = 0};
      if (walk_.logs.empty()) return;
    }
    if (const auto log = logs_.find(walk_.logs[walk_.at]); log && !walk_log(*log)) return;
    ++walk_.at;
    walk_.behind_file = 0;
  }
}

bool Reclaimer::walk_log(Log& log) {
  const auto files = log.sealed_files();
  const auto doomed = log.doomed();
  for (const auto& file : *files) {
    if (file.id <= walk_.behind_file || holds(doomed, file.id)) continue;
    if (!worth_a_look(log.key_of(file), file)) continue;
    if (report_.looked_at >= kFilesMax || budget_.spent()) return false;
    walk_.behind_file = file.id;
    if (!look_at(log, file)) return false;
  }
  return true;
}

bool Reclaimer::worth_a_look(const FileKey& key, const SealedFile& file) {
  if (file.highest_seq > host_.recovery_floor().value) return false;  // RE-3
  if (copy_ && copy_->rewrite.log == key.log && copy_->rewrite.old.id == key.file_id) return false;
  const auto known = memory_.find(key);
  return known == memory_.end() || known->second.look_again_us <= now();
}

bool Reclaimer::look_at(Log& log, const SealedFile& file) {
  ++report_.looked_at;
  Memory& memory = memory_[log.key_of(file)];
  memory.look_again_us = now() + kLookAgainUs;
  auto index = log.load_index(file);
  if (!index) {
    memory.look_again_us = now() + kLookAgainAfterFailureUs;
    logs_.shared().log.error("reclaim_cannot_judge",
                             {{"log", log.id().value}, {"file", file.id}, {"why", index.error().what}});
    return true;
  }
  Judgement judgement(log.id(), file, std::move(*index), memory.dead_prefix);
  // A guess spares the exact count where a share is asked for and nearly nothing of it is there.
  if (min_dead_pct() > 0 && 2 * judgement.sample_dead_pct(host_, budget_) < min_dead_pct()) {
    judgement.let_go();
    return true;
  }
  judgement_.emplace(std::move(judgement));
  return finish_judgement();
}

bool Reclaimer::finish_judgement() {
  if (!judgement_) return true;
  const bool all_known = judgement_->go_on(host_, budget_);
  memory_[{judgement_->log(), judgement_->file().id, judgement_->file().generation}].dead_prefix =
      judgement_->dead_prefix();
  if (!all_known) return false;
  const Judgement judgement = std::move(*judgement_);
  judgement_.reset();
  decide(judgement);
  judgement.let_go();
  return !budget_.spent();
}

void Reclaimer::decide(const Judgement& judgement) {
  const auto log = logs_.find(judgement.log());
  if (!log) return;
  if (judgement.all_dead()) return doom(*log, judgement.file());
  if (!judgement.any_dead()) return;
  if (min_dead_pct() > 0 && judgement.dead_pct() < min_dead_pct()) return;
  if (may_rewrite()) return rewrite(*log, judgement);
  memory_[log->key_of(judgement.file())].look_again_us = 0;
}

void Reclaimer::doom(Log& log, const SealedFile& file) {
  log.doom(file.id);
  logs_.mark_changed(log.id());
  doomed_.push_back({.log = log.id(), .file = file, .cuts_begun = host_.cuts_begun(), .forgotten = false});
}

void Reclaimer::rewrite(Log& log, const Judgement& judgement) {
  const SealedFile& file = judgement.file();
  Shared& shared = logs_.shared();
  auto copy = copy_live(shared, log.id(), file, judgement.live(), [this] { return !stopped(); });
  if (!copy) {
    memory_[log.key_of(file)].look_again_us = now() + kLookAgainAfterFailureUs;
    shared.log.warn("rewrite_failed",
                    {{"log", log.id().value}, {"file", file.id}, {"why", copy.error().what}});
    return;
  }
  reach_point(shared.options.crash_points, CrashPoint::compaction_copied);
  ++report_.rewritten;
  rewrite_not_before_us_ =
      now() + static_cast<std::int64_t>(copy->fresh.bytes) * 1'000'000 / kCopyBytesPerSecond;
  // A reason for a checkpoint, also where nothing else happens.
  logs_.mark_changed(log.id());
  copy_.emplace(Copy{.rewrite = std::move(*copy), .cuts_begun = host_.cuts_begun(), .shown = false});
}

}  // namespace queen::qlog::detail

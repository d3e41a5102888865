#include "qlog/detail/damage.h"

#include <algorithm>

namespace queen::qlog::detail {
namespace {

constexpr std::int64_t kTellEveryUs = 10'000'000;
constexpr std::size_t kToldMax = 1024;

}  // namespace

bool DamageReports::due(const FileKey& about) {
  const std::int64_t now = clock_ == nullptr ? 0 : clock_->mono_us();
  const std::lock_guard held(mutex_);
  const auto found = told_.find(about);
  if (found != told_.end() && now - found->second < kTellEveryUs) return false;
  if (told_.size() >= kToldMax) told_.clear();
  told_[about] = now;
  return true;
}

void DamageReports::note(const FileKey& file, std::uint64_t position, std::string_view what) {
  const std::lock_guard held(mutex_);
  const auto known = std::ranges::find(files_, file, &Damaged::file);
  if (known == files_.end() && files_.size() < kToldMax)
    files_.push_back({file, position, std::string(what)});
}

void DamageReports::good(const FileKey& file) {
  const std::lock_guard held(mutex_);
  std::erase_if(files_, [&](const Damaged& damaged) { return damaged.file == file; });
}

std::vector<DamageReports::Damaged> DamageReports::files() const {
  const std::lock_guard held(mutex_);
  return files_;
}

void DamageReports::scrubbed(const FileKey& file, std::uint64_t position, std::string_view what) {
  note(file, position, what);
  log_.error("scrub_found_damage",
             {{"log", file.log.value}, {"file", file.file_id}, {"position", position}, {"what", what}});
}

void DamageReports::record(const FileKey& file, std::uint64_t position, std::string_view what) {
  const std::uint64_t times = ++records_;
  note(file, position, what);
  if (!due(file)) return;
  log_.error("record_damaged", {{"log", file.log.value},
                                {"file", file.file_id},
                                {"position", position},
                                {"what", what},
                                {"damaged_reads", times}});
}

void DamageReports::gap(LogId log, Pid pid, std::uint64_t from_offset, std::uint64_t next_offset) {
  const std::uint64_t times = ++gaps_;
  // File 0 does not exist: gaps of a log are told of apart from its files.
  if (!due({log, 0})) return;
  log_.warn(
      "gap_skipped",
      {{"log", log.value}, {"pid", pid.value}, {"from", from_offset}, {"to", next_offset}, {"gaps", times}});
}

}  // namespace queen::qlog::detail

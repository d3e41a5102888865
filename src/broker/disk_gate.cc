#include "broker/disk_gate.h"

namespace queen::broker {
namespace {

// Less than this is not worth a second try of what was just refused.
constexpr std::uint64_t kRoomBytesMin = 1ULL << 20;

}  // namespace

DiskGate::DiskGate(disk::Disk& disk, const std::string& directory, Marks marks, const Logger& log)
    : disk_(disk),
      directory_(directory),
      marks_(marks),
      log_(log),
      reserve_(disk, directory, marks.reserve_bytes, log) {}

void DiskGate::check() {
  const auto use = disk_.volume(directory_);
  if (!use || use->total_bytes == 0) return;
  const double free_pct =
      100.0 * static_cast<double>(reserve_.free_for_growth(*use)) / static_cast<double>(use->total_bytes);
  const double used_pct = 100.0 - free_pct;
  set(closed() ? used_pct >= marks_.low_pct : used_pct >= marks_.high_pct, used_pct);
  reserve_.restore(*use);
}

void DiskGate::set(bool closed, double used_pct) {
  if (closed_.exchange(closed) == closed) return;
  log_.warn("disk_gate", {{"full", closed}, {"used_pct", static_cast<int>(used_pct)}});
}

bool DiskGate::volume_full() {
  if (reserve_.release()) {
    // Before anything of the space is used: it is not for growth.
    set(true, 100);
    return true;
  }
  // Writes may have filled the volume since the last look, and small ones behind them would still fit.
  check();
  const auto use = disk_.volume(directory_);
  return use && use->free_bytes >= kRoomBytesMin;
}

std::string DiskGate::refusal(std::string_view what) const {
  const std::lock_guard lock(mutex_);
  return std::string(what) + (holder_.empty() ? "" : "; " + holder_);
}

void DiskGate::set_holder(std::string holder) {
  const std::lock_guard lock(mutex_);
  holder_ = std::move(holder);
}

}  // namespace queen::broker

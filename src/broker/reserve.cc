#include "broker/reserve.h"

namespace queen::broker {

Reserve::Reserve(disk::Disk& disk, const std::string& directory, std::uint64_t bytes, Logger log)
    : disk_(disk),
      directory_(directory),
      path_(directory + "/reserve.bin"),
      bytes_(bytes),
      log_(std::move(log)) {
  const auto file = disk_.open(path_, disk::Open::read);
  if (!file || bytes_ == 0) return;
  const auto size = (*file)->size();
  held_ = size && *size >= bytes_;
  if (!held_) ignore(disk_.remove_file(path_), "one that a crash left half made is made over anyway");
}

bool Reserve::release() {
  const std::lock_guard lock(mutex_);
  if (!held_) return false;
  // Syncing the directory is what makes a journalling file system hand out the blocks again.
  auto done = disk_.remove_file(path_);
  if (done) done = disk_.sync_dir(directory_);
  held_ = false;
  if (!done) {
    log_.warn("reserve_not_released", {{"why", done.error().what}});
    return false;
  }
  log_.warn("reserve_released", {{"bytes", bytes_}});
  return true;
}

void Reserve::restore(const disk::VolumeUse& use) {
  const std::lock_guard lock(mutex_);
  if (bytes_ == 0 || held_ || use.free_bytes < 2 * bytes_) return;
  if (auto made = make(); !made) {
    ignore(disk_.remove_file(path_), "the next look tries again");
    log_.debug("reserve_not_made", {{"why", made.error().what}});
    return;
  }
  held_ = true;
  log_.info("reserve_made", {{"bytes", bytes_}});
}

Status Reserve::make() {
  const auto file = disk_.open(path_, disk::Open::create);
  if (!file) return file.error();
  if (auto done = (*file)->truncate(0); !done) return done;
  if (auto done = (*file)->allocate(bytes_); !done) return done;
  return disk_.sync_dir(directory_);
}

std::uint64_t Reserve::free_for_growth(const disk::VolumeUse& use) const {
  const std::lock_guard lock(mutex_);
  if (held_ || use.total_bytes < 2 * bytes_) return use.free_bytes;
  return use.free_bytes > bytes_ ? use.free_bytes - bytes_ : 0;
}

}  // namespace queen::broker

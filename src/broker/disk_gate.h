// The disk gate: writes that need space are refused while the volume is nearly full (storage.md 24).
#pragma once

#include <atomic>
#include <string>

#include "base/log.h"
#include "disk/disk.h"

namespace queen::broker {

// check() from one thread; closed() from any.
class DiskGate {
 public:
  DiskGate(disk::Disk& disk, std::string directory, double high_pct, double low_pct, Logger log)
      : disk_(disk),
        directory_(std::move(directory)),
        high_pct_(high_pct),
        low_pct_(low_pct),
        log_(std::move(log)) {}

  bool closed() const { return closed_.load(std::memory_order_relaxed); }
  // Looks at the volume; logs a change. A volume that cannot be asked leaves the gate as it is.
  void check() {
    const auto use = disk_.volume(directory_);
    if (!use || use->total_bytes == 0) return;
    const double used_pct =
        100.0 - 100.0 * static_cast<double>(use->free_bytes) / static_cast<double>(use->total_bytes);
    const bool was = closed();
    const bool now = was ? used_pct >= low_pct_ : used_pct >= high_pct_;
    if (now == was) return;
    closed_.store(now, std::memory_order_relaxed);
    log_.warn("disk_gate", {{"full", now}, {"used_pct", static_cast<int>(used_pct)}});
  }

 private:
  disk::Disk& disk_;
  const std::string directory_;
  const double high_pct_, low_pct_;
  Logger log_;
  std::atomic<bool> closed_{false};
};

}  // namespace queen::broker

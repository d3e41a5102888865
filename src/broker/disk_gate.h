// The disk gate: writes that need space are refused while the volume is nearly full (storage.md 24), and
// what is kept back so that all others go on when it is full to the last byte (HD-30).
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

#include "base/log.h"
#include "broker/reserve.h"
#include "disk/disk.h"

namespace queen::broker {

class DiskGate {
 public:
  struct Marks {
    double high_pct, low_pct;
    std::uint64_t reserve_bytes;
  };
  DiskGate(disk::Disk& disk, const std::string& directory, Marks marks, const Logger& log);

  // Any thread.
  bool closed() const { return closed_.load(std::memory_order_relaxed); }
  // What a refused write is told; names the hold of a sink while that keeps most of the volume. Any thread.
  std::string refusal(std::string_view what) const;
  // What holds most of the volume besides live messages; empty = nothing to name. Any thread.
  void set_holder(std::string holder);
  // Looks at the volume, logs a change, makes the reserve again when there is space for it. A volume that
  // cannot be asked leaves the gate as it is. Any thread.
  void check();
  // A write met a full volume: closes the gate and gives the reserve away. True when there is space now for
  // writes that do not grow. Any thread.
  bool volume_full();

 private:
  void set(bool closed, double used_pct);

  disk::Disk& disk_;
  const std::string directory_;
  const Marks marks_;
  Logger log_;
  Reserve reserve_;
  std::atomic<bool> closed_{false};
  mutable std::mutex mutex_;  // guards holder_
  std::string holder_;
};

}  // namespace queen::broker

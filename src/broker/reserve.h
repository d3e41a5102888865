// Space kept back for a volume that is full to the last byte (HD-30): `reserve.bin` in the data directory.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "base/log.h"
#include "disk/disk.h"

namespace queen::broker {

// Thread-safe. Its mutex is held across the I/O of its own file and no other.
class Reserve {
 public:
  // `bytes` 0: there is none. Looks whether the file is there.
  Reserve(disk::Disk& disk, const std::string& directory, std::uint64_t bytes, Logger log);

  // Gives the space to whoever writes next. False when there was none to give.
  bool release();
  // Makes it again once twice its size is free.
  void restore(const disk::VolumeUse& use);
  // What of `use` is free for growth: the space of a reserve that is to be made again does not count. A
  // volume of less than twice its size never gets one.
  std::uint64_t free_for_growth(const disk::VolumeUse& use) const;

 private:
  Status make();

  disk::Disk& disk_;
  const std::string directory_, path_;
  const std::uint64_t bytes_;
  Logger log_;
  mutable std::mutex mutex_;  // guards held_
  bool held_ = false;
};

}  // namespace queen::broker

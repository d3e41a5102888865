// A checkpoint file on any disk, for nodes in simulation: the whole store in one file that is replaced.
#pragma once

#include "disk/disk.h"
#include "store/checkpoint_file.h"

namespace queen::crash {

// Keeps `directory`/checkpoint. A write makes the new file beside the old one in several writes, syncs it,
// renames it over and syncs the directory. Outlives what it opened.
class DiskCheckpoints final : public store::CheckpointHome {
 public:
  explicit DiskCheckpoints(disk::Disk& disk) : disk_(disk) {}
  Result<bool> exists(const std::string& directory) override;
  Result<std::unique_ptr<store::CheckpointFile>> open(const std::string& directory) override;

 private:
  disk::Disk& disk_;
};

}  // namespace queen::crash

// The store's own LMDB file for a simulated node. LMDB needs a real file system, so the file lies in a
// directory of its own in memory; the power is that of the simulated disk.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "disk/ram_disk.h"
#include "store/checkpoint_file.h"

namespace queen::sim {

inline constexpr const char* kDataDirectory = "/data";  // of every node

// A directory of this process that goes away with it.
class RealDirectory {
 public:
  RealDirectory();
  ~RealDirectory();
  RealDirectory(const RealDirectory&) = delete;
  RealDirectory& operator=(const RealDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Keeps `directory` of a node below a directory of its own. A commit of LMDB is one moment: the power of
// `disk`, which outlives this, goes before it or behind it.
class StoreHome final : public store::CheckpointHome {
 public:
  StoreHome(disk::RamDisk& disk, Logger log) : disk_(disk), log_(std::move(log)) {}
  Result<bool> exists(const std::string& directory) override;
  Result<std::unique_ptr<store::CheckpointFile>> open(const std::string& directory) override;
  // Where `path` of a node really is.
  std::string real(const std::string& path) const { return real_.path() + path; }
  // The files of another home, as they are now; that one has nothing open.
  void take_copy(const StoreHome& other);

 private:
  Status powered() const;

  disk::RamDisk& disk_;
  Logger log_;
  RealDirectory real_;
};

}  // namespace queen::sim

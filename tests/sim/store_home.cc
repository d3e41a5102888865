#include "store_home.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/invariant.h"

namespace queen::sim {
namespace {

// A file system in memory: what LMDB syncs there costs nothing.
constexpr const char* kMemory = "/dev/shm";

std::filesystem::path place_of_directories() {
  return std::filesystem::is_directory(kMemory) ? std::filesystem::path(kMemory)
                                                : std::filesystem::temp_directory_path();
}

class PoweredFile final : public store::CheckpointFile {
 public:
  PoweredFile(disk::RamDisk& disk, std::string directory, std::unique_ptr<store::CheckpointFile> file)
      : disk_(disk), directory_(std::move(directory)), file_(std::move(file)) {}

  Status load(store::Store& store) override { return file_->load(store); }
  // Two changes of the disk around the commit: the power may go at either.
  Status write(const store::Cut& cut) override {
    if (auto on = disk_.make_dirs(directory_); !on) return on;
    if (auto done = file_->write(cut); !done) return done;
    return disk_.make_dirs(directory_);
  }
  Result<store::Verified> verify(const store::RowPlace& from, std::size_t rows_max) override {
    return file_->verify(from, rows_max);
  }
  bool fresh() const override { return file_->fresh(); }
  Usage usage() const override { return file_->usage(); }

 private:
  disk::RamDisk& disk_;
  const std::string directory_;
  std::unique_ptr<store::CheckpointFile> file_;
};

}  // namespace

RealDirectory::RealDirectory() {
  path_ = (place_of_directories() / fmt::format("queen-sim-{}-XXXXXX", getpid())).string();
  INVARIANT(mkdtemp(path_.data()) != nullptr, "no directory for the store");
}

RealDirectory::~RealDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Status StoreHome::powered() const {
  if (disk_.power_is_off()) return Error{Errc::unavailable, "the power is off"};
  return {};
}

Result<bool> StoreHome::exists(const std::string& directory) {
  if (auto on = powered(); !on) return on.error();
  return store::checkpoint_exists(real(directory));
}

Result<std::unique_ptr<store::CheckpointFile>> StoreHome::open(const std::string& directory) {
  if (auto on = powered(); !on) return on.error();
  std::filesystem::create_directories(std::filesystem::path(real(directory)).parent_path());
  auto file = store::open_lmdb_checkpoint(real(directory), 0, log_);
  if (!file) return std::move(file).error();
  return std::unique_ptr<store::CheckpointFile>(
      std::make_unique<PoweredFile>(disk_, directory, std::move(*file)));
}

void StoreHome::take_copy(const StoreHome& other) {
  std::filesystem::copy(other.real_.path(), real_.path(), std::filesystem::copy_options::recursive);
}

}  // namespace queen::sim

// A disk in memory for tests and simulation: it forgets what was not synced, fails on demand and fills up.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "base/ids.h"
#include "disk/disk.h"

namespace queen::disk {

// Calls that can be made to fail.
enum class RamOp : std::uint8_t {
  open,
  pread,
  pwrite,
  sync,
  size,
  truncate,
  list,
  make_dirs,
  rename,
  remove_file,
  remove_dir,
  sync_dir,
};

// Thread-safe. Starts with an empty root directory; `a/b` and `/a/b` are the same path.
class RamDisk final : public Disk {
 public:
  RamDisk();
  ~RamDisk() override;

  Result<std::unique_ptr<File>> open(const std::string& path, Open mode) override;
  Result<bool> exists(const std::string& path) override;
  Result<std::vector<DirEntry>> list(const std::string& directory) override;
  Status make_dirs(const std::string& directory) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove_file(const std::string& path) override;
  Status remove_dir(const std::string& directory) override;
  Status sync_dir(const std::string& directory) override;
  Result<VolumeUse> volume(const std::string& path) override;
  Result<std::unique_ptr<LockHeld>> lock(const std::string& path) override;

  // Power loss and return of power: file contents are those of each file's last sync(), directory entries
  // those of each directory's last sync_dir(). Open files and locks are dead from then on.
  void crash();
  // As crash(), but each 512-byte sector written since the last sync is kept or lost by the toss of a coin,
  // and so is the length of each file.
  void crash_torn(Random& random);
  // As a careless file system would: each change of names since the last sync_dir() of its directory is kept
  // or lost by the toss of a coin (a rename within a directory as one), and each file either loses sectors or
  // all that was written behind some byte.
  void crash_any(Random& random);

  // Another disk with the same contents, synced as far as this one, with nothing open and no failure asked
  // for.
  std::unique_ptr<RamDisk> copy() const;
  // Runs before each call that may change the disk or make it durable; may copy(). Set it before the disk is
  // used by several threads.
  void before_change(std::function<void()> look);

  // Runs at the start of each call that can be made to fail. Must not use the disk; set it as
  // before_change().
  void on_call(std::function<void(RamOp)> look);

  // Lets the `nth` call of `op` from now (1 = the next) fail, without effect, once.
  void fail(RamOp op, std::uint64_t nth, Errc code, int sys_errno = 0);
  // Lets the `nth` pwrite() from now fail, once, after it has written the first half of its bytes.
  void fail_half_written(std::uint64_t nth, Errc code, int sys_errno = 0);
  // How many of these are still to come.
  std::size_t failures_left() const;
  // After `count` more calls that change the disk (or make it durable) every call fails, until crash().
  void power_off_after(std::uint64_t count);
  bool power_is_off() const;
  // Calls until the power goes; nothing: it will not.
  std::optional<std::uint64_t> changes_left() const;
  // Takes back what fail() and fail_half_written() asked for and has not come.
  void forget_failures();
  // Calls that changed the disk or made it durable, since construction.
  std::uint64_t changes() const;
  // Growth of files by more than `bytes` from now on fails with `full`, after writing what fits; nullopt: no
  // limit.
  void set_free_bytes(std::optional<std::uint64_t> bytes);
  // Every file with its contents: to compare before and after.
  std::map<std::string, Bytes> files() const;

  struct Inode;
  struct Directory;
  struct State;
  struct Copy;

 private:
  std::shared_ptr<State> state_;  // shared with open files and locks, which may outlive the disk
};

}  // namespace queen::disk

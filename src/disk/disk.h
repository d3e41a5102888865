// The file system as the engine needs it; passed in, so that a simulated disk can lose, tear and refuse.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace queen::disk {

enum class Open : std::uint8_t {
  read,        // must exist
  read_write,  // must exist
  create,      // read-write, made (mode 0640) when absent
  create_new,  // read-write, must not exist
};

// An open file. All calls block. Positional calls are safe from several threads.
class File {
 public:
  virtual ~File() = default;
  // Reads up to `into.size()` bytes at `offset`; fewer only at the end of the file. Short reads of the system
  // are continued inside.
  virtual Result<std::size_t> pread(std::uint64_t offset, std::span<char> into) = 0;
  // Writes all of `bytes` at `offset`. Errors: full (ENOSPC, EDQUOT), unavailable (others); the range may
  // then hold anything.
  virtual Status pwrite(std::uint64_t offset, BytesView bytes) = 0;
  // fdatasync: data and the length survive power loss. A failure is final: never retry (DUR-10).
  virtual Status sync() = 0;
  virtual Result<std::uint64_t> size() = 0;
  virtual Status truncate(std::uint64_t size) = 0;
  // Makes the file `bytes` long with space of its own for all of them. Errors: full, unavailable.
  virtual Status allocate(std::uint64_t bytes);

  // Hints about the page cache; a disk that has none ignores them, and they never fail.
  // The range will be read soon: begin to fetch it, without waiting.
  virtual void read_ahead(std::uint64_t /*offset*/, std::uint64_t /*bytes*/) {}
  // Clean pages of the range are no longer worth keeping. Only bytes that were synced: others stay anyway.
  virtual void drop_cache(std::uint64_t /*offset*/, std::uint64_t /*bytes*/) {}
};

// Read-only bytes of a whole file as it was when it was mapped. Shared by any number of threads, each of
// which declares with ReadingMapped (mapped_reads.h) that it looks at them.
class Mapping {
 public:
  virtual ~Mapping() = default;
  virtual BytesView bytes() const = 0;
  // Zero-terminated, for the line that a bus error prints.
  virtual const char* path() const = 0;
  // Its pages no longer count as this process's memory; whoever looks at them again gets them from the page
  // cache, or from the file. Any thread, also while others read.
  virtual void let_go() const {}
};

struct DirEntry {
  std::string name;
  bool directory = false;
};

struct VolumeUse {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;  // available to this process
};

// Held until destroyed; two holders of one path cannot exist (flock).
class LockHeld {
 public:
  virtual ~LockHeld() = default;
};

// Paths are plain strings, absolute or relative to the process. Nothing here is durable until sync_dir() of
// the directory that changed.
class Disk {
 public:
  virtual ~Disk() = default;
  // Errors: not_found, conflict (create_new on an existing path), full, unavailable.
  virtual Result<std::unique_ptr<File>> open(const std::string& path, Open mode) = 0;
  virtual Result<bool> exists(const std::string& path) = 0;
  // Entries in name order, without `.` and `..`. Errors: not_found, unavailable.
  virtual Result<std::vector<DirEntry>> list(const std::string& directory) = 0;
  // Maps a file; a disk that cannot map gives a copy in memory. The file may be renamed over or removed while
  // it is mapped, and must not shrink. Errors: not_found; full (no more maps or memory); unavailable.
  virtual Result<std::unique_ptr<Mapping>> map(const std::string& path);
  // Makes the directory and its parents, mode 0750; an existing one is fine.
  virtual Status make_dirs(const std::string& directory) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove_file(const std::string& path) = 0;
  virtual Status remove_dir(const std::string& directory) = 0;  // must be empty
  virtual Status sync_dir(const std::string& directory) = 0;
  virtual Result<VolumeUse> volume(const std::string& path) = 0;
  // What `path` lies on when that is known to keep promises badly: `nfs`, `smb`, `fuse`, `overlay`. Empty:
  // nothing that is known of.
  virtual std::string doubtful_file_system(const std::string& /*path*/) { return {}; }
  // Makes `path` when absent and locks it without waiting. Errors: busy (another process holds it).
  virtual Result<std::unique_ptr<LockHeld>> lock(const std::string& path) = 0;
};

// Whole file in one string. Errors: not_found; invalid above `bytes_max`.
Result<Bytes> read_file(Disk& disk, const std::string& path, std::uint64_t bytes_max);
// Temporary in the same directory, sync, rename over, sync of the directory (DIR-1). Durable on return.
Status replace_file(Disk& disk, const std::string& path, BytesView bytes);

// The real one. Thread-safe. Each File::sync() takes `sync_delay_us` longer: a slow disk, for tests.
std::unique_ptr<Disk> make_posix_disk(std::int64_t sync_delay_us = 0);

}  // namespace queen::disk

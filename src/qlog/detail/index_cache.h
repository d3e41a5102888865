// The indexes of sealed files that are loaded: at most so many maps, and so many bytes in memory (QL-22).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/log.h"
#include "disk/disk.h"
#include "qlog/detail/lru.h"
#include "qlog/detail/sealed_index.h"

namespace queen::qlog::detail {

struct IndexMaps {
  std::uint64_t mapped = 0;  // index and directory files mapped now
  std::uint64_t limit = 0;   // of the process: vm.max_map_count
};

// Thread-safe. rebuild_mutex_ is held across I/O, and only by a caller that found an index unusable.
class IndexCache {
 public:
  using OpenRecords = std::function<Result<std::shared_ptr<disk::File>>()>;

  // `maps_limit`: vm.max_map_count of the process. `disk` and `log` outlive the cache.
  IndexCache(disk::Disk& disk, Logger& log, std::uint64_t maps_limit);

  // The index of a sealed file of `file_bytes` at `path`; one that is missing or does not fit is made from
  // the records and written again (QL-21). Errors: corrupt (the records themselves are damaged), unavailable.
  Result<std::shared_ptr<const SealedIndex>> get(const FileKey& key, const std::string& path,
                                                 std::uint64_t file_bytes, const OpenRecords& records);
  // For an index that was just made: written to `path` as far as that succeeds, kept when it could not be.
  void put(const FileKey& key, const std::string& path, std::uint64_t file_bytes, Bytes bytes);
  // Keeps an index in memory that stands under no name yet.
  void hold(const FileKey& key, std::uint64_t file_bytes, Bytes bytes);
  void erase(const FileKey& key);

  // Gives back the pages of indexes that nobody searched since the call before.
  void let_go_of_idle() const;

  // Maps of others that count: directory files.
  void count_maps(std::int64_t more);
  IndexMaps maps() const;
  // Indexes made again since the start.
  std::uint64_t rebuilt() const { return rebuilt_.load(); }

 private:
  using Loaded = Result<std::shared_ptr<const SealedIndex>>;

  std::shared_ptr<const SealedIndex> find(const FileKey& key);
  Loaded load(const FileKey& key, const std::string& path, std::uint64_t file_bytes);
  Loaded map(const FileKey& key, const std::string& path, std::uint64_t file_bytes);
  Loaded rebuild(const FileKey& key, const std::string& path, std::uint64_t file_bytes,
                 const OpenRecords& records);
  std::shared_ptr<const SealedIndex> keep(const FileKey& key, std::shared_ptr<const SealedIndex> index,
                                          std::uint64_t bytes);
  Status write(const std::string& path, BytesView bytes);
  void warn_when_many();

  disk::Disk& disk_;
  Logger& log_;
  const std::uint64_t maps_limit_;
  LruCache<const SealedIndex> mapped_;  // cost: 1 each
  LruCache<const SealedIndex> held_;    // cost: bytes
  std::atomic<std::int64_t> other_maps_{0};
  std::atomic<bool> warned_{false};
  std::atomic<std::uint64_t> rebuilt_{0};
  std::mutex rebuild_mutex_;  // one rebuild at a time: they share the name of the temporary file
};

}  // namespace queen::qlog::detail

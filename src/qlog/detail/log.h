// One queue's log: its files, the index of the file being written, and the three sides that use them (writer,
// syncer, readers).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "qlog/detail/active_index.h"
#include "qlog/detail/index_cache.h"
#include "qlog/detail/lru.h"
#include "qlog/queue_logs.h"

namespace queen::qlog::detail {

// What all logs of a node share. Outlives them.
struct Shared {
  Shared(disk::Disk& disk_in, Options options_in, Logger log_in);

  disk::Disk& disk;
  const Options options;
  LruCache<disk::File> files;
  Logger log;
  IndexCache indexes;

  // The file from the cache, opened when it is not there. Errors: unavailable.
  Result<std::shared_ptr<disk::File>> open_file(const FileKey& key);
};

struct SealedFile {
  std::uint32_t id = 0;
  std::uint64_t bytes = 0;
  std::uint32_t generation = 0;  // of its bytes: one more with every rewrite
};

// What recovery found, ready to go on with.
struct LogState {
  std::vector<SealedFile> sealed;  // ascending
  std::uint32_t active_id = 0;     // 0: no file yet
  std::uint64_t active_bytes = 0;  // logical length, header included
  ActiveIndex active_index;
};

// Records of one partition that stand in one file, in offset order.
struct RecordRun {
  FileKey file;
  std::vector<IndexRecord> records;  // empty: nothing at or above the offset
};

// Locks: mutex_ is innermost and never held across I/O. Writer calls come from one thread, syncer calls from
// one thread, reader calls from any.
class Log {
 public:
  Log(Shared& shared, LogId id, LogState state);

  LogId id() const { return id_; }

  // --- Writer ---
  // Directory and first file, named and durable. Errors: full (nothing is left behind), unavailable.
  Status create(std::uint64_t first_seq);
  bool must_roll() const;
  // Seals the active file and goes on in the next. All earlier groups are synced, in every log. Errors: full
  // (the active file goes on), unavailable.
  Status roll(std::uint64_t first_seq);
  // Makes the next file ahead of need when the active one is half full. Failure only means doing it at the
  // roll.
  void precreate();
  // Takes hold of the file to write to. Errors: unavailable; nothing was written.
  Status open_to_write();
  // One contiguous write behind the end, then zeros ahead when due. Not visible before publish().
  Status write(BytesView bytes);
  // Makes the last write visible: `index` are its message records, positions counted from the start of the
  // write.
  void publish(std::span<const IndexRecord> index);
  // Undoes a write that was not published, durably.
  Status cut_back();
  // Cuts the zeros ahead. Only when nothing is unsynced.
  Status trim();

  // --- Syncer ---
  bool has_unsynced() const { return unsynced_.load(std::memory_order_acquire); }
  Status sync();

  // --- Readers ---
  // The first records that satisfy `query`, at most `records_max`, from one file. Errors: corrupt,
  // unavailable (an index that had to be made again).
  Result<RecordRun> find(const IndexQuery& query, std::size_t records_max);
  std::vector<std::uint32_t> file_ids() const;
  std::uint64_t bytes_on_disk() const;

 private:
  using SealedFiles = std::vector<SealedFile>;

  Result<std::shared_ptr<disk::File>> make_file(std::uint32_t file_id, std::uint64_t first_seq);
  Status take_next_file(std::uint64_t first_seq);
  void preallocate();
  std::uint64_t zeros_due() const;
  Result<std::shared_ptr<const SealedIndex>> load_index(const SealedFile& file);
  FileKey key_of(const SealedFile& file) const { return {id_, file.id, file.generation}; }

  Shared& shared_;
  const LogId id_;

  // Of the writer alone.
  std::shared_ptr<disk::File> writing_;
  std::uint64_t written_bytes_ = 0;       // of the write that waits for publish()
  std::optional<std::uint32_t> next_id_;  // made ahead, not in use

  std::atomic<bool> unsynced_{false};
  std::atomic<std::uint64_t> disk_bytes_{0};  // of the active file, zeros ahead included

  mutable std::mutex mutex_;  // guards everything below
  std::shared_ptr<const SealedFiles> sealed_;
  struct Active {
    std::uint32_t id = 0;      // 0: no file yet
    std::uint64_t length = 0;  // logical, header included
    ActiveIndex index;
  } active_;
  struct Sync {
    std::shared_ptr<disk::File> file;  // to be synced; none when nothing is
    std::uint64_t bytes = 0;           // written since the last one
    std::uint64_t average_bytes = 0;   // of a sync, moving
    std::uint64_t count = 0;
  } sync_;
};

}  // namespace queen::qlog::detail

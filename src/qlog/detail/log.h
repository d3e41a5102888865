// One queue's log: its files, the index of the file being written, and the three sides that use them (writer,
// syncer, readers).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "qlog/detail/active_index.h"
#include "qlog/detail/damage.h"
#include "qlog/detail/drop_behind.h"
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
  DamageReports damage;

  // The file from the cache, opened when it is not there. Errors: busy as open(); unavailable.
  Result<std::shared_ptr<disk::File>> open_file(const FileKey& key);
  // Opens; waits while the process or the system is out of descriptors (HD-28), after those kept open for
  // speed were given back. Errors: busy (still none after ten seconds); the disk's.
  Result<std::unique_ptr<disk::File>> open(const std::string& path, disk::Open mode);
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
  // Where a walk goes on without another search, when the file is sealed (storage.md 20.1 step 3). Shared: a
  // cache may let go of it meanwhile.
  std::shared_ptr<const SealedIndex> index;
  std::size_t next = 0;
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
  // Makes the last write durable before it is visible, and lets go of the file.
  Status sync_written();
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
  // What follows `last`, an answer of find() to a query for the same partition with a lower offset.
  Result<RecordRun> find_next(const RecordRun& last, const IndexQuery& query, std::size_t records_max);
  std::vector<std::uint32_t> file_ids() const;
  std::uint64_t bytes_on_disk() const;

 private:
  using SealedFiles = std::vector<SealedFile>;

  Result<std::shared_ptr<disk::File>> make_file(std::uint32_t file_id, std::uint64_t first_seq);
  Status take_next_file(std::uint64_t first_seq);
  void drop_behind();
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

  // Of the syncer alone.
  DropBehind drop_behind_;

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
    std::uint32_t file_id = 0;  // of `file`
    std::uint64_t end = 0;      // logical length that it makes durable
  } sync_;
};

}  // namespace queen::qlog::detail

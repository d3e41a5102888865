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
#include "qlog/detail/directory_file.h"
#include "qlog/detail/drop_behind.h"
#include "qlog/detail/index_cache.h"
#include "qlog/detail/lru.h"
#include "qlog/detail/turn.h"
#include "qlog/queue_logs.h"

namespace queen::qlog::detail {

// An error of the process or the system: it may be gone in a moment.
bool out_of_descriptors(const Error& error);

// What all logs of a node share. Outlives them.
struct Shared {
  Shared(disk::Disk& disk_in, Options options_in, Logger log_in,
         disk::Open opens_in = disk::Open::read_write);

  disk::Disk& disk;
  const Options options;
  const disk::Open opens;  // how record files that are there are opened
  LruCache<disk::File> files;
  Logger log;
  IndexCache indexes;
  DamageReports damage;
  std::atomic<std::uint64_t> scrubbed_bytes{0}, scrub_rounds{0};

  // The file from the cache, opened when it is not there. Errors: busy as open(); unavailable.
  Result<std::shared_ptr<disk::File>> open_file(const FileKey& key);
  // Opens; waits while the process or the system is out of descriptors (HD-28), after those kept open for
  // speed were given back. Errors: busy (still none after ten seconds, or after stop_waiting()); the disk's.
  Result<std::unique_ptr<disk::File>> open(const std::string& path, disk::Open mode);
  // Syncing a directory takes a descriptor too. Errors as open(), and whatever the sync says.
  Status sync_dir(const std::string& directory);
  void stop_waiting() { waits_.store(false, std::memory_order_relaxed); }

  // While a rewritten file takes the place of the old one, its name leads to either: whoever means the new
  // bytes gets `file`. One at a time; nullptr ends it.
  void pin(const FileKey& key, std::shared_ptr<disk::File> file);
  // Nobody looks for these bytes any more; whoever holds them open keeps them.
  void drop(const FileKey& key);
  // For the next rewritten file, and for a log that is made: file 1 of one that was removed and made again is
  // another file. Never the same twice; those that recovery found have 0.
  std::uint32_t next_generation() { return generations_.fetch_add(1, std::memory_order_relaxed) + 1; }

 private:
  template <class Call>
  auto without_descriptors_waits(const std::string& path, const Call& call) -> decltype(call());
  std::shared_ptr<disk::File> pinned(const FileKey& key);

  std::atomic<std::uint32_t> generations_{0};
  std::atomic<bool> waits_{true};  // for descriptors
  std::mutex pin_mutex_;           // guards the two below
  FileKey pin_key_;
  std::shared_ptr<disk::File> pin_;
};

struct SealedFile {
  std::uint32_t id = 0;
  std::uint64_t bytes = 0;
  std::uint64_t first_seq = 0;
  std::uint64_t highest_seq = 0;  // no record is above it
  std::uint32_t generation = 0;   // of its bytes: another with every rewrite
};
using SealedFiles = std::vector<SealedFile>;  // ascending ids

// What recovery found, ready to go on with.
struct LogState {
  SealedFiles sealed;
  SealedDirectories directories;
  std::vector<std::uint32_t> unlisted;  // sealed files that the last checkpoint does not list (RE-9)
  struct Active {
    std::uint32_t id = 0;           // 0: no file yet
    std::uint64_t length = 0;       // logical, header included
    std::uint64_t first_seq = 0;    // that it was opened for
    std::uint64_t highest_seq = 0;  // no record of the log is above it
    std::int64_t opened_us = 0;     // clock of the entry it was opened for; 0 = not known, nothing is in it
    std::int64_t oldest_us = 0;     // stamp of its oldest message; 0 = none
    ActiveIndex index;

    bool empty() const { return length <= kFileHeaderBytes; }
  } active;
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

// What one write brings to the log, for publish().
struct Written {
  std::span<const IndexRecord> index;  // its message records, positions counted from the start of the write
  std::uint64_t last_seq = 0;
  std::int64_t now_us = 0;  // clock of its first entry
};

// The file being written, as upkeep judges it.
struct ActiveFile {
  bool empty = true;
  std::uint64_t first_seq = 0, highest_seq = 0;
  std::int64_t since_us = 0;  // what its age counts from (ID-2)
  bool unsynced = false;
};

// Locks: mutex_ is innermost and never held across I/O. Who changes what files there are holds turn(): the
// writer for a group, upkeep for one log at a time and only by a try, so that no append waits for a copy.
// Writer calls and upkeep calls need the turn; syncer calls come from one thread, reader calls from any.
class Log {
 public:
  Log(Shared& shared, LogId id, LogState state);
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  ~Log();

  LogId id() const { return id_; }
  Turn& turn() { return turn_; }

  // --- Writer ---
  // Directory and first file, named and durable. Errors: full (nothing is left behind), unavailable.
  Status create(std::uint64_t first_seq, std::int64_t now_us);
  bool must_roll() const;
  // Seals the active file and goes on in the next. All earlier groups are synced, in every log. Errors: full
  // (the active file goes on), unavailable.
  Status roll(std::uint64_t first_seq, std::int64_t now_us);
  // Makes the next file ahead of need when the active one is half full. Failure only means doing it at the
  // roll.
  void precreate();
  // Takes hold of the file to write to. Errors: unavailable; nothing was written.
  Status open_to_write();
  // One contiguous write behind the end, then zeros ahead when due. Not visible before publish().
  Status write(BytesView bytes);
  // Makes the last write durable before it is visible, and lets go of the file.
  Status sync_written();
  // Makes the last write visible.
  void publish(const Written& written);
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
  std::uint64_t bytes_on_disk() const;
  // Whether these bytes are still the log's: not removed, not replaced.
  bool has(const FileKey& file) const;
  // Grows whenever bytes that a reader may have been on its way to were replaced or went: what failed since
  // is asked again, and is damage only when this stayed the same.
  std::uint64_t swaps() const { return swaps_.load(std::memory_order_acquire); }

  // --- Checkpoints ---
  // What a checkpoint lists: file ids without those chosen for removal, ascending.
  std::vector<std::uint32_t> listed_files() const;

  // --- Upkeep ---
  ActiveFile active_file() const;
  std::shared_ptr<const SealedFiles> sealed_files() const;
  FileKey key_of(const SealedFile& file) const { return {id_, file.id, file.generation}; }
  FileKey active_key() const { return first_key(active_.id); }  // with the turn
  Result<std::shared_ptr<const SealedIndex>> load_index(const SealedFile& file);
  std::shared_ptr<const SealedDirectories> directories() const;
  // Readers use `built` (none when null) in place of `old`.
  void replace_directories(const SealedDirectories& old, std::shared_ptr<const SealedDirectory> built);
  // Files chosen for removal: no checkpoint lists them any more, readers still find them.
  std::vector<std::uint32_t> doomed() const;
  void doom(std::uint32_t file_id);
  void spare(std::uint32_t file_id);
  // Readers find these files no more. With the turn.
  void forget(const std::vector<std::uint32_t>& file_ids);
  // Readers find `file` where the one of its id was; `index` is its index file, not yet under its name. With
  // the turn.
  void replace(const SealedFile& file, Bytes index);
  // Whether the log may be removed once a checkpoint that does not list it is durable (ID-3). The next write
  // takes it back. With the turn.
  void plan_removal() { removal_planned_ = true; }
  bool removal_planned() const { return removal_planned_.load(std::memory_order_acquire); }
  // False when no removal was planned. With the turn.
  bool keep() { return removal_planned_.exchange(false); }
  // Its directory has another name: who waited for the turn makes the log again. With the turn.
  void set_gone() { gone_ = true; }
  bool gone() const { return gone_; }

 private:
  Result<std::shared_ptr<disk::File>> make_file(std::uint32_t file_id, std::uint64_t first_seq);
  Status take_next_file(std::uint64_t first_seq);
  void drop_behind();
  void preallocate();
  std::uint64_t zeros_due() const;

  // Of the file as it was written, before any rewrite.
  FileKey first_key(std::uint32_t file_id) const { return {id_, file_id, first_generation_}; }

  class Search;

  Shared& shared_;
  const LogId id_;
  const std::uint32_t first_generation_;

  Turn turn_;  // guards what follows, down to gone_

  std::shared_ptr<disk::File> writing_;
  std::uint64_t written_bytes_ = 0;       // of the write that waits for publish()
  std::optional<std::uint32_t> next_id_;  // made ahead, not in use
  bool gone_ = false;

  // Of the syncer alone.
  DropBehind drop_behind_;

  std::atomic<bool> removal_planned_{false};
  std::atomic<bool> unsynced_{false};
  std::atomic<std::uint64_t> disk_bytes_{0};  // of the active file, zeros ahead included
  std::atomic<std::uint64_t> swaps_{0};

  mutable std::mutex mutex_;  // guards everything below; the active file changes with the turn only
  std::shared_ptr<const SealedFiles> sealed_;
  std::shared_ptr<const SealedDirectories> directories_;
  std::vector<std::uint32_t> doomed_;  // ascending
  LogState::Active active_;
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

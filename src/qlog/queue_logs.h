// All queue logs of a node: where messages and entries are written once, made durable, and read back.
// storage.md 3-5, 13, 20; bytes: docs/formats/qlog.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crash_points.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "disk/disk.h"
#include "qlog/record.h"
#include "qlog/scrub.h"

namespace queen::qlog {

// Runs pieces of blocking work in parallel and waits for all. Passed in: threads in a node, inline in tests.
using queen::InlineRunner;
using queen::ParallelRunner;

// How logs are laid out; fixed when the directory is made (storage.md 3.1).
struct Layout {
  std::uint32_t shards = 0;  // 0 = one log per queue; 1..4096
  std::uint32_t lanes = 1;   // 1..64; ignored when shards > 0

  // Log of a queue as a whole: its lane 0, or its shared log.
  LogId of_queue(std::string_view tenant, std::string_view queue) const;
  LogId of_partition(LogId queue_id, Pid pid) const;  // `queue_id` from queue_id() below
  // xxh3_64(tenant 0x1F queue), 0 becomes 1: the same under every layout.
  static LogId queue_id(std::string_view tenant, std::string_view queue);
};

struct Options {
  std::string directory;                      // .../qlog
  std::uint64_t segment_bytes = 64ULL << 20;  // roll a file at this size; at least 33
  Layout layout_if_new;                       // an existing directory's own layout wins
  bool entry_copies = false;                  // whole entry record in every touched log instead of stubs
  bool precreate = true;
  std::uint64_t prealloc_bytes = 1ULL << 20;  // 0 = off
  std::uint32_t prealloc_min_syncs = 64;      // 0 = no gate
  std::uint32_t fd_cache = 256;               // files kept open; 0 = open per use
  bool directories = true;                    // over sealed files (storage.md RD-9)
  std::uint64_t drop_behind_bytes =
      0;  // synced bytes this far behind a log's tail leave the page cache; 0 = never
  // Waits, for descriptors that others hold: called with µs. Without it their lack is an error at once.
  std::function<void(std::int64_t)> pause;
  std::uint64_t maps_limit = 65530;     // vm.max_map_count of this machine
  Clock* clock = nullptr;               // for a progress line every 5 s of recovery; none without one
  CrashPoints* crash_points = nullptr;  // outlives the logs; null = none
};

// What the last store checkpoint says about the logs.
struct DurableState {
  std::uint64_t durable_index = 0;  // 0 = no checkpoint yet
  std::uint64_t qlog_durable_index = 0;
  std::map<LogId, std::uint64_t> tails;  // qlog_tail rows
  bool store_missing = false;  // there was no checkpoint file: the logs must be complete from entry 1
  std::map<LogId, std::vector<std::uint32_t>> files;  // qlog_files rows, ascending
  // The qlog_layout row: what the files LANES and SHARDS must say. None from older builds.
  std::optional<Layout> layout = std::nullopt;
};

// The message records an entry must have: what recovery looks for. Given by the room that knows entries.
struct AppendKey {
  Pid pid;
  std::uint64_t base_offset = 0;
};
using AppendsOf = std::function<Result<std::vector<AppendKey>>(BytesView entry)>;

struct RecoveredEntry {
  EntryIndex index;
  std::uint64_t term = 0;
  std::int64_t now_us = 0;
  Bytes entry;  // payload-free bytes
};

struct RecoveryReport {
  std::uint64_t last_index = 0;  // highest index kept; the next entry takes last_index + 1
  std::uint64_t entries_to_replay = 0;
  std::uint64_t entries_cut = 0;
  std::uint64_t logs = 0, files = 0, bytes_scanned = 0;
  // Logs in which entries to replay have a part, each with the last such index: their tails once replayed.
  std::map<LogId, std::uint64_t> replayed_tails;
};

// One message record of an entry being written. Views stay valid until write_group() returns.
struct MessageToWrite {
  LogId log;
  Pid pid;
  std::uint64_t base_offset = 0;
  std::uint32_t count = 0;
  std::int64_t created_at = 0;
  BytesView hashes;   // 16 x count
  BytesView payload;  // frames, or their zstd form
  bool compressed = false;
};

struct EntryToWrite {
  EntryIndex index;
  std::uint64_t term = 0;
  std::int64_t now_us = 0;
  BytesView entry;                       // payload-free bytes
  std::vector<MessageToWrite> messages;  // in effect order
  std::vector<LogId> touched;            // ascending, distinct, not empty; holds every messages[].log
};

// What a written group still needs before it is durable; give it to sync().
struct WrittenGroup {
  std::vector<LogId> logs;
  std::uint64_t last_index = 0;
  std::uint64_t bytes = 0;
};

struct ReadMessage {
  std::uint64_t offset = 0;
  std::int64_t created_at = 0;
  MessageFrame frame;  // borrows from ReadBatch::buffers
};
struct ReadBatch {
  std::vector<ReadMessage> messages;  // ascending offsets; may jump where records are gone
  std::vector<std::shared_ptr<const Bytes>> buffers;
};
struct ReadLimits {
  std::uint64_t end_offset = 0;  // exclusive: nothing at or above is returned
  std::uint32_t messages_max = 0;
  std::uint64_t payload_bytes_max =
      0;  // an empty payload counts 1; a message that would cross is left out, unless first
};

// Where an append of a partition stands, as its index record says.
struct AppendPlace {
  std::uint64_t base_offset = 0;
  std::uint64_t end = 0;  // exclusive
  std::int64_t created_at = 0;
  std::uint32_t count = 0;
  std::uint32_t stored_bytes = 0;  // payload section as stored, compressed or not
};
// The transaction id hashes of an append, read from its record.
struct AppendHashes {
  std::uint64_t base_offset = 0;
  std::int64_t created_at = 0;
  Bytes hashes;                 // 16 x count
  std::uint32_t raw_bytes = 0;  // of the frames before compression
};

// What the logs count, for metrics and warnings.
struct LogStats {
  std::uint64_t maps = 0, maps_limit = 0;  // mapped index and directory files; of vm.max_map_count
  std::uint64_t directories = 0, files_without_directory = 0;  // dirx files; sealed files in none
  std::uint64_t indexes_rebuilt = 0;
  std::uint64_t damaged_reads = 0;  // reads that met a damaged record (CR-5)
  std::uint64_t gaps = 0;           // offsets no file had, skipped by a read (RD-6)
  std::uint64_t scrubbed_bytes = 0, scrub_rounds = 0;
  std::uint64_t files = 0, bytes = 0;  // record files, and what they take on disk
};

// A log whose list of files is not as the checkpoint has it.
struct LogFiles {
  LogId log;
  // Ascending, without those chosen for removal; nothing: no row may speak of the log any more.
  std::optional<std::vector<std::uint32_t>> ids;
};

class LogUpkeep;
class UpkeepHost;
struct UpkeepSettings;

// Threads: write_group and sync from one writer (sync may run on another thread, in order, while the next
// group is written); read and locate from any thread at any time; upkeep on one thread of its own.
class QueueLogs {
 public:
  virtual ~QueueLogs() = default;

  // Recovery, storage.md 4.7 and 13 steps 4-10: opens every log, refuses on damage (Error corrupt whose text
  // is the refusal, changing nothing but leftovers), merges entry parts, cuts what is incomplete. Makes the
  // directory and its LANES and SHARDS files when absent. Logs progress every 5 s on `log`.
  static Result<std::unique_ptr<QueueLogs>> open(disk::Disk& disk, ParallelRunner& runner, Options options,
                                                 const DurableState& durable, const AppendsOf& appends_of,
                                                 Logger log);

  virtual const RecoveryReport& recovery() const = 0;
  // Gives the entries above the durable index, in index order, each once. Stops at the first error of
  // `apply`.
  virtual Status replay(const std::function<Status(const RecoveredEntry&)>& apply) = 0;

  virtual const Layout& layout() const = 0;

  // Writes one group, in order, one contiguous write per touched log; message records precede their entry's
  // part. Readable on return (up to the committed end that readers pass), durable: no, see sync(). Rolls full
  // files first, which waits for earlier groups' syncs. Errors: full (ENOSPC; the group was cut back and
  // nothing changed), busy (no descriptors, after a wait; nothing changed), unavailable (the logs must not be
  // written again: the node stops).
  virtual Result<WrittenGroup> write_group(std::span<const EntryToWrite> group) = 0;

  // One fdatasync per touched log, in parallel. Durable on return. An error is final (DUR-10).
  virtual Status sync(const WrittenGroup& group) = 0;

  // Messages of `pid` from `from_offset`: index search, one pread per append run, checksum on every read.
  // Empty when nothing is found below the limits. Errors: corrupt (the record at `from_offset` is damaged;
  // damage met later ends the batch before it), unavailable.
  virtual Result<ReadBatch> read(LogId log, Pid pid, std::uint64_t from_offset, const ReadLimits& limits) = 0;

  // Appends of `pid` whose end is above `from_offset`, ascending, at most `appends_max`. Index only, no
  // payload is read; not bound to what is applied. Errors: corrupt, unavailable (an index that had to be made
  // again).
  virtual Result<std::vector<AppendPlace>> locate(LogId log, Pid pid, std::uint64_t from_offset,
                                                  std::size_t appends_max) = 0;
  // First offset of `pid` in [from_offset, end_offset) whose stamp is at or after `since_us`, `end_offset`
  // when there is none. Index only: within a partition stamps never decrease (storage.md 20.1). Errors as
  // locate.
  virtual Result<std::uint64_t> first_stamped_at_or_after(LogId log, Pid pid, std::uint64_t from_offset,
                                                          std::uint64_t end_offset,
                                                          std::int64_t since_us) = 0;
  // Hashes of the append that holds `offset`, from a record that was verified whole (RD-5); nothing when no
  // file has it. Errors: corrupt (the record is damaged), unavailable.
  virtual Result<std::optional<AppendHashes>> hashes_at(LogId log, Pid pid, std::uint64_t offset) = 0;

  // File ids of every log, ascending, without those chosen for removal.
  virtual std::map<LogId, std::vector<std::uint32_t>> files() const = 0;
  // Whether the log is there: one that was removed is made again by the next write to it.
  virtual bool exists(LogId log) const = 0;

  // The checkpoint's qlog_files rows: what changed since the last call, for the cut that is being taken. Any
  // thread.
  virtual std::vector<LogFiles> take_changed_files() = 0;
  virtual bool files_changed() const = 0;
  // Sealing by age, removal of empty logs, reclaim (qlog/upkeep.h). `host` outlives it, and it is gone before
  // these logs are.
  virtual std::unique_ptr<LogUpkeep> make_upkeep(UpkeepHost& host, UpkeepSettings settings) = 0;

  // Re-reads sealed files (CR-6). Gone before these logs are.
  virtual std::unique_ptr<LogScrub> make_scrub() = 0;
  // Files in which a read or the scrub met damage and that are still there.
  virtual std::vector<DamagedFile> damaged_files() const = 0;

  virtual std::uint64_t bytes_on_disk() const = 0;
  virtual LogStats stats() const = 0;

  // The node is about to stop: from now on nothing waits for descriptors that others hold. Any thread.
  virtual void stop_waiting() = 0;
  // Cuts preallocated zeros; no write may follow.
  virtual Status close() = 0;
};

}  // namespace queen::qlog

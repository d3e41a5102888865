// The engine's face: submit a command, read by offset, list what changed, wait for messages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/crash_points.h"
#include "base/executor.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "broker/meter.h"
#include "disk/disk.h"
#include "machine/commands.h"
#include "qlog/queue_logs.h"
#include "qlog/upkeep.h"
#include "replica/replicator.h"

namespace queen::store {
class CheckpointHome;
}

namespace queen::auth {
class PayloadCipher;
}

namespace queen::broker {

class Groups;
class Resources;
class DeadLetters;
class Traces;
class StateReads;

// A call that did not run: an engine code of api-messaging.md 1.4 and a sentence.
struct Refusal {
  std::string code;  // retry, timeout, storage_full, overloaded, internal, bad_request, name_too_long …
  std::string error;
};
template <class T>
using Answer = tl::expected<T, Refusal>;

// One message as readers get it; views borrow from the answer's buffers.
struct Message {
  std::uint64_t offset = 0;
  std::int64_t ts_us = 0;
  Uuid id;
  std::string_view transaction_id;
  std::optional<Uuid> trace_id;
  std::optional<std::string_view> producer_sub;
  bool null_payload = false;
  bool encrypted = false;    // stored encrypted and not decrypted here
  std::string_view payload;  // JSON text as the producer wrote it; the envelope while `encrypted`
  bool sealed = false;       // stored encrypted, whether or not it was decrypted here (EN-11)
};
struct Messages {
  std::vector<Message> messages;
  std::vector<std::shared_ptr<const Bytes>> buffers;
};

struct PopPart {
  machine::PopClaim claim;
  Messages messages;
};
struct PopAnswer {
  std::vector<PopPart> parts;
  bool conflation = false, conflation_conflict = false;
  std::uint32_t batch = 0, partitions_max = 0;
};

struct PushItemAnswer {
  enum class Status : std::uint8_t { queued, duplicate, error };
  Status status = Status::queued;
  std::optional<Uuid>
      message_id;  // duplicates: the original's, nothing when its frame is gone; else as sent with the item
  std::uint64_t offset = 0;
};
struct PushAnswer {
  std::vector<std::vector<PushItemAnswer>> batches;  // aligned with the command's batches and items
};

struct FetchEntry {
  std::string queue, partition;
  std::uint64_t offset = 0;
  std::uint64_t bytes_max = 1ULL << 20;  // 1..8 MiB
};
struct FetchEntryAnswer {
  std::string error;  // "", UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE
  Messages messages;
  std::uint64_t high_watermark = 0, log_start = 0;
};

struct OffsetEntry {
  std::string queue, partition;
  std::int64_t since_us = 0;
};
struct OffsetEntryAnswer {
  std::string error;  // "", UNKNOWN_TOPIC_OR_PARTITION
  // The first message stamped at or after since_us and its stamp; nothing when none is so late (O-6).
  std::optional<std::uint64_t> offset;
  std::int64_t ts_us = 0;
  std::uint64_t high_watermark = 0, log_start = 0;
};

struct ChangedEntry {
  std::string queue;
  std::optional<std::int64_t> since_us;
  std::string after;  // opaque cursor, empty = from the start
  std::uint32_t limit = 1000;
};
struct ChangedPartition {
  std::string name;
  Uuid id;
  std::int64_t last_offset = -1;
  std::uint64_t log_start = 0;
  std::int64_t last_write_at = 0;
};
struct ChangedEntryAnswer {
  std::string error;  // "", UNKNOWN_TOPIC_OR_PARTITION, BAD_CURSOR
  std::vector<ChangedPartition> partitions;
  std::optional<std::string> next;
};
struct ChangedAnswer {
  std::int64_t safe_time_us = 0;
  std::vector<ChangedEntryAnswer> entries;
};

struct QueueSummary {
  std::string name;
  store::QueueRow row;
  std::uint64_t partitions = 0, segments = 0;
  std::int64_t total = 0, pending = 0, processing = 0, completed = 0, dead_letter = 0, retained_bytes = 0;
};
enum class QueueDetail : std::uint8_t {
  names,    // nothing but the names and rows
  lanes,    // and the number of partitions
  figures,  // and every figure of the queues
  counts,   // and of the key/value store and the timers
};
struct QueuesAnswer {
  std::vector<QueueSummary> queues;               // newest first
  std::uint64_t kv_rows = 0, kv_bytes = 0;        // of keys and values
  std::uint64_t timer_rows = 0, timer_bytes = 0;  // of pending ones: of keys and what is stored under them
};

// Of a group's cursors, on one queue or on all of the tenant's.
struct GroupDeletion {
  std::string group;
  std::optional<std::string> queue;
  bool keep_registration = false;
};
struct GroupDeleted {
  std::uint64_t cursors = 0;
  std::vector<std::string> queues;  // where the group had a cursor or a registration
};

// Version of the data that a node of this build writes, its effect catalogue; a newer one it refuses (BR-7).
inline constexpr std::uint64_t kClusterVersion = machine::kKindsVersion;

// The scrub of the store (CR-3).
struct ScrubFigures {
  std::uint64_t passes = 0;          // full ones since the start
  std::uint64_t rows = 0;            // verified by the pass that runs
  std::int64_t last_pass_at_us = 0;  // wall clock at its end, 0 = none yet
  std::int64_t last_pass_took_us = 0;
};

// Messages of a queue that their retention would have removed, were it not for the hold of a sink (HD-18).
// About: a message counts as its partition's messages do on average.
struct RetentionHold {
  std::string tenant, queue, sink;
  std::uint64_t bytes = 0;
};

struct Health {
  bool ready = false;
  replica::Role role = replica::Role::leader;
  std::uint64_t term = 0, applied = 0, commit = 0;
  std::uint64_t cold_claims = 0;  // claims that began with a message whose append row had left RAM (CE-8)
  ScrubFigures store_scrub;
  std::uint64_t retention_rounds = 0;  // that began with nothing left to do of the round before
  std::string stopped_cause;           // not empty once the node takes no more writes
  std::vector<std::pair<std::string, std::string>> warnings;  // (code, text)
  std::int64_t clock_lead_us = 0;                             // of log time over the wall clock
  // Leases of a group that ran out since the start (HD-38).
  struct ExpiredLeases {
    std::string tenant, queue, group;
    std::uint64_t count = 0;
  };
  std::vector<ExpiredLeases> expired_leases;
  std::vector<RetentionHold> retention_holds;  // as of the last round of retention
  // SP-2. `error_class`: `deterministic` (every node would fail alike) or `node`.
  struct ApplyFailure {
    std::uint64_t index = 0, term = 0;
    std::string digest, error_class, error;
  };
  std::optional<ApplyFailure> apply_failure;
  std::vector<qlog::DamagedFile> damaged;  // log files with records that do not verify
};

struct RetentionSettings {
  std::int64_t interval_us = 5'000'000;                 // from the start of a round to the next
  std::int64_t partitions_per_s = 50'000;               // looked at; at least 1
  std::size_t batch_appends = 1'000;                    // of one partition and step; at least 1
  std::int64_t txn_window_min_us = 900'000'000;         // shortest life of a hash list
  std::int64_t cleanup_us = 30LL * 86'400 * 1'000'000;  // without a write; 0 = idle partitions stay
  bool rows_window = true;  // append rows leave RAM with the dedup window (storage.md RT-9)
};

struct TraceSettings {
  std::int64_t retention_us = 7LL * 86'400 * 1'000'000;
  std::uint32_t trim_limit = 512;  // traces dropped by one step
};

// Firing of timers (api-state.md TM-8, TM-9).
struct TimerSettings {
  std::int64_t tick_us = 50'000;              // 0 = timers never fire
  std::size_t fire_batch = 256;               // of one step
  std::uint64_t fire_bytes_max = 4ULL << 20;  // of one step's frames; one timer always goes
  std::int64_t backoff_min_us = 1'000'000, backoff_max_us = 60'000'000;
  std::int64_t transient_backoff_us = 1'000'000;
  std::uint32_t attempts_max = 5;  // permanent refusals before a timer becomes a dead letter
};

struct Settings {
  std::string directory;                         // QUEEN_RAFT_DIR
  qlog::Options logs;                            // directory filled in by open()
  std::uint64_t map_bytes = 0;                   // 0 = built in
  bool store_verify = false;                     // scrub the whole store at open (CK-4)
  bool store_verify_reads = false;               // every read of the store verifies its checksum (CK-3)
  std::int64_t scrub_every_us = 21'600'000'000;  // 0 = off
  std::uint64_t scrub_rows_per_s = 2000;
  std::int64_t durable_every_us = 1'000'000;
  std::uint64_t durable_every_bytes = 256ULL << 20;
  std::size_t batch_commands_max = 4096;
  std::uint64_t batch_bytes_max = 4ULL << 20;
  std::size_t pipeline = 8;  // entries in flight
  std::size_t command_queue_depth = 16384;
  std::uint64_t entry_bytes_max = 96ULL << 20;
  int zstd_level = 1;
  std::int64_t kv_sweep_us = 1'000'000;
  std::uint32_t kv_sweep_limit = 512;
  int fsync_threads = 32;
  double disk_high_pct = 85, disk_low_pct = 80;
  std::int64_t disk_check_us = 100'000;
  std::uint64_t reserve_bytes = 0;    // kept back for a full volume (HD-30)
  std::uint64_t admit_bytes_max = 0;  // of writes that wait to be planned; 0 = no limit
  std::int64_t admit_hold_us = 15'000'000;
  bool wall_clock = false;  // stamps follow the wall clock alone (QUEEN_RAFT_CLOCK)
  RetentionSettings retention;
  TraceSettings traces;
  TimerSettings timers;
  const auth::PayloadCipher* cipher =
      nullptr;  // outlives the broker; null = payloads stay as they are stored
  std::uint64_t scrub_bytes_per_second = 8ULL << 20;  // of the log scrub; 0 = off
  MeterSettings meter;
  qlog::UpkeepSettings upkeep;                       // its clock is filled in by open()
  Executors* executors = nullptr;                    // outlives the broker; null = threads of its own
  CrashPoints* crash_points = nullptr;               // outlives the broker; null = none
  store::CheckpointHome* checkpoint_home = nullptr;  // outlives the broker; null = the LMDB file
};

// Room that a write was given before it was there: its bytes count until the permit is gone.
class WritePermit {
 public:
  virtual ~WritePermit() = default;
};

// Thread-safe. `done` callbacks run on an engine thread: hand heavy work on. A call made after stop() answers
// `retry`.
class Broker {
 public:
  virtual ~Broker() = default;

  // Opens or makes the data directory, recovers, replays; `progress` (0..1) may be called from this thread
  // while it runs. Errors: corrupt or unavailable: the text after `FATAL: ` (storage.md 14). Blocks until
  // ready.
  static Result<std::unique_ptr<Broker>> open(Settings settings, disk::Disk& disk, Clock& clock,
                                              Random& random, Logger log,
                                              const std::function<void(double)>& progress);

  // Every command but pushes and pops. Answered once durable and applied. Deletions, seeks and subscriptions
  // take as many steps as they need, each an entry of its own; the answer is that of all of them, or the
  // first refusal, and the same call again goes on.
  virtual void submit(machine::Command command, UniqueFunction<void(Answer<machine::Outcome>)> done) = 0;
  // With a permit the push waits for no other room.
  virtual void push(machine::Command command, UniqueFunction<void(Answer<PushAnswer>)> done,
                    std::shared_ptr<WritePermit> permit = nullptr) = 0;
  // Room for a write of that size, once there is some (storage.md 24). Refusals: overloaded, retry.
  virtual void admit(std::uint64_t bytes,
                     UniqueFunction<void(Answer<std::shared_ptr<WritePermit>>)> done) = 0;

  // A pop, parked until something can be claimed or `deadline_mono_us` (of the clock) is near when `wait`. An
  // empty answer is a PopAnswer without parts. The id cancels a parked pop. The claimed messages are read
  // before `done`; a claim that cannot be read is cut before the damaged record (L-11).
  using PopId = std::uint64_t;
  virtual PopId pop(machine::Command command, bool wait, std::int64_t deadline_mono_us,
                    UniqueFunction<void(Answer<PopAnswer>)> done) = 0;
  // The client went away: a parked pop is dropped; one that claims at this moment is handed back. `done`
  // still runs once.
  virtual void cancel_pop(PopId id) = 0;
  // Gives back what `answer` claimed: nobody received it (L-9).
  virtual void hand_back(const std::string& tenant, const std::string& group, Uuid lease_id,
                         const PopAnswer& answer) = 0;
  // Answers every parked pop empty and wakes whoever waits for an append: SIGTERM. From then on
  // released_parked() is true, and nobody should wait any more.
  virtual void release_parked() = 0;
  virtual bool released_parked() const = 0;

  // An AckCommand or a TransactionCommand: fills message_id and payload of items that may be filed as dead
  // letters, then submits. A transaction that the log keeps from being decided answers as rolled back.
  virtual void ack(machine::Command command, UniqueFunction<void(Answer<machine::Outcome>)> done) = 0;

  // Reads of this node's applied state. They block on the disk: not from engine threads.
  virtual Answer<std::vector<FetchEntryAnswer>> fetch(const std::string& tenant,
                                                      std::span<const FetchEntry> entries) = 0;
  virtual Answer<std::vector<OffsetEntryAnswer>> offsets(const std::string& tenant,
                                                         std::span<const OffsetEntry> entries) = 0;
  virtual ChangedAnswer changed(const std::string& tenant, std::span<const ChangedEntry> entries) = 0;
  virtual QueuesAnswer queues(const std::string& tenant, QueueDetail detail) = 0;

  // In steps, as submit(). Messages and dead letters stay (G-6).
  virtual void delete_group(std::string tenant, GroupDeletion deletion,
                            UniqueFunction<void(Answer<GroupDeleted>)> done) = 0;
  // Reads of this node's dead letters and traces; they live as long as the broker.
  virtual const DeadLetters& dead_letters() const = 0;
  virtual const Traces& traces() const = 0;
  // Reads of this node's key/value rows, timers, streams, switches, quotas and declarations.
  virtual const StateReads& state() const = 0;

  // Calls `wake` once, after the next append to any of the queues of `tenant`, or never when cancelled first.
  using WaitId = std::uint64_t;
  virtual WaitId on_append(const std::string& tenant, std::vector<std::string> queues,
                           UniqueFunction<void()> wake) = 0;
  virtual void cancel_wait(WaitId id) = 0;

  // Calls `done` once every write that was answered before this call, by any node, is in what this node reads
  // (N-4). Errors: as submit().
  virtual void barrier(UniqueFunction<void(Answer<void>)> done) = 0;

  // What the management routes show of queues and messages.
  virtual Resources& resources() = 0;
  // What consumer groups have read.
  virtual Groups& groups() = 0;
  // Runs `work`, a read that may walk every partition, on threads kept for such reads: few, so that they do
  // not hold up pops and the sink.
  virtual void look(UniqueFunction<void()> work) = 0;

  // Runs `work` on a thread of the broker's own for reads and calls of in-process users (the sink).
  virtual void run(UniqueFunction<void()> work) = 0;

  // What this node counted.
  virtual const Meter& meter() const = 0;
  virtual Health health() = 0;
  virtual int zstd_level() const = 0;
  virtual std::uint64_t entry_bytes_max() const = 0;

  // Answers what is in flight, writes a last checkpoint, closes the files. Blocks. Idempotent.
  virtual void stop() = 0;
};

}  // namespace queen::broker

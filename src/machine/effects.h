// Effects: the deterministic state changes an entry consists of (storage.md 6.4). Ids and fields are
// permanent. Bytes: docs/formats/entry.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::machine {

// The payload section of one append, as it goes to the log.
struct StoredPayload {
  Bytes bytes;  // message frames, or their zstd form
  bool compressed = false;
  bool settled = false;         // compression was tried: `bytes` are what the log shall hold
  std::uint32_t raw_bytes = 0;  // of the frames before compression
};

struct Noop {};
struct QueueUpsert {
  std::string tenant, queue;
  store::QueueRow row;
};
// Removes the queue with everything that has its name: settings, registrations, partitions' names, pending
// rows, dead letters, counters. What its partitions still hold becomes garbage. Absent: nothing.
struct QueueDelete {
  std::string tenant, queue;
};
struct GroupUpsert {
  std::string tenant, queue, group;
  store::GroupRow row;
};
// Removes a registration with its pending rows and counters; cursors go by CursorDelete. Absent: nothing.
struct GroupDelete {
  std::string tenant, queue, group;
};
struct PartitionCreate {
  Pid pid;
  Uuid uuid;
  std::string tenant, queue, partition;
  std::int64_t created_at = 0;
};
// Removes a partition and every row of it. Absent: nothing.
struct PartitionDelete {
  Pid pid;
  std::uint64_t queue_id = 0;  // not encoded
};
struct Append {
  Pid pid;
  std::uint16_t bucket = 0;
  std::uint64_t base_offset = 0;
  std::uint32_t count = 0;
  std::int64_t created_at = 0;
  Bytes hashes;                     // 16 x count
  std::uint32_t payload_bytes = 0;  // raw frames; what stands for the payload in the payload-free form
  std::shared_ptr<const StoredPayload> payload;  // full form only, never decoded
  std::uint64_t queue_id = 0;                    // not encoded: where the log writer puts it; 0 = look it up
};
struct CursorSet {
  Pid pid;
  std::string group;
  store::CursorRow row;
  std::uint32_t failed_delta = 0;
  std::uint64_t queue_id = 0;  // not encoded
};
// Removes a cursor and its lease: the group starts anew in the partition, as its registration says. Absent:
// nothing.
struct CursorDelete {
  Pid pid;
  std::string group;
  std::uint64_t queue_id = 0;  // not encoded
};
struct DlqInsert {
  Uuid dlq_id;
  std::string tenant, queue;
  store::DeadLetterRow row;
};
struct DlqDelete {
  std::string tenant, queue;
  Uuid dlq_id;
};
// Where a partition's payloads, hash lists and append rows begin (storage.md RT-1, RT-9). Each only moves
// forward: a smaller number than the present one changes nothing. Absent partition: nothing.
struct Watermark {
  Pid pid;
  std::int64_t log_start = 0;   // at most last_offset + 1
  std::int64_t txns_start = 0;  // at most log_start and rows_start
  std::int64_t rows_start = 0;
  std::uint64_t retained_bytes = 0;            // by how much the gauges fall
  std::optional<std::int64_t> oldest_live_at;  // stamp of the first append at or above log_start
  std::uint32_t dead_letters_max = 0;          // how many dead letters below log_start go, lowest first
  std::uint64_t queue_id = 0;                  // not encoded
};
struct KvPut {
  std::string tenant, ns, key;
  store::KvRow row;
};
struct KvDelete {
  std::string tenant, ns, key;
};
// Takes partitions of a queue that is being deleted out of it: their names and pending rows go, the rest of
// them becomes garbage.
struct GarbageAdd {
  Uuid queue_uuid;
  std::int64_t deleted_at = 0;
  std::vector<Pid> pids;
};
// Removes at most `limit` rows of the named garbage, partition after partition: cursors and leases, positions
// of dead letters, append rows, streams state, counters, the garbage row, which keeps how far it came.
struct DeleteChunk {
  std::uint32_t limit = 0;  // 1..kDeleteChunkRowsMax
  std::vector<Pid> pids;
};
inline constexpr std::uint32_t kDeleteChunkRowsMax = 1'000;
// Stores a trace event behind those of its message.
struct TraceAppend {
  std::string tenant;
  std::optional<Pid> pid;
  std::string transaction_id;
  store::TraceRow row;
};
// Drops the oldest trace events that were stored before `cutoff`, at most `limit`.
struct TraceExpire {
  std::int64_t cutoff = 0;
  std::uint32_t limit = 0;
};

struct TimerUpsert {
  std::string tenant, queue, key;
  store::TimerRow row;
};
// Absent: nothing.
struct TimerDelete {
  std::string tenant, queue, key;
};
// Firing it was refused: it is due again at `visible_at`. Absent: nothing.
struct TimerBackoff {
  std::string tenant, queue, key;
  std::int64_t visible_at = 0;
  std::uint32_t attempts = 0;
  std::string last_error;
  std::int64_t updated_at = 0;
};
// A hash that differs from the present one deletes all state of the query (api-state.md ST-3).
struct StreamsQueryUpsert {
  std::string tenant;
  Uuid id;
  store::StreamsQueryRow row;
};
struct StreamsStatePut {
  Uuid id;
  Pid pid;
  std::string key;
  store::StreamsStateRow row;
};
// Absent: nothing.
struct StreamsStateDelete {
  Uuid id;
  Pid pid;
  std::string key;
};
// Without a value the flag is unset.
struct FlagSet {
  std::string name;
  std::optional<Bytes> value;
};
// Without a row the tenant has no quota of that kind.
struct QuotaSet {
  store::QuotaKind kind = store::QuotaKind::kv;
  std::string tenant;
  std::optional<store::QuotaRow> row;
};
struct EphemeralConfigSet {
  std::string tenant, queue;
  store::EphemeralRow row;
};
// Absent: nothing.
struct EphemeralConfigDelete {
  std::string tenant, queue;
};

using Effect = std::variant<Noop, QueueUpsert, QueueDelete, GroupUpsert, GroupDelete, PartitionCreate,
                            PartitionDelete, Append, CursorSet, CursorDelete, DlqInsert, DlqDelete, Watermark,
                            KvPut, KvDelete, GarbageAdd, DeleteChunk, TraceAppend, TraceExpire, TimerUpsert,
                            TimerDelete, TimerBackoff, StreamsQueryUpsert, StreamsStatePut,
                            StreamsStateDelete, FlagSet, QuotaSet, EphemeralConfigSet, EphemeralConfigDelete>;

// Highest effect catalogue this build reads and writes (storage.md EN-8). 2 added the effects that delete and
// the watermark, 3 traces and newer versions of rows, 4 timers, streams, flags, quotas and in-memory queues.
// An entry names the lowest catalogue that has all of its effects.
inline constexpr std::uint32_t kKindsVersion = 4;

struct EntryCommand {
  Uuid request_id;
  std::uint32_t first_effect = 0;
  std::uint32_t effect_count = 0;  // at least 1
};

// One replicated log entry (storage.md 6.1). Outcomes of the commands are not recorded by this catalogue: tag
// none.
struct Entry {
  std::int64_t now_us = 0;
  std::uint64_t pid_base = 0;
  std::uint64_t kv_version_base = 0;
  std::vector<EntryCommand> commands;
  std::vector<Effect> effects;
};

// The payload-free encoding (EN-1): what the log stores and what apply sees.
Bytes encode_entry(const Entry& entry);
// Errors: corrupt (bytes), invalid (a format, effect kind or version that this build does not know: the node
// must stop, EN-6). Never allocates more than the input justifies.
Result<Entry> decode_entry(BytesView bytes);
// Only the (pid, base_offset) of each append, for recovery; same errors.
struct AppendRef {
  Pid pid;
  std::uint64_t base_offset = 0;
};
Result<std::vector<AppendRef>> appends_of(BytesView bytes);
// What must hold of an entry by itself (6.3): spans, request ids, pids, KV versions, each effect's own rules.
// Format and catalogue are the decoder's. Errors: corrupt, naming the rule.
Status validate_entry(const Entry& entry);
// xxh3_64 of the encoding without payload bytes and lengths (EN-3), as 16 hex digits.
std::string entry_digest(const Entry& entry);

}  // namespace queen::machine

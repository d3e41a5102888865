// The typed rows of the store's tables (storage.md 9.1; bytes: docs/formats/store.md). encode() gives the
// row's bytes, which start with a version byte; decode() takes bytes from disk or from a peer. Errors of
// every decode: corrupt (unknown version, a field that does not fit, a bool that is neither 0 nor 1, a
// leftover byte).
//
// Times are µs since the epoch. Offsets are of messages in their partition, from 0; -1 is "before the first".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/result.h"

namespace queen::store {

// Default values are those of a queue that a push or a timer makes.
struct QueueRow {
  Uuid uuid;
  std::optional<std::string> namespace_name;
  std::optional<std::string> task;
  std::int32_t priority = 0;
  std::int32_t lease_time = 60;  // s
  std::int32_t retry_limit = 3;
  std::int32_t retry_delay = 1000;  // ms; stored and echoed only
  std::int32_t ttl = 3600;          // s; stored and echoed only
  bool dead_letter_queue = true;
  bool dlq_after_max_retries = true;
  std::int32_t delayed_processing = 0;           // s
  std::int32_t window_buffer = 0;                // s
  std::int32_t retention_seconds = 0;            // 0 = off
  std::int32_t completed_retention_seconds = 0;  // 0 = off
  bool retention_enabled = false;
  bool encryption_enabled = false;
  std::int32_t max_wait_time_seconds = 0;  // 0 = off
  std::int32_t max_queue_size = 0;         // stored and echoed only
  std::int32_t min_pop_wait_time = 0;      // ms; stored and echoed only
  std::int32_t dedup_window_seconds = 3600;
  std::string retention_sink_hold;                   // sink name, empty = off
  std::int32_t retention_sink_hold_max_seconds = 0;  // 0 is read as 604800
  std::int64_t created_at = 0;
  // Version 2. s: the window holds nobody back longer than this after the first waiting message; 0 = no
  // limit.
  std::int32_t window_buffer_max_seconds = 0;

  // How long the window may hold a message that comes when nothing waits.
  std::int32_t window_hold_seconds() const {
    if (window_buffer_max_seconds <= 0) return window_buffer;
    return window_buffer < window_buffer_max_seconds ? window_buffer : window_buffer_max_seconds;
  }
  // As `configure` makes a queue when no option is given: lease 300 s, empty labels, hold of a week.
  static QueueRow configure_defaults();

  bool operator==(const QueueRow&) const = default;
  // 2 with a limit of the window, else 1.
  std::uint8_t version() const { return window_buffer_max_seconds == 0 ? 1 : 2; }
  Bytes encode() const;
  static Result<QueueRow> decode(BytesView bytes);
};

enum class GroupMode : std::uint8_t { all = 0, from_now = 1, timestamp = 2 };

struct GroupRow {
  Uuid uuid;
  std::string partition_name;
  std::string namespace_name;
  std::string task;
  GroupMode mode = GroupMode::all;
  std::optional<std::int64_t> subscription_ts;
  bool conflation = false;
  bool seeded = false;
  std::int64_t registered_at = 0;
  std::uint64_t reg_index = 0;   // entry of the first registration
  std::uint32_t reg_effect = 0;  // and the ordinal of its effect there

  bool operator==(const GroupRow&) const = default;
  Bytes encode() const;
  static Result<GroupRow> decode(BytesView bytes);
};

struct PartitionRow {
  Uuid uuid;
  std::string tenant;
  std::string queue;
  std::string partition;
  std::int64_t last_offset = -1;  // -1 = empty
  std::int64_t log_start = 0;     // first offset that is retained
  std::int64_t txns_start = 0;    // at most log_start
  std::int64_t rows_start = 0;    // append rows exist for what ends at or above it
  std::int64_t last_write_at = 0;
  std::optional<std::int64_t> oldest_live_at;
  std::int64_t created_at = 0;
  std::int64_t last_created_at = 0;

  bool operator==(const PartitionRow&) const = default;
  Bytes encode() const;
  static Result<PartitionRow> decode(BytesView bytes);
};

// The lease that an ack ended by settling its whole batch, so that the repeat of that ack can be answered.
struct ReleasedLease {
  std::string worker;      // the lease id
  std::int64_t first = 0;  // offsets of the settled batch, both inclusive
  std::int64_t last = 0;
  bool operator==(const ReleasedLease&) const = default;
};

struct CursorRow {
  std::int64_t committed = -1;            // last settled offset
  std::optional<std::int64_t> batch_end;  // last leased offset
  std::optional<std::string> worker;      // the lease id
  std::optional<std::int64_t> lease_expires;
  std::optional<std::int64_t> lease_acquired;
  std::uint32_t batch_retry_count = 0;
  std::optional<std::int64_t> attempt_offset;
  std::uint32_t attempt_count = 0;
  std::uint64_t total_consumed = 0;
  bool lease_conflated = false;
  std::vector<Hash128> delivered;  // of a conflated lease: transaction id hashes of what was handed out
  std::int64_t created_at = 0;
  std::string metadata;                   // version 2; empty = none
  std::optional<ReleasedLease> released;  // version 3
  // Version 4. The first offset of the live lease, once an ack has settled a part of it.
  std::optional<std::int64_t> batch_start;

  bool operator==(const CursorRow&) const = default;
  // 4 with a batch that is settled in part, else 3 with a released lease, else 2 with metadata, else 1.
  std::uint8_t version() const;
  Bytes encode() const;
  static Result<CursorRow> decode(BytesView bytes);
};

// A row of `txns`: one append of a partition. The key has its first offset.
struct AppendRow {
  std::int64_t end = 0;  // last offset, inclusive
  std::int64_t created_at = 0;
  std::vector<Hash128> hashes;  // of the transaction ids, in offset order
  std::optional<std::uint32_t> retained_bytes;

  bool operator==(const AppendRow&) const = default;
  Bytes encode() const;
  static Result<AppendRow> decode(BytesView bytes);
};

// The same row with the hashes left where they are: valid while the bytes given to decode() are.
struct AppendRowView {
  std::int64_t end = 0;
  std::int64_t created_at = 0;
  BytesView hashes;  // 16 bytes each
  std::optional<std::uint32_t> retained_bytes;

  std::size_t count() const { return hashes.size() / 16; }
  Hash128 hash(std::size_t index) const;  // index < count()
  // The first position of `hash`.
  std::optional<std::size_t> find(const Hash128& hash) const;
  // Never allocates when the bytes are right.
  static Result<AppendRowView> decode(BytesView bytes);
};
// What AppendRow::encode() gives, from hashes that already lie one after another (16 bytes each).
Bytes encode_append_row(std::int64_t end, std::int64_t created_at, BytesView hashes,
                        std::optional<std::uint32_t> retained_bytes);

struct DeadLetterRow {
  Pid pid;
  std::string group;
  std::int64_t offset = -1;  // -1 for a timer
  std::optional<Uuid> message_id;
  std::string transaction_id;
  Bytes payload;
  std::string error;
  std::uint32_t retry_count = 0;
  std::int64_t failed_at = 0;

  bool operator==(const DeadLetterRow&) const = default;
  Bytes encode() const;
  static Result<DeadLetterRow> decode(BytesView bytes);
};

// The front of a dead letter and when it was filed, without its payload: valid while the bytes given to
// decode() are. Never allocates when the bytes are right.
struct DeadLetterHead {
  Pid pid;
  std::string_view group;
  std::int64_t offset = -1;
  std::string_view transaction_id;
  std::int64_t failed_at = 0;

  static Result<DeadLetterHead> decode(BytesView bytes);
};

struct KvRow {
  Bytes value;
  std::uint64_t version = 0;
  std::optional<std::int64_t> expires_at;
  std::int64_t created = 0;
  std::int64_t updated = 0;

  bool live_at(std::int64_t now) const { return !expires_at || *expires_at > now; }
  bool operator==(const KvRow&) const = default;
  Bytes encode() const;
  static Result<KvRow> decode(BytesView bytes);
};

struct TimerRow {
  std::string partition;
  std::int64_t deliver_at = 0;
  std::optional<std::int64_t> visible_at;
  Bytes payload;           // as it was scheduled, or its sealed form
  bool raw = false;        // `payload` is no JSON text
  bool encrypted = false;  // `payload` is sealed
  std::string transaction_id;
  Uuid message_id;
  std::uint32_t attempts = 0;
  std::optional<std::string> last_error;
  std::optional<std::string> producer_sub;
  std::int64_t created = 0;
  std::int64_t updated = 0;

  std::int64_t due() const { return visible_at && *visible_at > deliver_at ? *visible_at : deliver_at; }
  bool operator==(const TimerRow&) const = default;
  Bytes encode() const;
  static Result<TimerRow> decode(BytesView bytes);
};

struct StreamsQueryRow {
  std::string name;
  std::string source;
  std::optional<std::string> sink;
  std::string config_hash;
  std::int64_t created = 0;
  std::int64_t updated = 0;

  bool operator==(const StreamsQueryRow&) const = default;
  Bytes encode() const;
  static Result<StreamsQueryRow> decode(BytesView bytes);
};

struct StreamsStateRow {
  Bytes value;  // JSON text
  std::int64_t updated = 0;

  bool operator==(const StreamsStateRow&) const = default;
  Bytes encode() const;
  static Result<StreamsStateRow> decode(BytesView bytes);
};

enum class EphemeralPolicy : std::uint8_t { reject = 0, drop_oldest = 1 };
// A declared in-memory queue. 0 means the node's default for bytes, length, lease and retry limit, and off
// for the others.
struct EphemeralRow {
  std::int64_t max_bytes = 0;
  std::int64_t max_length = 0;
  EphemeralPolicy policy = EphemeralPolicy::reject;
  std::int64_t ttl_seconds = 0;
  std::int64_t lease_seconds = 0;
  std::int64_t retry_limit = 0;
  std::int64_t window_ms = 0;
  std::int64_t window_count = 0;
  std::int64_t created = 0;

  bool operator==(const EphemeralRow&) const = default;
  Bytes encode() const;
  static Result<EphemeralRow> decode(BytesView bytes);
};

// A trace event; the key has the message it is about.
struct TraceRow {
  Uuid id;        // of this event
  Uuid trace_id;  // as the client names the trace it belongs to
  std::string event_type;
  Bytes data;  // JSON text
  std::optional<std::string> message_id, group, worker;
  std::vector<std::string> names;  // distinct
  std::int64_t created_at = 0;

  bool operator==(const TraceRow&) const = default;
  Bytes encode() const;
  static Result<TraceRow> decode(BytesView bytes);
};

struct QuotaRow {
  bool enabled = false;
  std::int64_t max_rows = 0;
  std::int64_t max_bytes = 0;
  std::int64_t max_timers = 0;
  std::int64_t max_timer_horizon_s = 0;
  std::int64_t max_reads_per_s = 0;
  std::int64_t max_writes_per_s = 0;
  std::int64_t max_queues = 0;
  std::int64_t max_msgs_per_s = 0;
  std::int64_t max_queries = 0;

  bool operator==(const QuotaRow&) const = default;
  Bytes encode() const;
  static Result<QuotaRow> decode(BytesView bytes);
};

enum class GarbageScope : std::uint8_t { queue = 0, tenant = 1, group = 2 };

struct GarbageRow {
  std::int64_t deleted_at = 0;
  GarbageScope scope = GarbageScope::queue;
  std::string name;                // of the group, for scope group; else empty
  std::optional<Uuid> queue_uuid;  // for scope queue
  std::optional<Bytes> resume;     // where the next DeleteChunk goes on

  bool operator==(const GarbageRow&) const = default;
  Bytes encode() const;
  static Result<GarbageRow> decode(BytesView bytes);
};

struct RequestIdRow {
  std::int64_t now = 0;  // of the entry that carried it
  Bytes outcome;         // as the entry holds it: tag, version and bytes

  bool operator==(const RequestIdRow&) const = default;
  Bytes encode() const;
  static Result<RequestIdRow> decode(BytesView bytes);
};

Bytes encode_i64_row(std::int64_t value);  // counters, pending (ready_at), leases_by_worker (expiry)
Result<std::int64_t> decode_i64_row(BytesView bytes);
Bytes encode_pid_row(Pid pid);  // partitions_by_key
Result<Pid> decode_pid_row(BytesView bytes);
Bytes encode_uuids_row(const std::vector<Uuid>& ids);  // dlq_by_pos
Result<std::vector<Uuid>> decode_uuids_row(BytesView bytes);
Bytes encode_bytes_row(BytesView value);  // kv_expiry, trace_names, trace_expiry (a key); flags
Result<Bytes> decode_bytes_row(BytesView bytes);

Bytes encode_meta_u64(std::uint64_t value);
Result<std::uint64_t> decode_meta_u64(BytesView bytes);
Bytes encode_meta_i64(std::int64_t value);
Result<std::int64_t> decode_meta_i64(BytesView bytes);
Bytes encode_meta_u32_list(const std::vector<std::uint32_t>& values);  // qlog_files
Result<std::vector<std::uint32_t>> decode_meta_u32_list(BytesView bytes);

}  // namespace queen::store

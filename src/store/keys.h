// Keys of the store's tables, built and taken apart (storage.md 9; bytes: docs/formats/store.md). Byte order
// of the keys is the order of the tuples they stand for: names are escaped (00 as 00 FF) and ended by 00 00,
// integers are big-endian, signed ones with the sign bit flipped. Only `meta` keys and the last part of a
// `kv` key are raw.
//
// Builders never fail: a key may come out longer than kKeyBytesMax, and intake is what refuses such names. A
// `…_prefix` is the common start of the keys it names, for View::scan. Parsers take bytes from disk: they
// give nothing when the key is not exactly of the table's form. Times are µs since the epoch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/ids.h"
#include "store/keyspace.h"

namespace queen::store {

void append_key_name(Bytes& key, std::string_view name);
void append_key_i64(Bytes& key, std::int64_t value);
// How many bytes the number needs, then these, big-endian: small numbers are short and order stays.
void append_key_count(Bytes& key, std::uint64_t value);
// Bytes `append_key_name` would add.
std::size_t key_name_bytes(std::string_view name);

// Takes parts off the front of a key; like ByteReader, check done() once at the end.
class KeyReader {
 public:
  explicit KeyReader(BytesView key) : reader_(key) {}
  std::string name();
  // Steps over a name without building it.
  void skip_name();
  std::uint8_t u8() { return reader_.le<std::uint8_t>(); }
  std::uint16_t u16() { return reader_.be<std::uint16_t>(); }
  std::uint64_t u64() { return reader_.be<std::uint64_t>(); }
  std::int64_t i64() { return static_cast<std::int64_t>(reader_.be<std::uint64_t>() ^ (1ULL << 63)); }
  std::uint64_t count();
  Uuid uuid() { return {reader_.array<16>()}; }
  // All that is left, borrowed from the key.
  BytesView raw() { return reader_.take(reader_.left()); }
  bool done() const { return reader_.done(); }

 private:
  ByteReader reader_;
};

inline constexpr std::string_view kMetaAppliedIndex = "applied_index";
inline constexpr std::string_view kMetaAppliedTerm = "applied_term";
inline constexpr std::string_view kMetaNextPid = "next_pid";
inline constexpr std::string_view kMetaKvVersionNext = "kv_version_next";
inline constexpr std::string_view kMetaLastNowUs = "last_now_us";
inline constexpr std::string_view kMetaMaxCreatedAtUs = "max_created_at_us";
inline constexpr std::string_view kMetaClusterVersion = "cluster_version";
inline constexpr std::string_view kMetaMembership = "membership";
inline constexpr std::string_view kMetaMembershipPrefix = "membership:";
inline constexpr std::string_view kMetaDigestChain = "digest_chain";
inline constexpr std::string_view kMetaApplySkippedPrefix = "apply_skipped/";
inline constexpr std::string_view kMetaDurableIndex = "durable_index";
inline constexpr std::string_view kMetaQlogDurableIndex = "qlog_durable_index";
inline constexpr std::string_view kMetaQlogTailPrefix = "qlog_tail/";
inline constexpr std::string_view kMetaQlogFilesPrefix = "qlog_files/";
inline constexpr std::string_view kMetaQlogLayout = "qlog_layout";
inline constexpr std::string_view kMetaRowsPrefix = "rows/";          // in the LMDB file only
inline constexpr std::string_view kMetaStoreFormat = "store_format";  // in the LMDB file only

Bytes meta_membership(std::uint64_t node_id);
Bytes meta_apply_skipped(EntryIndex index);
Bytes meta_qlog_tail(LogId log);
Bytes meta_qlog_files(LogId log);
Bytes meta_rows(Keyspace keyspace);
// The log id of a `qlog_tail/…` or `qlog_files/…` name whose prefix is given.
std::optional<LogId> meta_log_id(std::string_view prefix, BytesView key);
// True for rows that differ between nodes at one applied index: durable_index, qlog_durable_index,
// qlog_tail/, qlog_files/, qlog_layout, rows/, store_format.
bool meta_is_node_local(BytesView key);

Bytes queue_key(std::string_view tenant, std::string_view queue);
Bytes queues_prefix(std::string_view tenant);
struct QueueKey {
  std::string tenant;
  std::string queue;
};
std::optional<QueueKey> parse_queue_key(BytesView key);

Bytes group_key(std::string_view tenant, std::string_view queue, std::string_view group);
Bytes groups_prefix(std::string_view tenant, std::string_view queue);
Bytes groups_prefix(std::string_view tenant);
struct GroupKey {
  std::string tenant;
  std::string queue;
  std::string group;
};
std::optional<GroupKey> parse_group_key(BytesView key);

Bytes partition_key(Pid pid);
std::optional<Pid> parse_partition_key(BytesView key);

Bytes partition_by_key(std::string_view tenant, std::string_view queue, std::string_view partition);
Bytes partitions_by_key_prefix(std::string_view tenant, std::string_view queue);
// The partition's name.
std::optional<std::string> parse_partition_by_key(BytesView key);

Bytes queue_partition_key(std::string_view tenant, std::string_view queue, Pid pid);
Bytes queue_partitions_prefix(std::string_view tenant, std::string_view queue);
std::optional<Pid> parse_queue_partition_key(BytesView key);

Bytes cursor_key(Pid pid, std::string_view group);
Bytes cursors_prefix(Pid pid);
struct CursorKey {
  Pid pid;
  std::string group;
};
std::optional<CursorKey> parse_cursor_key(BytesView key);

Bytes lease_by_worker_key(std::string_view worker, Pid pid, std::string_view group);
Bytes leases_by_worker_prefix(std::string_view worker);
struct LeaseByWorkerKey {
  std::string worker;
  Pid pid;
  std::string group;
};
std::optional<LeaseByWorkerKey> parse_lease_by_worker_key(BytesView key);

Bytes pending_key(std::string_view tenant, std::string_view queue, std::string_view group, Pid pid);
Bytes pending_prefix(std::string_view tenant, std::string_view queue, std::string_view group);
Bytes pending_prefix(std::string_view tenant, std::string_view queue);
struct PendingKey {
  std::string tenant;
  std::string queue;
  std::string group;
  Pid pid;
};
std::optional<PendingKey> parse_pending_key(BytesView key);
// The pid of a pending key without building its names.
std::optional<Pid> pending_pid(BytesView key);
// The same with the part before it, which is the group's key: borrowed. Names are not looked at.
struct PendingGroup {
  BytesView group_key;
  Pid pid;
};
std::optional<PendingGroup> pending_group(BytesView key);

// `base_offset` must not be negative.
Bytes txns_key(Pid pid, std::int64_t base_offset);
Bytes txns_prefix(Pid pid);
struct TxnsKey {
  Pid pid;
  std::int64_t base_offset = 0;
};
std::optional<TxnsKey> parse_txns_key(BytesView key);

Bytes dlq_key(std::string_view tenant, std::string_view queue, const Uuid& dlq_id);
Bytes dlq_prefix(std::string_view tenant, std::string_view queue);
Bytes dlq_prefix(std::string_view tenant);
struct DlqKey {
  std::string tenant;
  std::string queue;
  Uuid dlq_id;
};
std::optional<DlqKey> parse_dlq_key(BytesView key);

// `offset` is -1 for a dead timer.
Bytes dlq_by_pos_key(Pid pid, std::string_view group, std::int64_t offset);
Bytes dlq_by_pos_prefix(Pid pid);
Bytes dlq_by_pos_prefix(Pid pid, std::string_view group);
struct DlqByPosKey {
  Pid pid;
  std::string group;
  std::int64_t offset = 0;
};
std::optional<DlqByPosKey> parse_dlq_by_pos_key(BytesView key);

Bytes kv_key(std::string_view tenant, std::string_view ns, BytesView key);
Bytes kv_prefix(std::string_view tenant, std::string_view ns);
Bytes kv_prefix(std::string_view tenant);
struct KvKey {
  std::string tenant;
  std::string ns;
  Bytes key;
};
std::optional<KvKey> parse_kv_key(BytesView key);

Bytes kv_expiry_key(std::int64_t expires_at, std::uint64_t version);
// Every key that expires before `expires_at` is below it.
Bytes kv_expiry_bound(std::int64_t expires_at);
struct KvExpiryKey {
  std::int64_t expires_at = 0;
  std::uint64_t version = 0;
};
std::optional<KvExpiryKey> parse_kv_expiry_key(BytesView key);

Bytes timer_key(std::string_view tenant, std::string_view queue, std::string_view timer);
Bytes timers_prefix(std::string_view tenant, std::string_view queue);
Bytes timers_prefix(std::string_view tenant);
struct TimerKey {
  std::string tenant;
  std::string queue;
  std::string timer;
};
std::optional<TimerKey> parse_timer_key(BytesView key);
Bytes timer_due_key(std::int64_t due, std::string_view tenant, std::string_view queue,
                    std::string_view timer);
struct TimerDueKey {
  std::int64_t due = 0;
  TimerKey timer;
};
std::optional<TimerDueKey> parse_timer_due_key(BytesView key);

Bytes request_id_key(const Uuid& request_id);
std::optional<Uuid> parse_request_id_key(BytesView key);
Bytes request_expiry_key(std::int64_t now, const Uuid& request_id);
struct RequestExpiryKey {
  std::int64_t now = 0;
  Uuid request_id;
};
std::optional<RequestExpiryKey> parse_request_expiry_key(BytesView key);

enum class CounterScope : std::uint8_t { partition = 0, queue = 1, tenant = 2, group = 3 };
enum class Counter : std::uint16_t {
  pushed = 0,
  pending = 1,
  completed = 2,
  failed = 3,
  dlq_count = 4,
  retained_bytes = 5,
  last_push_us = 6,
  last_pop_us = 7,
  consumed = 8,
};
// `id` comes from one of the counter_id builders of the same scope.
Bytes counter_key(CounterScope scope, BytesView id, Counter counter);
// All counters of one thing.
Bytes counters_prefix(CounterScope scope, BytesView id);
Bytes counter_id(Pid pid);                                                                  // partition
Bytes counter_id(std::string_view tenant, std::string_view queue);                          // queue
Bytes counter_id(std::string_view tenant);                                                  // tenant
Bytes counter_id(std::string_view tenant, std::string_view queue, std::string_view group);  // group
struct CounterKey {
  CounterScope scope = CounterScope::partition;
  Bytes id;
  Counter counter = Counter::pushed;
};
std::optional<CounterKey> parse_counter_key(BytesView key);

Bytes streams_query_key(std::string_view tenant, const Uuid& query_id);
Bytes streams_queries_prefix(std::string_view tenant);
struct StreamsQueryKey {
  std::string tenant;
  Uuid query_id;
};
std::optional<StreamsQueryKey> parse_streams_query_key(BytesView key);
Bytes streams_state_key(const Uuid& query_id, Pid pid, std::string_view key);
Bytes streams_state_prefix(const Uuid& query_id, Pid pid);
Bytes streams_state_prefix(const Uuid& query_id);
struct StreamsStateKey {
  Uuid query_id;
  Pid pid;
  std::string key;
};
std::optional<StreamsStateKey> parse_streams_state_key(BytesView key);

Bytes flag_key(std::string_view name);
std::optional<std::string> parse_flag_key(BytesView key);
enum class QuotaKind : std::uint8_t { kv = 0, ephemeral = 1, streams = 2 };
Bytes quota_key(QuotaKind kind, std::string_view tenant);
Bytes eph_config_key(std::string_view tenant, std::string_view queue);
Bytes eph_config_prefix(std::string_view tenant);
std::optional<QueueKey> parse_eph_config_key(BytesView key);

// An absent pid sorts before every pid.
Bytes trace_key(std::string_view tenant, std::optional<Pid> pid, std::string_view transaction_id,
                std::uint64_t sequence);
struct TraceKey {
  std::string tenant;
  std::optional<Pid> pid;
  std::string transaction_id;
  std::uint64_t sequence = 0;
};
std::optional<TraceKey> parse_trace_key(BytesView key);
Bytes traces_prefix(std::string_view tenant, std::optional<Pid> pid, std::string_view transaction_id);
Bytes trace_name_key(std::string_view tenant, std::string_view name, std::int64_t created_at, const Uuid& id);
Bytes trace_names_prefix(std::string_view tenant, std::string_view name);
Bytes trace_names_prefix(std::string_view tenant);
struct TraceNameKey {
  std::string tenant;
  std::string name;
  std::int64_t created_at = 0;
  Uuid id;
};
std::optional<TraceNameKey> parse_trace_name_key(BytesView key);
Bytes trace_expiry_key(std::int64_t created_at, const Uuid& id);
struct TraceExpiryKey {
  std::int64_t created_at = 0;
  Uuid id;
};
std::optional<TraceExpiryKey> parse_trace_expiry_key(BytesView key);

Bytes garbage_key(Pid pid);
std::optional<Pid> parse_garbage_key(BytesView key);

}  // namespace queen::store

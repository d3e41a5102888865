#include "store/keys.h"

#include "base/invariant.h"

namespace queen::store {
namespace {

constexpr std::uint64_t kSignBit = 1ULL << 63;

// Builds a key part by part: `key().name(tenant).pid(pid).bytes()`.
class KeyWriter {
 public:
  KeyWriter& name(std::string_view value) {
    append_key_name(bytes_, value);
    return *this;
  }
  KeyWriter& u8(std::uint8_t value) {
    bytes_.push_back(static_cast<char>(value));
    return *this;
  }
  KeyWriter& u16(std::uint16_t value) {
    append_be(bytes_, value);
    return *this;
  }
  KeyWriter& u64(std::uint64_t value) {
    append_be(bytes_, value);
    return *this;
  }
  KeyWriter& i64(std::int64_t value) {
    append_key_i64(bytes_, value);
    return *this;
  }
  KeyWriter& count(std::uint64_t value) {
    append_key_count(bytes_, value);
    return *this;
  }
  KeyWriter& pid(Pid value) { return u64(value.value); }
  KeyWriter& uuid(const Uuid& value) { return raw(value.view()); }
  KeyWriter& raw(BytesView value) {
    bytes_.append(value);
    return *this;
  }
  Bytes bytes() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

KeyWriter key() {
  return {};
}

template <class T>
std::optional<T> if_done(const KeyReader& reader, T&& value) {
  if (!reader.done()) return std::nullopt;
  return std::forward<T>(value);
}

std::optional<Pid> only_pid(BytesView bytes) {
  KeyReader reader(bytes);
  const Pid pid{reader.u64()};
  return if_done(reader, Pid{pid});
}

}  // namespace

Bytes queue_key(std::string_view tenant, std::string_view queue) {
  return key().name(tenant).name(queue).bytes();
}
Bytes queues_prefix(std::string_view tenant) {
  return key().name(tenant).bytes();
}
std::optional<QueueKey> parse_queue_key(BytesView bytes) {
  KeyReader reader(bytes);
  QueueKey out;
  out.tenant = reader.name();
  out.queue = reader.name();
  return if_done(reader, std::move(out));
}

Bytes group_key(std::string_view tenant, std::string_view queue, std::string_view group) {
  return key().name(tenant).name(queue).name(group).bytes();
}
Bytes groups_prefix(std::string_view tenant, std::string_view queue) {
  return queue_key(tenant, queue);
}
Bytes groups_prefix(std::string_view tenant) {
  return queues_prefix(tenant);
}
std::optional<GroupKey> parse_group_key(BytesView bytes) {
  KeyReader reader(bytes);
  GroupKey out;
  out.tenant = reader.name();
  out.queue = reader.name();
  out.group = reader.name();
  return if_done(reader, std::move(out));
}

Bytes partition_key(Pid pid) {
  return key().pid(pid).bytes();
}
std::optional<Pid> parse_partition_key(BytesView bytes) {
  return only_pid(bytes);
}

Bytes partition_by_key(std::string_view tenant, std::string_view queue, std::string_view partition) {
  return key().name(tenant).name(queue).name(partition).bytes();
}
Bytes partitions_by_key_prefix(std::string_view tenant, std::string_view queue) {
  return queue_key(tenant, queue);
}
std::optional<std::string> parse_partition_by_key(BytesView bytes) {
  KeyReader reader(bytes);
  reader.skip_name();
  reader.skip_name();
  std::string partition = reader.name();
  return if_done(reader, std::move(partition));
}

Bytes queue_partition_key(std::string_view tenant, std::string_view queue, Pid pid) {
  return key().name(tenant).name(queue).pid(pid).bytes();
}
Bytes queue_partitions_prefix(std::string_view tenant, std::string_view queue) {
  return queue_key(tenant, queue);
}
std::optional<Pid> parse_queue_partition_key(BytesView bytes) {
  KeyReader reader(bytes);
  reader.skip_name();
  reader.skip_name();
  const Pid pid{reader.u64()};
  return if_done(reader, Pid{pid});
}

Bytes cursor_key(Pid pid, std::string_view group) {
  return key().pid(pid).name(group).bytes();
}
Bytes cursors_prefix(Pid pid) {
  return partition_key(pid);
}
std::optional<CursorKey> parse_cursor_key(BytesView bytes) {
  KeyReader reader(bytes);
  CursorKey out;
  out.pid = Pid{reader.u64()};
  out.group = reader.name();
  return if_done(reader, std::move(out));
}

Bytes lease_by_worker_key(std::string_view worker, Pid pid, std::string_view group) {
  return key().name(worker).pid(pid).name(group).bytes();
}
Bytes leases_by_worker_prefix(std::string_view worker) {
  return key().name(worker).bytes();
}
std::optional<LeaseByWorkerKey> parse_lease_by_worker_key(BytesView bytes) {
  KeyReader reader(bytes);
  LeaseByWorkerKey out;
  out.worker = reader.name();
  out.pid = Pid{reader.u64()};
  out.group = reader.name();
  return if_done(reader, std::move(out));
}

Bytes pending_key(std::string_view tenant, std::string_view queue, std::string_view group, Pid pid) {
  return key().name(tenant).name(queue).name(group).pid(pid).bytes();
}
Bytes pending_prefix(std::string_view tenant, std::string_view queue, std::string_view group) {
  return group_key(tenant, queue, group);
}
Bytes pending_prefix(std::string_view tenant, std::string_view queue) {
  return queue_key(tenant, queue);
}
std::optional<PendingKey> parse_pending_key(BytesView bytes) {
  KeyReader reader(bytes);
  PendingKey out;
  out.tenant = reader.name();
  out.queue = reader.name();
  out.group = reader.name();
  out.pid = Pid{reader.u64()};
  return if_done(reader, std::move(out));
}
std::optional<PendingGroup> pending_group(BytesView bytes) {
  constexpr std::size_t kPidBytes = 8;
  if (bytes.size() < kPidBytes) return std::nullopt;
  KeyReader reader(bytes.substr(bytes.size() - kPidBytes));
  return PendingGroup{bytes.substr(0, bytes.size() - kPidBytes), Pid{reader.u64()}};
}
std::optional<Pid> pending_pid(BytesView bytes) {
  KeyReader reader(bytes);
  reader.skip_name();
  reader.skip_name();
  reader.skip_name();
  const Pid pid{reader.u64()};
  return if_done(reader, Pid{pid});
}

Bytes txns_key(Pid pid, std::int64_t base_offset) {
  INVARIANT(base_offset >= 0, "append row of pid {} at offset {}", pid.value, base_offset);
  return key().pid(pid).count(static_cast<std::uint64_t>(base_offset)).bytes();
}
Bytes txns_prefix(Pid pid) {
  return partition_key(pid);
}
std::optional<TxnsKey> parse_txns_key(BytesView bytes) {
  KeyReader reader(bytes);
  TxnsKey out;
  out.pid = Pid{reader.u64()};
  const std::uint64_t base = reader.count();
  if (base >= kSignBit) return std::nullopt;
  out.base_offset = static_cast<std::int64_t>(base);
  return if_done(reader, std::move(out));
}

Bytes dlq_key(std::string_view tenant, std::string_view queue, const Uuid& dlq_id) {
  return key().name(tenant).name(queue).uuid(dlq_id).bytes();
}
Bytes dlq_prefix(std::string_view tenant, std::string_view queue) {
  return queue_key(tenant, queue);
}
Bytes dlq_prefix(std::string_view tenant) {
  return queues_prefix(tenant);
}
std::optional<DlqKey> parse_dlq_key(BytesView bytes) {
  KeyReader reader(bytes);
  DlqKey out;
  out.tenant = reader.name();
  out.queue = reader.name();
  out.dlq_id = reader.uuid();
  return if_done(reader, std::move(out));
}

Bytes dlq_by_pos_key(Pid pid, std::string_view group, std::int64_t offset) {
  return key().pid(pid).name(group).i64(offset).bytes();
}
Bytes dlq_by_pos_prefix(Pid pid) {
  return partition_key(pid);
}
Bytes dlq_by_pos_prefix(Pid pid, std::string_view group) {
  return cursor_key(pid, group);
}
std::optional<DlqByPosKey> parse_dlq_by_pos_key(BytesView bytes) {
  KeyReader reader(bytes);
  DlqByPosKey out;
  out.pid = Pid{reader.u64()};
  out.group = reader.name();
  out.offset = reader.i64();
  return if_done(reader, std::move(out));
}

Bytes kv_key(std::string_view tenant, std::string_view ns, BytesView kv) {
  return key().name(tenant).name(ns).raw(kv).bytes();
}
Bytes kv_prefix(std::string_view tenant, std::string_view ns) {
  return queue_key(tenant, ns);
}
Bytes kv_prefix(std::string_view tenant) {
  return queues_prefix(tenant);
}
std::optional<KvKey> parse_kv_key(BytesView bytes) {
  KeyReader reader(bytes);
  KvKey out;
  out.tenant = reader.name();
  out.ns = reader.name();
  out.key = Bytes(reader.raw());
  return if_done(reader, std::move(out));
}

Bytes kv_expiry_key(std::int64_t expires_at, std::uint64_t version) {
  return key().i64(expires_at).u64(version).bytes();
}
Bytes kv_expiry_bound(std::int64_t expires_at) {
  return key().i64(expires_at).bytes();
}
std::optional<KvExpiryKey> parse_kv_expiry_key(BytesView bytes) {
  KeyReader reader(bytes);
  KvExpiryKey out;
  out.expires_at = reader.i64();
  out.version = reader.u64();
  return if_done(reader, std::move(out));
}

Bytes timer_key(std::string_view tenant, std::string_view queue, std::string_view timer) {
  return key().name(tenant).name(queue).name(timer).bytes();
}
Bytes timers_prefix(std::string_view tenant, std::string_view queue) {
  return queue_key(tenant, queue);
}
Bytes timers_prefix(std::string_view tenant) {
  return queues_prefix(tenant);
}
std::optional<TimerKey> parse_timer_key(BytesView bytes) {
  KeyReader reader(bytes);
  TimerKey out;
  out.tenant = reader.name();
  out.queue = reader.name();
  out.timer = reader.name();
  return if_done(reader, std::move(out));
}
Bytes timer_due_key(std::int64_t due, std::string_view tenant, std::string_view queue,
                    std::string_view timer) {
  return key().i64(due).name(tenant).name(queue).name(timer).bytes();
}
std::optional<TimerDueKey> parse_timer_due_key(BytesView bytes) {
  KeyReader reader(bytes);
  TimerDueKey out;
  out.due = reader.i64();
  out.timer.tenant = reader.name();
  out.timer.queue = reader.name();
  out.timer.timer = reader.name();
  return if_done(reader, std::move(out));
}

Bytes request_id_key(const Uuid& request_id) {
  return Bytes(request_id.view());
}
std::optional<Uuid> parse_request_id_key(BytesView bytes) {
  KeyReader reader(bytes);
  Uuid id = reader.uuid();
  return if_done(reader, std::move(id));
}
Bytes request_expiry_key(std::int64_t now, const Uuid& request_id) {
  return key().i64(now).uuid(request_id).bytes();
}
std::optional<RequestExpiryKey> parse_request_expiry_key(BytesView bytes) {
  KeyReader reader(bytes);
  RequestExpiryKey out;
  out.now = reader.i64();
  out.request_id = reader.uuid();
  return if_done(reader, std::move(out));
}

Bytes counter_key(CounterScope scope, BytesView id, Counter counter) {
  return key().u8(static_cast<std::uint8_t>(scope)).raw(id).u16(static_cast<std::uint16_t>(counter)).bytes();
}
Bytes counters_prefix(CounterScope scope, BytesView id) {
  return key().u8(static_cast<std::uint8_t>(scope)).raw(id).bytes();
}
Bytes counter_id(Pid pid) {
  return partition_key(pid);
}
Bytes counter_id(std::string_view tenant, std::string_view queue) {
  return queue_key(tenant, queue);
}
Bytes counter_id(std::string_view tenant) {
  return queues_prefix(tenant);
}
Bytes counter_id(std::string_view tenant, std::string_view queue, std::string_view group) {
  return group_key(tenant, queue, group);
}
std::optional<CounterKey> parse_counter_key(BytesView bytes) {
  KeyReader reader(bytes);
  const std::uint8_t scope = reader.u8();
  if (scope > static_cast<std::uint8_t>(CounterScope::group)) return std::nullopt;
  CounterKey out;
  out.scope = static_cast<CounterScope>(scope);
  const std::array<int, 4> names{0, 2, 1, 3};
  if (out.scope == CounterScope::partition) reader.u64();
  for (int i = 0; i < names[scope]; ++i) reader.skip_name();
  const std::uint16_t counter = reader.u16();
  if (!reader.done() || counter > static_cast<std::uint16_t>(Counter::consumed)) return std::nullopt;
  out.counter = static_cast<Counter>(counter);
  out.id = Bytes(bytes.substr(1, bytes.size() - 3));
  return out;
}

Bytes streams_query_key(std::string_view tenant, const Uuid& query_id) {
  return key().name(tenant).uuid(query_id).bytes();
}
Bytes streams_queries_prefix(std::string_view tenant) {
  return queues_prefix(tenant);
}
std::optional<StreamsQueryKey> parse_streams_query_key(BytesView bytes) {
  KeyReader reader(bytes);
  StreamsQueryKey out;
  out.tenant = reader.name();
  out.query_id = reader.uuid();
  return if_done(reader, std::move(out));
}
Bytes streams_state_key(const Uuid& query_id, Pid pid, std::string_view state) {
  return key().uuid(query_id).pid(pid).name(state).bytes();
}
Bytes streams_state_prefix(const Uuid& query_id, Pid pid) {
  return key().uuid(query_id).pid(pid).bytes();
}
Bytes streams_state_prefix(const Uuid& query_id) {
  return request_id_key(query_id);
}
std::optional<StreamsStateKey> parse_streams_state_key(BytesView bytes) {
  KeyReader reader(bytes);
  StreamsStateKey out;
  out.query_id = reader.uuid();
  out.pid = Pid{reader.u64()};
  out.key = reader.name();
  return if_done(reader, std::move(out));
}

Bytes flag_key(std::string_view name) {
  return key().name(name).bytes();
}
std::optional<std::string> parse_flag_key(BytesView bytes) {
  KeyReader reader(bytes);
  std::string name = reader.name();
  return if_done(reader, std::move(name));
}
Bytes quota_key(QuotaKind kind, std::string_view tenant) {
  return key().u8(static_cast<std::uint8_t>(kind)).name(tenant).bytes();
}
Bytes eph_config_key(std::string_view tenant, std::string_view queue) {
  return queue_key(tenant, queue);
}
Bytes eph_config_prefix(std::string_view tenant) {
  return queues_prefix(tenant);
}
std::optional<QueueKey> parse_eph_config_key(BytesView bytes) {
  return parse_queue_key(bytes);
}

Bytes traces_prefix(std::string_view tenant, std::optional<Pid> pid, std::string_view transaction_id) {
  KeyWriter out = key();
  out.name(tenant).u8(pid ? 1 : 0);
  if (pid) out.pid(*pid);
  return out.name(transaction_id).bytes();
}
Bytes trace_key(std::string_view tenant, std::optional<Pid> pid, std::string_view transaction_id,
                std::uint64_t sequence) {
  return key().raw(traces_prefix(tenant, pid, transaction_id)).u64(sequence).bytes();
}
std::optional<TraceKey> parse_trace_key(BytesView bytes) {
  KeyReader reader(bytes);
  TraceKey out;
  out.tenant = reader.name();
  const std::uint8_t has_pid = reader.u8();
  if (has_pid > 1) return std::nullopt;
  if (has_pid == 1) out.pid = Pid{reader.u64()};
  out.transaction_id = reader.name();
  out.sequence = reader.u64();
  return if_done(reader, std::move(out));
}
Bytes trace_name_key(std::string_view tenant, std::string_view name, std::int64_t created_at,
                     const Uuid& id) {
  return key().name(tenant).name(name).i64(created_at).uuid(id).bytes();
}
Bytes trace_names_prefix(std::string_view tenant, std::string_view name) {
  return queue_key(tenant, name);
}
Bytes trace_names_prefix(std::string_view tenant) {
  return queues_prefix(tenant);
}
std::optional<TraceNameKey> parse_trace_name_key(BytesView bytes) {
  KeyReader reader(bytes);
  TraceNameKey out;
  out.tenant = reader.name();
  out.name = reader.name();
  out.created_at = reader.i64();
  out.id = reader.uuid();
  return if_done(reader, std::move(out));
}
Bytes trace_expiry_key(std::int64_t created_at, const Uuid& id) {
  return request_expiry_key(created_at, id);
}
std::optional<TraceExpiryKey> parse_trace_expiry_key(BytesView bytes) {
  KeyReader reader(bytes);
  TraceExpiryKey out;
  out.created_at = reader.i64();
  out.id = reader.uuid();
  return if_done(reader, std::move(out));
}

Bytes garbage_key(Pid pid) {
  return partition_key(pid);
}
std::optional<Pid> parse_garbage_key(BytesView bytes) {
  return only_pid(bytes);
}

}  // namespace queen::store

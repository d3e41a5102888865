#include "store/rows.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/invariant.h"
#include "store/detail/row_codec.h"

namespace queen::store {
namespace {

using detail::RowReader;
using detail::RowWriter;

Error broken(std::string_view row) {
  return {Errc::corrupt, fmt::format("a row of the store does not decode as {}", row)};
}

// Enumerations travel as one byte. Decoding checks the range before the value becomes an enumerator.
template <class Enum>
void read_enum(RowReader& reader, Enum& value, Enum last) {
  std::uint8_t raw = 0;
  reader.fields(raw);
  if (raw > static_cast<std::uint8_t>(last))
    reader.fail();
  else
    value = static_cast<Enum>(raw);
}

template <class Row, class Codec>
void queue_fields(Row& row, Codec& codec) {
  codec.fields(row.uuid, row.namespace_name, row.task, row.priority, row.lease_time, row.retry_limit,
               row.retry_delay, row.ttl, row.dead_letter_queue, row.dlq_after_max_retries,
               row.delayed_processing, row.window_buffer, row.retention_seconds,
               row.completed_retention_seconds, row.retention_enabled, row.encryption_enabled,
               row.max_wait_time_seconds, row.max_queue_size, row.min_pop_wait_time, row.dedup_window_seconds,
               row.retention_sink_hold, row.retention_sink_hold_max_seconds, row.created_at);
}

template <class Row, class Codec>
void cursor_fields(Row& row, Codec& codec) {
  codec.fields(row.committed, row.batch_end, row.worker, row.lease_expires, row.lease_acquired,
               row.batch_retry_count, row.attempt_offset, row.attempt_count, row.total_consumed,
               row.lease_conflated, row.delivered, row.created_at);
}

template <class Row, class Codec>
void dead_letter_fields(Row& row, Codec& codec) {
  codec.fields(row.pid, row.group, row.offset, row.message_id, row.transaction_id, row.payload, row.error,
               row.retry_count, row.failed_at);
}

template <class Row, class Codec>
void kv_fields(Row& row, Codec& codec) {
  codec.fields(row.value, row.version, row.expires_at, row.created, row.updated);
}

template <class Row, class Codec>
void streams_query_fields(Row& row, Codec& codec) {
  codec.fields(row.name, row.source, row.sink, row.config_hash, row.created, row.updated);
}

template <class Row, class Codec>
void trace_fields(Row& row, Codec& codec) {
  codec.fields(row.id, row.trace_id, row.event_type, row.data, row.message_id, row.group, row.worker,
               row.names, row.created_at);
}

template <class Row, class Codec>
void streams_state_fields(Row& row, Codec& codec) {
  codec.fields(row.value, row.updated);
}

template <class Row, class Codec>
void quota_fields(Row& row, Codec& codec) {
  codec.fields(row.enabled, row.max_rows, row.max_bytes, row.max_timers, row.max_timer_horizon_s,
               row.max_reads_per_s, row.max_writes_per_s, row.max_queues, row.max_msgs_per_s,
               row.max_queries);
}

template <class Row, class Codec>
void request_id_fields(Row& row, Codec& codec) {
  codec.fields(row.now, row.outcome);
}

template <class Row, class Fields>
Bytes encode_v1(const Row& row, Fields fields) {
  RowWriter writer(1);
  fields(row, writer);
  return writer.bytes();
}

template <class Row, class Fields>
Result<Row> decode_v1(BytesView bytes, Fields fields, std::string_view name) {
  RowReader reader(bytes);
  if (reader.version() != 1) return broken(name);
  Row row;
  fields(row, reader);
  if (!reader.done()) return broken(name);
  return row;
}

}  // namespace

QueueRow QueueRow::configure_defaults() {
  QueueRow row;
  row.namespace_name = "";
  row.task = "";
  row.lease_time = 300;
  row.retention_sink_hold_max_seconds = 604'800;
  return row;
}

Bytes QueueRow::encode() const {
  RowWriter writer(version());
  queue_fields(*this, writer);
  if (version() >= 2) writer.fields(window_buffer_max_seconds);
  return writer.bytes();
}
Result<QueueRow> QueueRow::decode(BytesView bytes) {
  RowReader reader(bytes);
  if (reader.version() < 1 || reader.version() > 2) return broken("queue config");
  QueueRow row;
  queue_fields(row, reader);
  if (reader.version() >= 2) reader.fields(row.window_buffer_max_seconds);
  // A version that the row does not need would give one queue two encodings.
  if (!reader.done() || row.version() != reader.version()) return broken("queue config");
  return row;
}

Bytes GroupRow::encode() const {
  RowWriter writer(1);
  writer.fields(uuid, partition_name, namespace_name, task, static_cast<std::uint8_t>(mode), subscription_ts,
                conflation, seeded, registered_at, reg_index, reg_effect);
  return writer.bytes();
}
Result<GroupRow> GroupRow::decode(BytesView bytes) {
  RowReader reader(bytes);
  GroupRow row;
  if (reader.version() != 1) return broken("group");
  reader.fields(row.uuid, row.partition_name, row.namespace_name, row.task);
  read_enum(reader, row.mode, GroupMode::timestamp);
  reader.fields(row.subscription_ts, row.conflation, row.seeded, row.registered_at, row.reg_index,
                row.reg_effect);
  if (!reader.done()) return broken("group");
  return row;
}

std::uint8_t CursorRow::version() const {
  if (batch_start) return 4;
  if (released) return 3;
  return metadata.empty() ? 1 : 2;
}
Bytes CursorRow::encode() const {
  RowWriter writer(version());
  cursor_fields(*this, writer);
  if (version() >= 2) writer.fields(metadata);
  if (version() == 4) writer.fields(released.has_value());
  if (released) writer.fields(released->worker, released->first, released->last);
  if (version() == 4) writer.fields(*batch_start);
  return writer.bytes();
}
Result<CursorRow> CursorRow::decode(BytesView bytes) {
  RowReader reader(bytes);
  if (reader.version() < 1 || reader.version() > 4) return broken("cursor");
  CursorRow row;
  cursor_fields(row, reader);
  if (reader.version() >= 2) reader.fields(row.metadata);
  bool released = reader.version() == 3;
  if (reader.version() == 4) reader.fields(released);
  if (released) {
    ReleasedLease& lease = row.released.emplace();
    reader.fields(lease.worker, lease.first, lease.last);
  }
  if (reader.version() == 4) reader.fields(row.batch_start.emplace());
  // A version that the row does not need would give one cursor two encodings.
  if (!reader.done() || row.version() != reader.version()) return broken("cursor");
  return row;
}

Bytes DeadLetterRow::encode() const {
  return encode_v1(*this, [](auto& row, auto& codec) { dead_letter_fields(row, codec); });
}
Result<DeadLetterRow> DeadLetterRow::decode(BytesView bytes) {
  return decode_v1<DeadLetterRow>(
      bytes, [](auto& row, auto& codec) { dead_letter_fields(row, codec); }, "dead letter");
}

Result<DeadLetterHead> DeadLetterHead::decode(BytesView bytes) {
  ByteReader reader(bytes);
  if (reader.le<std::uint8_t>() != 1) return broken("dead letter");
  DeadLetterHead head;
  head.pid = Pid{reader.le<std::uint64_t>()};
  head.group = reader.sized32();
  head.offset = reader.le<std::int64_t>();
  if (reader.boolean()) reader.take(16);
  head.transaction_id = reader.sized32();
  reader.sized32();  // payload
  reader.sized32();  // error
  reader.le<std::uint32_t>();
  head.failed_at = reader.le<std::int64_t>();
  if (!reader.done()) return broken("dead letter");
  return head;
}

Bytes KvRow::encode() const {
  return encode_v1(*this, [](auto& row, auto& codec) { kv_fields(row, codec); });
}
Result<KvRow> KvRow::decode(BytesView bytes) {
  return decode_v1<KvRow>(bytes, [](auto& row, auto& codec) { kv_fields(row, codec); }, "KV row");
}

Bytes StreamsQueryRow::encode() const {
  return encode_v1(*this, [](auto& row, auto& codec) { streams_query_fields(row, codec); });
}
Result<StreamsQueryRow> StreamsQueryRow::decode(BytesView bytes) {
  return decode_v1<StreamsQueryRow>(
      bytes, [](auto& row, auto& codec) { streams_query_fields(row, codec); }, "streams query");
}

Bytes StreamsStateRow::encode() const {
  return encode_v1(*this, [](auto& row, auto& codec) { streams_state_fields(row, codec); });
}
Result<StreamsStateRow> StreamsStateRow::decode(BytesView bytes) {
  return decode_v1<StreamsStateRow>(
      bytes, [](auto& row, auto& codec) { streams_state_fields(row, codec); }, "streams state");
}

Bytes EphemeralRow::encode() const {
  RowWriter writer(1);
  writer.fields(max_bytes, max_length, static_cast<std::uint8_t>(policy), ttl_seconds, lease_seconds,
                retry_limit, window_ms, window_count, created);
  return writer.bytes();
}
Result<EphemeralRow> EphemeralRow::decode(BytesView bytes) {
  RowReader reader(bytes);
  EphemeralRow row;
  if (reader.version() != 1) return broken("ephemeral queue");
  reader.fields(row.max_bytes, row.max_length);
  read_enum(reader, row.policy, EphemeralPolicy::drop_oldest);
  reader.fields(row.ttl_seconds, row.lease_seconds, row.retry_limit, row.window_ms, row.window_count,
                row.created);
  if (!reader.done()) return broken("ephemeral queue");
  return row;
}

Bytes TraceRow::encode() const {
  return encode_v1(*this, [](auto& row, auto& codec) { trace_fields(row, codec); });
}
Result<TraceRow> TraceRow::decode(BytesView bytes) {
  return decode_v1<TraceRow>(bytes, [](auto& row, auto& codec) { trace_fields(row, codec); }, "trace");
}

Bytes QuotaRow::encode() const {
  return encode_v1(*this, [](auto& row, auto& codec) { quota_fields(row, codec); });
}
Result<QuotaRow> QuotaRow::decode(BytesView bytes) {
  return decode_v1<QuotaRow>(bytes, [](auto& row, auto& codec) { quota_fields(row, codec); }, "quota");
}

Bytes GarbageRow::encode() const {
  RowWriter writer(1);
  writer.fields(deleted_at, static_cast<std::uint8_t>(scope), name, queue_uuid, resume);
  return writer.bytes();
}
Result<GarbageRow> GarbageRow::decode(BytesView bytes) {
  RowReader reader(bytes);
  GarbageRow row;
  if (reader.version() != 1) return broken("garbage");
  reader.fields(row.deleted_at);
  read_enum(reader, row.scope, GarbageScope::group);
  reader.fields(row.name, row.queue_uuid, row.resume);
  if (!reader.done()) return broken("garbage");
  return row;
}

Bytes RequestIdRow::encode() const {
  return encode_v1(*this, [](auto& row, auto& codec) { request_id_fields(row, codec); });
}
Result<RequestIdRow> RequestIdRow::decode(BytesView bytes) {
  return decode_v1<RequestIdRow>(
      bytes, [](auto& row, auto& codec) { request_id_fields(row, codec); }, "request id");
}

namespace {

template <class T>
Bytes encode_one(const T& value) {
  RowWriter writer(1);
  writer.fields(value);
  return writer.bytes();
}

template <class T>
Result<T> decode_one(BytesView bytes, std::string_view name) {
  RowReader reader(bytes);
  T value{};
  if (reader.version() != 1) return broken(name);
  reader.fields(value);
  if (!reader.done()) return broken(name);
  return value;
}

template <class T>
Result<T> decode_bare(BytesView bytes, std::string_view name) {
  if (bytes.size() != sizeof(T)) return broken(name);
  return load_le<T>(bytes.data());
}

}  // namespace

Bytes encode_uuids_row(const std::vector<Uuid>& ids) {
  return encode_one(ids);
}
Result<std::vector<Uuid>> decode_uuids_row(BytesView bytes) {
  return decode_one<std::vector<Uuid>>(bytes, "a list of ids");
}
Bytes encode_bytes_row(BytesView value) {
  return encode_one(Bytes(value));
}
Result<Bytes> decode_bytes_row(BytesView bytes) {
  return decode_one<Bytes>(bytes, "bytes");
}

Bytes encode_meta_u64(std::uint64_t value) {
  Bytes out;
  append_le(out, value);
  return out;
}
Result<std::uint64_t> decode_meta_u64(BytesView bytes) {
  return decode_bare<std::uint64_t>(bytes, "a meta number");
}
Bytes encode_meta_i64(std::int64_t value) {
  return encode_meta_u64(static_cast<std::uint64_t>(value));
}
Result<std::int64_t> decode_meta_i64(BytesView bytes) {
  return decode_bare<std::int64_t>(bytes, "a meta number");
}
Bytes encode_meta_u32_list(const std::vector<std::uint32_t>& values) {
  Bytes out;
  append_le(out, static_cast<std::uint32_t>(values.size()));
  for (const std::uint32_t value : values) append_le(out, value);
  return out;
}
Result<std::vector<std::uint32_t>> decode_meta_u32_list(BytesView bytes) {
  ByteReader reader(bytes);
  const std::size_t count = reader.le<std::uint32_t>();
  if (!reader.ok() || reader.left() != count * sizeof(std::uint32_t)) return broken("a list of file ids");
  std::vector<std::uint32_t> out(count);
  for (std::uint32_t& value : out) value = reader.le<std::uint32_t>();
  return out;
}

}  // namespace queen::store

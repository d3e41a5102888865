#include "store/row_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "store/keys.h"
#include "store/rows.h"

namespace queen::store {
namespace {

Error unfit(std::string_view what) {
  return {Errc::corrupt, std::string(what)};
}

template <class Parsed>
Status form(const std::optional<Parsed>& key) {
  if (key) return {};
  return unfit("the key is not of the table's form");
}
template <class Row>
Status decodes(const Result<Row>& row) {
  if (row) return {};
  return row.error();
}
template <class Parsed, class Row>
Status both(const std::optional<Parsed>& key, const Result<Row>& row) {
  if (Status status = form(key); !status) return status;
  return decodes(row);
}
Status empty_row(BytesView value) {
  if (value.empty()) return {};
  return unfit("the row must be empty");
}

constexpr std::array kMetaNumbers = {kMetaAppliedIndex,  kMetaAppliedTerm,      kMetaNextPid,
                                     kMetaKvVersionNext, kMetaLastNowUs,        kMetaMaxCreatedAtUs,
                                     kMetaDurableIndex,  kMetaQlogDurableIndex, kMetaStoreFormat};

Status check_meta(BytesView key, BytesView value) {
  if (std::ranges::find(kMetaNumbers, key) != kMetaNumbers.end() || key.starts_with(kMetaRowsPrefix))
    return decodes(decode_meta_u64(value));
  if (key.starts_with(kMetaQlogTailPrefix))
    return both(meta_log_id(kMetaQlogTailPrefix, key), decode_meta_u64(value));
  if (key == kMetaQlogLayout) return decodes(decode_meta_u32_list(value));
  if (!key.starts_with(kMetaQlogFilesPrefix)) return {};
  const auto files = decode_meta_u32_list(value);
  if (Status status = both(meta_log_id(kMetaQlogFilesPrefix, key), files); !status) return status;
  if (std::ranges::adjacent_find(*files, std::greater_equal{}) == files->end()) return {};
  return unfit("the file ids do not ascend");
}

Status check_messages(Keyspace keyspace, BytesView key, BytesView value) {
  switch (keyspace) {
    case Keyspace::queues:
      return both(parse_queue_key(key), QueueRow::decode(value));
    case Keyspace::groups:
      return both(parse_group_key(key), GroupRow::decode(value));
    case Keyspace::partitions:
      return both(parse_partition_key(key), PartitionRow::decode(value));
    case Keyspace::partitions_by_key:
      return both(parse_partition_by_key(key), decode_pid_row(value));
    case Keyspace::queue_partitions:
      if (Status status = form(parse_queue_partition_key(key)); !status) return status;
      return empty_row(value);
    case Keyspace::cursors:
      return both(parse_cursor_key(key), CursorRow::decode(value));
    case Keyspace::leases_by_worker:
      return both(parse_lease_by_worker_key(key), decode_i64_row(value));
    case Keyspace::pending:
      return both(parse_pending_key(key), decode_i64_row(value));
    case Keyspace::txns:
      return both(parse_txns_key(key), AppendRowView::decode(value));
    case Keyspace::dlq:
      return both(parse_dlq_key(key), DeadLetterRow::decode(value));
    case Keyspace::dlq_by_pos:
      return both(parse_dlq_by_pos_key(key), decode_uuids_row(value));
    case Keyspace::counters:
      return both(parse_counter_key(key), decode_i64_row(value));
    default:
      return both(parse_garbage_key(key), GarbageRow::decode(value));
  }
}

Status check_state(Keyspace keyspace, BytesView key, BytesView value) {
  switch (keyspace) {
    case Keyspace::kv:
      return both(parse_kv_key(key), KvRow::decode(value));
    case Keyspace::kv_expiry:
      return both(parse_kv_expiry_key(key), decode_bytes_row(value));
    case Keyspace::timers:
      return both(parse_timer_key(key), TimerRow::decode(value));
    case Keyspace::timers_due:
      if (Status status = form(parse_timer_due_key(key)); !status) return status;
      return empty_row(value);
    case Keyspace::request_ids:
      return both(parse_request_id_key(key), RequestIdRow::decode(value));
    case Keyspace::request_expiry:
      if (Status status = form(parse_request_expiry_key(key)); !status) return status;
      return empty_row(value);
    case Keyspace::streams_queries:
      return both(parse_streams_query_key(key), StreamsQueryRow::decode(value));
    case Keyspace::streams_state:
      return both(parse_streams_state_key(key), StreamsStateRow::decode(value));
    case Keyspace::flags:
      return both(parse_flag_key(key), decode_bytes_row(value));
    case Keyspace::quotas:
      return decodes(QuotaRow::decode(value));
    case Keyspace::eph_config:
      return both(parse_eph_config_key(key), EphemeralRow::decode(value));
    case Keyspace::traces:
      return both(parse_trace_key(key), TraceRow::decode(value));
    case Keyspace::trace_names:
      return both(parse_trace_name_key(key), decode_bytes_row(value));
    case Keyspace::trace_expiry:
      return both(parse_trace_expiry_key(key), decode_bytes_row(value));
    default:
      return {};
  }
}

}  // namespace

Status check_row(Keyspace keyspace, BytesView key, BytesView value) {
  switch (keyspace) {
    case Keyspace::meta:
      return check_meta(key, value);
    case Keyspace::queues:
    case Keyspace::groups:
    case Keyspace::partitions:
    case Keyspace::partitions_by_key:
    case Keyspace::queue_partitions:
    case Keyspace::cursors:
    case Keyspace::leases_by_worker:
    case Keyspace::pending:
    case Keyspace::txns:
    case Keyspace::dlq:
    case Keyspace::dlq_by_pos:
    case Keyspace::counters:
    case Keyspace::garbage:
      return check_messages(keyspace, key, value);
    case Keyspace::partition_files:
    case Keyspace::seg_loc:
    case Keyspace::files:
      return unfit("the table is always empty");
    default:
      return check_state(keyspace, key, value);
  }
}

}  // namespace queen::store

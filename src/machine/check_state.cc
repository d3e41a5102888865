#include "machine/check_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "machine/detail/counter_check.h"
#include "machine/detail/lookup.h"
#include "machine/effects.h"
#include "store/checkpoint_file.h"

namespace queen::machine {
namespace {

using namespace detail;

class StateCheck {
 public:
  StateCheck(const View& view, const std::string& path, Findings& findings)
      : view_(view), path_(path), findings_(findings) {}

  void run() {
    each(Keyspace::meta, [&](BytesView key, BytesView value) { meta(key, value); });
    each(Keyspace::partitions, [&](BytesView key, BytesView value) { partition(key, value); });
    each(Keyspace::partitions_by_key, [&](BytesView key, BytesView value) { by_key(key, value); });
    each(Keyspace::queue_partitions, [&](BytesView key, BytesView) { queue_partition(key); });
    each(Keyspace::groups, [&](BytesView key, BytesView) { group(key); });
    each(Keyspace::cursors, [&](BytesView key, BytesView value) { cursor(key, value); });
    each(Keyspace::leases_by_worker, [&](BytesView key, BytesView value) { lease(key, value); });
    each(Keyspace::pending, [&](BytesView key, BytesView) { pending(key); });
    append_rows();
    each(Keyspace::dlq, [&](BytesView key, BytesView value) { letter(key, value); });
    each(Keyspace::dlq_by_pos, [&](BytesView key, BytesView value) { letters_at(key, value); });
    each(Keyspace::kv, [&](BytesView key, BytesView value) { kv(key, value); });
    each(Keyspace::kv_expiry, [&](BytesView key, BytesView value) { kv_expiry(key, value); });
    each(Keyspace::timers, [&](BytesView key, BytesView value) { timer(key, value); });
    each(Keyspace::timers_due, [&](BytesView key, BytesView) { timer_due(key); });
    each(Keyspace::traces, [&](BytesView key, BytesView value) { trace(key, value); });
    each(Keyspace::trace_names, [&](BytesView key, BytesView value) { trace_name(key, value); });
    each(Keyspace::trace_expiry, [&](BytesView key, BytesView value) { trace_expiry(key, value); });
    each(Keyspace::streams_queries, [&](BytesView key, BytesView) { streams_query(key); });
    each(Keyspace::streams_state, [&](BytesView key, BytesView) { streams_state(key); });
    each(Keyspace::request_ids, [&](BytesView key, BytesView value) { request(key, value); });
    each(Keyspace::request_expiry, [&](BytesView key, BytesView) { request_expiry(key); });
    check_counters(view_, [&](BytesView key, std::string_view what) {
      at_ = Keyspace::counters;
      tell(key, what);
    });
  }

 private:
  template <class Each>
  void each(Keyspace keyspace, Each one) {
    view_.scan(keyspace, {}, {}, [&](BytesView key, BytesView value) {
      at_ = keyspace;
      one(key, value);
      return true;
    });
  }

  void tell(BytesView key, std::string_view what) {
    Finding finding;
    finding.rule = "9";
    finding.path = path_;
    finding.keyspace = std::string(name_of(at_));
    finding.key = Bytes(key);
    finding.what =
        fmt::format("store keyspace {}, key {}: {}", finding.keyspace, store::describe_key(key), what);
    findings_.add(std::move(finding));
  }
  void want(bool holds, BytesView key, std::string_view what) {
    if (!holds) tell(key, what);
  }

  bool going(Pid pid) const { return view_.get(Keyspace::garbage, store::garbage_key(pid)).has_value(); }
  std::optional<store::PartitionRow> partition_of(Pid pid) const {
    auto row = partition_row(view_, pid);
    return row ? std::move(*row) : std::nullopt;
  }

  void meta(BytesView key, BytesView value) {
    const auto number = store::decode_meta_u64(value);
    if (!number) return;
    if (key == store::kMetaNextPid) next_pid_ = *number;
    if (key == store::kMetaKvVersionNext) kv_version_next_ = *number;
    if (key == store::kMetaMaxCreatedAtUs) max_created_at_us_ = static_cast<std::int64_t>(*number);
  }

  void partition(BytesView key, BytesView value) {
    const auto pid = store::parse_partition_key(key);
    const auto row = store::PartitionRow::decode(value);
    if (!pid || !row || going(*pid)) return;
    want(pid->value < next_pid_, key, fmt::format("the pid is not below next_pid {}", next_pid_));
    const std::int64_t end = row->last_offset + 1;
    want(row->last_offset >= -1 && 0 <= row->txns_start && row->txns_start <= row->log_start &&
             row->log_start <= end && row->txns_start <= row->rows_start && row->rows_start <= end,
         key,
         fmt::format("last_offset {}, log_start {}, txns_start {} and rows_start {} contradict each other",
                     row->last_offset, row->log_start, row->txns_start, row->rows_start));
    want(row->last_created_at <= max_created_at_us_, key,
         fmt::format("its newest message is stamped {}, behind max_created_at_us {}", row->last_created_at,
                     max_created_at_us_));
    const auto named = pid_of(view_, row->tenant, row->queue, row->partition);
    want(named && *named && **named == *pid, key, "partitions_by_key does not give this pid for its name");
    want(view_.get(Keyspace::queue_partitions, store::queue_partition_key(row->tenant, row->queue, *pid))
             .has_value(),
         key, "queue_partitions has no row for it");
    want(view_.get(Keyspace::queues, store::queue_key(row->tenant, row->queue)).has_value(), key,
         "its queue does not exist");
  }

  void by_key(BytesView key, BytesView value) {
    const auto pid = store::decode_pid_row(value);
    if (!pid || going(*pid)) return;
    const auto row = partition_of(*pid);
    if (!row) return tell(key, fmt::format("partition {} does not exist", pid->value));
    want(store::partition_by_key(row->tenant, row->queue, row->partition) == key, key,
         fmt::format("partition {} has another name", pid->value));
  }

  void queue_partition(BytesView key) {
    const auto pid = store::parse_queue_partition_key(key);
    if (!pid || going(*pid)) return;
    const auto row = partition_of(*pid);
    if (!row) return tell(key, fmt::format("partition {} does not exist", pid->value));
    want(store::queue_partition_key(row->tenant, row->queue, *pid) == key, key,
         fmt::format("partition {} belongs to another queue", pid->value));
  }

  void group(BytesView key) {
    const auto name = store::parse_group_key(key);
    if (!name) return;
    want(view_.get(Keyspace::queues, store::queue_key(name->tenant, name->queue)).has_value(), key,
         "its queue does not exist");
  }

  void cursor(BytesView key, BytesView value) {
    const auto name = store::parse_cursor_key(key);
    const auto row = store::CursorRow::decode(value);
    if (!name || !row || going(name->pid)) return;
    const auto partition = partition_of(name->pid);
    if (!partition) return tell(key, "its partition does not exist");
    if (row->worker) {
      const auto lease = number_row(view_, Keyspace::leases_by_worker,
                                    store::lease_by_worker_key(*row->worker, name->pid, name->group));
      want(lease && *lease && **lease == row->lease_expires.value_or(0), key,
           "leases_by_worker has no row for its lease, or another expiry");
    }
    const bool registered =
        view_.get(Keyspace::groups, store::group_key(partition->tenant, partition->queue, name->group))
            .has_value();
    if (!registered || std::max(row->committed, partition->log_start - 1) >= partition->last_offset) return;
    want(view_
             .get(Keyspace::pending,
                  store::pending_key(partition->tenant, partition->queue, name->group, name->pid))
             .has_value(),
         key, "messages wait for the group and pending has no row: they would not be delivered");
  }

  void lease(BytesView key, BytesView value) {
    const auto name = store::parse_lease_by_worker_key(key);
    const auto expires = store::decode_i64_row(value);
    if (!name || !expires || going(name->pid)) return;
    const auto row = cursor_row(view_, name->pid, name->group);
    if (!row) return;
    want(*row && (*row)->worker == name->worker && (*row)->lease_expires.value_or(0) == *expires, key,
         "the cursor does not hold this lease");
  }

  void pending(BytesView key) {
    const auto name = store::parse_pending_key(key);
    if (!name || going(name->pid)) return;
    const auto row = partition_of(name->pid);
    want(row && row->tenant == name->tenant && row->queue == name->queue, key,
         "its partition does not exist or belongs to another queue");
    want(view_.get(Keyspace::groups, store::group_key(name->tenant, name->queue, name->group)).has_value(),
         key, "its group is not registered");
  }

  // Append rows of one partition stand without a gap from rows_start to its end.
  void append_rows() {
    std::optional<Pid> pid;
    std::optional<store::PartitionRow> row;
    std::int64_t next = 0;
    std::unordered_map<std::uint64_t, std::int64_t> ends;
    each(Keyspace::txns, [&](BytesView key, BytesView value) {
      const auto name = store::parse_txns_key(key);
      const auto append = store::AppendRowView::decode(value);
      if (!name || !append) return;
      if (pid != name->pid) {
        pid = name->pid;
        row = going(*pid) ? std::nullopt : partition_of(*pid);
        if (!row && !going(*pid)) tell(key, "its partition does not exist");
        // A row that the watermark crosses stays.
        if (row && name->base_offset > row->rows_start)
          tell(key, fmt::format("append rows begin here, rows_start is {}", row->rows_start));
        next = name->base_offset;
      }
      if (!row) return;
      want(name->base_offset == next, key, fmt::format("the append row before it ends at {}", next));
      want(append->end >= name->base_offset && append->end <= row->last_offset &&
               append->count() == static_cast<std::uint64_t>(append->end - name->base_offset + 1),
           key,
           fmt::format("it ends at {} with {} hashes, the partition at {}", append->end, append->count(),
                       row->last_offset));
      next = append->end + 1;
      ends[pid->value] = next;
    });
    each(Keyspace::partitions, [&](BytesView key, BytesView value) {
      const auto name = store::parse_partition_key(key);
      const auto partition = store::PartitionRow::decode(value);
      if (!name || !partition || going(*name) || partition->rows_start > partition->last_offset) return;
      const auto found = ends.find(name->value);
      want(found != ends.end() && found->second == partition->last_offset + 1, key,
           fmt::format("its append rows end before its last offset {}", partition->last_offset));
    });
  }

  void letter(BytesView key, BytesView value) {
    const auto name = store::parse_dlq_key(key);
    const auto row = store::DeadLetterRow::decode(value);
    if (!name || !row || going(row->pid)) return;
    const auto ids =
        view_.get(Keyspace::dlq_by_pos, store::dlq_by_pos_key(row->pid, row->group, row->offset));
    const auto list = ids ? store::decode_uuids_row(*ids) : Result<std::vector<Uuid>>(std::vector<Uuid>{});
    want(!list || std::ranges::find(*list, name->dlq_id) != list->end(), key, "dlq_by_pos does not name it");
  }

  void letters_at(BytesView key, BytesView value) {
    const auto name = store::parse_dlq_by_pos_key(key);
    const auto ids = store::decode_uuids_row(value);
    if (!name || !ids || going(name->pid)) return;
    const auto row = partition_of(name->pid);
    if (!row) return;  // of a timer, or of a partition that is gone
    for (const Uuid& id : *ids)
      want(view_.get(Keyspace::dlq, store::dlq_key(row->tenant, row->queue, id)).has_value(), key,
           fmt::format("dead letter {} does not exist", id.str()));
  }

  void kv(BytesView key, BytesView value) {
    const auto row = store::KvRow::decode(value);
    if (!row) return;
    want(row->version < kv_version_next_, key,
         fmt::format("version {} is not below kv_version_next {}", row->version, kv_version_next_));
    if (!row->expires_at) return;
    const auto found = view_.get(Keyspace::kv_expiry, store::kv_expiry_key(*row->expires_at, row->version));
    want(found && *found == store::encode_bytes_row(key), key, "kv_expiry does not name it");
  }

  void kv_expiry(BytesView key, BytesView value) {
    const auto name = store::parse_kv_expiry_key(key);
    const auto of = store::decode_bytes_row(value);
    if (!name || !of) return;
    const auto row = read_row<store::KvRow>(view_, Keyspace::kv, *of);
    if (!row) return;
    want(*row && (*row)->version == name->version && (*row)->expires_at == name->expires_at, key,
         "the KV row it names does not exist, or does not expire then");
  }

  void timer(BytesView key, BytesView value) {
    const auto name = store::parse_timer_key(key);
    const auto row = store::TimerRow::decode(value);
    if (!name || !row) return;
    want(view_
             .get(Keyspace::timers_due,
                  store::timer_due_key(row->due(), name->tenant, name->queue, name->timer))
             .has_value(),
         key, "timers_due has no row for it");
  }

  void timer_due(BytesView key) {
    const auto name = store::parse_timer_due_key(key);
    if (!name) return;
    const auto& [tenant, queue, timer] = name->timer;
    const auto row =
        read_row<store::TimerRow>(view_, Keyspace::timers, store::timer_key(tenant, queue, timer));
    if (!row) return;
    want(*row && (*row)->due() == name->due, key, "the timer does not exist, or is not due then");
  }

  void trace(BytesView key, BytesView value) {
    const auto name = store::parse_trace_key(key);
    const auto row = store::TraceRow::decode(value);
    if (!name || !row) return;
    const auto names_it = [&](Keyspace keyspace, const Bytes& of) {
      const auto found = view_.get(keyspace, of);
      return found && *found == store::encode_bytes_row(key);
    };
    want(names_it(Keyspace::trace_expiry, store::trace_expiry_key(row->created_at, row->id)), key,
         "trace_expiry does not name it");
    for (const std::string& one : row->names)
      want(
          names_it(Keyspace::trace_names, store::trace_name_key(name->tenant, one, row->created_at, row->id)),
          key, fmt::format("trace_names does not name it under {}", one));
  }

  // The event that a row of `trace_names` or `trace_expiry` names.
  std::optional<store::TraceRow> trace_at(BytesView value) const {
    const auto of = store::decode_bytes_row(value);
    if (!of) return std::nullopt;
    const auto row = read_row<store::TraceRow>(view_, Keyspace::traces, *of);
    return row ? *row : std::nullopt;
  }

  void trace_name(BytesView key, BytesView value) {
    const auto name = store::parse_trace_name_key(key);
    if (!name) return;
    const auto row = trace_at(value);
    want(row && row->id == name->id && row->created_at == name->created_at &&
             std::ranges::find(row->names, name->name) != row->names.end(),
         key, "the trace it names does not exist, or does not have this name");
  }

  void trace_expiry(BytesView key, BytesView value) {
    const auto name = store::parse_trace_expiry_key(key);
    if (!name) return;
    const auto row = trace_at(value);
    want(row && row->id == name->id && row->created_at == name->created_at, key,
         "the trace it names does not exist, or was stored at another time");
  }

  void streams_query(BytesView key) {
    if (const auto name = store::parse_streams_query_key(key))
      streams_tenants_[name->query_id] = name->tenant;
  }

  void streams_state(BytesView key) {
    const auto name = store::parse_streams_state_key(key);
    if (!name || going(name->pid)) return;
    const auto query = streams_tenants_.find(name->query_id);
    if (query == streams_tenants_.end()) return tell(key, "its query does not exist");
    const auto partition = partition_of(name->pid);
    want(partition && partition->tenant == query->second, key,
         "its partition does not exist or belongs to another tenant");
  }

  void request(BytesView key, BytesView value) {
    const auto id = store::parse_request_id_key(key);
    const auto row = store::RequestIdRow::decode(value);
    if (!id || !row) return;
    want(view_.get(Keyspace::request_expiry, store::request_expiry_key(row->now, *id)).has_value(), key,
         "request_expiry has no row for it");
  }

  void request_expiry(BytesView key) {
    const auto name = store::parse_request_expiry_key(key);
    if (!name) return;
    want(view_.get(Keyspace::request_ids, store::request_id_key(name->request_id)).has_value(), key,
         "the request id does not exist");
  }

  const View& view_;
  const std::string& path_;
  Findings& findings_;
  Keyspace at_ = Keyspace::meta;
  std::map<Uuid, std::string> streams_tenants_;  // by query
  std::uint64_t next_pid_ = 1, kv_version_next_ = 1;
  std::int64_t max_created_at_us_ = 0;
};

}  // namespace

void check_state(const store::View& view, const std::string& path, Findings& findings) {
  StateCheck(view, path, findings).run();
}

}  // namespace queen::machine

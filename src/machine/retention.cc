#include "machine/retention.h"

#include <simdjson.h>

#include <algorithm>

#include "base/planted_bugs.h"
#include "base/text.h"
#include "machine/detail/lookup.h"
#include "machine/detail/streams_rows.h"

namespace queen::machine {

using namespace detail;

namespace {

// s3-sink.md 13: what the sink committed in its last minute stays, so that a late reader finds it.
constexpr std::int64_t kHoldBackUs = 60 * kSecondUs;
constexpr std::int64_t kHoldSecondsMin = 60;
constexpr std::int64_t kHoldSecondsDefault = 604'800;
constexpr std::string_view kSinkNamespace = "queen-s3";

std::int64_t ago(std::int64_t now_us, std::int64_t seconds) {
  return now_us - seconds * kSecondUs;
}

// Nothing stamped at or after this leaves by retention, whatever the queue's settings say.
std::int64_t hold_floor(const store::QueueRow& queue, std::int64_t now_us,
                        std::optional<std::int64_t> sink_end) {
  const std::int64_t seconds = queue.retention_sink_hold_max_seconds == 0
                                   ? kHoldSecondsDefault
                                   : queue.retention_sink_hold_max_seconds;
  const std::int64_t cap = ago(now_us, std::max(seconds, kHoldSecondsMin));
  return sink_end ? std::max(*sink_end - kHoldBackUs, cap) : cap;
}

// tEnd of a commit pointer: an ISO time, cut to the millisecond.
std::optional<std::int64_t> pointer_end(std::string_view json) {
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  std::string_view text;
  if (parser.parse(json.data(), json.size()).get(document) != simdjson::SUCCESS) return std::nullopt;
  if (document["tEnd"].get(text) != simdjson::SUCCESS) return std::nullopt;
  const auto us = parse_iso_micros(text);
  if (!us) return std::nullopt;
  return *us / 1000 * 1000;
}

bool cursor_idle(const store::CursorRow& cursor, std::int64_t before_us) {
  return cursor.created_at < before_us && cursor.lease_acquired.value_or(0) < before_us &&
         cursor.lease_expires.value_or(0) < before_us;
}

bool has_row(const View& view, Keyspace keyspace, BytesView prefix) {
  bool found = false;
  view.scan(keyspace, prefix, {}, [&](BytesView, BytesView) {
    found = true;
    return false;
  });
  return found;
}

}  // namespace

std::int64_t Cutoffs::furthest() const {
  return std::max({all, completed, wait});
}

Cutoffs cutoffs_of(const store::QueueRow& queue, std::int64_t now_us, std::optional<std::int64_t> sink_end,
                   std::int64_t txn_window_min_us) {
  Cutoffs out;
  const bool unheld =
      queue.retention_sink_hold.empty() || planted(PlantedBug::machine_retention_ignores_sink);
  const std::int64_t floor =
      unheld ? std::numeric_limits<std::int64_t>::max() : hold_floor(queue, now_us, sink_end);
  if (queue.retention_enabled && queue.retention_seconds > 0)
    out.all = std::min(ago(now_us, queue.retention_seconds), floor);
  if (queue.retention_enabled && queue.completed_retention_seconds > 0)
    out.completed = std::min(ago(now_us, queue.completed_retention_seconds), floor);
  if (queue.max_wait_time_seconds > 0) out.wait = ago(now_us, queue.max_wait_time_seconds);
  const std::int64_t window = std::max({queue.dedup_window_seconds, queue.completed_retention_seconds, 0});
  out.txns = now_us - std::max(window * kSecondUs, txn_window_min_us);
  const std::int64_t hold =
      std::max({queue.delayed_processing, queue.window_buffer, queue.window_buffer_max_seconds, 0});
  out.rows = std::min(out.txns, ago(now_us, hold));
  return out;
}

std::optional<std::int64_t> sink_end_us(const View& view, std::string_view tenant, std::string_view queue,
                                        const store::QueueRow& row, std::int64_t now_us) {
  if (row.retention_sink_hold.empty()) return std::nullopt;
  const std::string name = "s3:" + row.retention_sink_hold + ":" + percent_encode_name(queue) + ":committed";
  const auto bytes = view.get(Keyspace::kv, store::kv_key(tenant, kSinkNamespace, name));
  if (!bytes) return std::nullopt;
  const auto pointer = store::KvRow::decode(*bytes);
  if (!pointer || !pointer->live_at(now_us)) return std::nullopt;
  return pointer_end(pointer->value);
}

Result<std::vector<RegisteredGroup>> registered_groups(const View& view, std::string_view tenant,
                                                       std::string_view queue) {
  std::vector<RegisteredGroup> out;
  bool broken = false;
  view.scan(Keyspace::groups, store::groups_prefix(tenant, queue), {}, [&](BytesView key, BytesView value) {
    auto name = store::parse_group_key(key);
    const auto row = store::GroupRow::decode(value);
    broken = !name || !row;
    if (!broken) out.push_back({std::move(name->group), first_wanted_us(*row)});
    return !broken;
  });
  if (broken) return Error{Errc::corrupt, "a group row does not decode"};
  return out;
}

Result<Completion> completion_of(const View& view, Pid pid, const std::vector<RegisteredGroup>& groups) {
  Completion out;
  std::vector<std::string> met;
  bool broken = false;
  view.scan(Keyspace::cursors, store::cursors_prefix(pid), {}, [&](BytesView key, BytesView value) {
    auto name = store::parse_cursor_key(key);
    const auto row = store::CursorRow::decode(value);
    broken = !name || !row;
    if (broken) return false;
    out.committed = planted(PlantedBug::machine_retention_asks_fastest)
                        ? std::max(out.committed.value_or(row->committed), row->committed)
                        : std::min(out.committed.value_or(row->committed), row->committed);
    met.push_back(std::move(name->group));
    return true;
  });
  if (broken) return Error{Errc::corrupt, "a cursor row does not decode"};
  for (const RegisteredGroup& group : groups)
    if (std::find(met.begin(), met.end(), group.group) == met.end())
      out.wanted_us = std::min(out.wanted_us.value_or(group.wanted_us), group.wanted_us);
  return out;
}

bool completed(const Completion& completion, std::int64_t last_offset, std::int64_t stamp) {
  if (!completion.committed && !completion.wanted_us) return false;
  if (completion.committed && last_offset > *completion.committed) return false;
  return !completion.wanted_us || stamp < *completion.wanted_us;
}

bool message_due(const Cutoffs& cutoffs, const Completion& completion, std::int64_t last_offset,
                 std::int64_t stamp) {
  return stamp < cutoffs.all || stamp < cutoffs.wait ||
         (stamp < cutoffs.completed && completed(completion, last_offset, stamp));
}

Result<bool> partition_dead(const View& view, Pid pid, const store::PartitionRow& partition,
                            std::int64_t now_us, std::int64_t cleanup_us) {
  const std::int64_t before = now_us - cleanup_us;
  if (partition.created_at >= before || partition.last_write_at >= before) return false;
  if (std::min({partition.log_start, partition.txns_start, partition.rows_start}) <= partition.last_offset)
    return false;
  if (has_row(view, Keyspace::dlq_by_pos, store::dlq_by_pos_prefix(pid))) return false;
  bool idle = true;
  bool broken = false;
  view.scan(Keyspace::cursors, store::cursors_prefix(pid), {}, [&](BytesView, BytesView value) {
    const auto row = store::CursorRow::decode(value);
    broken = !row;
    idle = !broken && cursor_idle(*row, before);
    return idle;
  });
  if (broken) return Error{Errc::corrupt, "a cursor row does not decode"};
  // Open windows wait for the partition's next message, however long that takes.
  return idle && detail::streams_state_of(view, pid, 1).empty();
}

}  // namespace queen::machine

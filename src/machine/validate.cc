// What must hold of an entry by itself (storage.md 6.3), before it is proposed and again before it is
// applied.
#include <fmt/format.h>

#include <algorithm>

#include "machine/effects.h"

namespace queen::machine {
namespace {

Error refuse(std::string what) {
  return {Errc::corrupt, "entry: " + std::move(what)};
}

Status check_spans(const Entry& entry) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;
  spans.reserve(entry.commands.size());
  for (const EntryCommand& command : entry.commands) {
    if (command.effect_count == 0) return refuse("a command without effects");
    spans.emplace_back(command.first_effect, command.effect_count);
  }
  std::sort(spans.begin(), spans.end());
  std::uint64_t covered = 0;
  for (const auto& [first, count] : spans) {
    if (first != covered) return refuse(fmt::format("spans of commands do not meet at effect {}", covered));
    covered += count;
  }
  if (covered != entry.effects.size())
    return refuse(fmt::format("spans of commands cover {} of {} effects", covered, entry.effects.size()));
  return {};
}

Status check_request_ids(const Entry& entry) {
  std::vector<Uuid> ids;
  ids.reserve(entry.commands.size());
  for (const EntryCommand& command : entry.commands) ids.push_back(command.request_id);
  std::sort(ids.begin(), ids.end());
  const auto twin = std::adjacent_find(ids.begin(), ids.end());
  if (twin != ids.end()) return refuse(fmt::format("request id {} twice", twin->str()));
  return {};
}

Status check_numbers(const Entry& entry) {
  std::vector<std::uint64_t> pids;
  std::uint64_t kv_version = entry.kv_version_base;
  for (const Effect& effect : entry.effects) {
    if (const auto* create = std::get_if<PartitionCreate>(&effect)) pids.push_back(create->pid.value);
    const auto* put = std::get_if<KvPut>(&effect);
    if (put != nullptr && put->row.version != kv_version++)
      return refuse(fmt::format("KV version {} where {} is next", put->row.version, kv_version - 1));
  }
  std::sort(pids.begin(), pids.end());
  for (std::size_t i = 0; i < pids.size(); ++i)
    if (pids[i] != entry.pid_base + i)
      return refuse(fmt::format("created pid {} where {} is next", pids[i], entry.pid_base + i));
  return {};
}

// Offsets are below 2^63: rows hold them signed.
constexpr std::uint64_t kOffsetMax = (1ULL << 63) - 1;

struct OwnCheck {
  bool operator()(const Noop&) const { return true; }
  bool operator()(const QueueUpsert& effect) const { return named(effect.tenant, effect.queue); }
  bool operator()(const QueueDelete& effect) const { return named(effect.tenant, effect.queue); }
  bool operator()(const GroupDelete& effect) const {
    return named(effect.tenant, effect.queue) && !effect.group.empty();
  }
  bool operator()(const PartitionDelete& effect) const { return effect.pid.value != 0; }
  bool operator()(const CursorDelete& effect) const { return effect.pid.value != 0 && !effect.group.empty(); }
  bool operator()(const DlqDelete& effect) const { return named(effect.tenant, effect.queue); }
  bool operator()(const Watermark& effect) const {
    return effect.pid.value != 0 && effect.txns_start >= 0 && effect.txns_start <= effect.log_start &&
           effect.txns_start <= effect.rows_start;
  }
  bool operator()(const GarbageAdd& effect) const { return partitions(effect.pids); }
  bool operator()(const DeleteChunk& effect) const {
    return partitions(effect.pids) && effect.limit > 0 && effect.limit <= kDeleteChunkRowsMax;
  }
  bool operator()(const GroupUpsert& effect) const {
    return named(effect.tenant, effect.queue) && !effect.group.empty();
  }
  bool operator()(const PartitionCreate& effect) const {
    return effect.pid.value != 0 && named(effect.tenant, effect.queue) && !effect.partition.empty();
  }
  bool operator()(const Append& effect) const {
    return effect.pid.value != 0 && effect.count > 0 && effect.bucket < 256 &&
           effect.hashes.size() == std::size_t{effect.count} * 16 && effect.created_at > 0 &&
           effect.base_offset <= kOffsetMax - effect.count;
  }
  bool operator()(const CursorSet& effect) const {
    const store::CursorRow& row = effect.row;
    const bool leased = row.worker.has_value();
    return effect.pid.value != 0 && !effect.group.empty() && row.committed >= -1 &&
           leased == row.batch_end.has_value() && leased == row.lease_expires.has_value() &&
           (!leased || *row.batch_end > row.committed);
  }
  bool operator()(const DlqInsert& effect) const {
    return named(effect.tenant, effect.queue) && !effect.row.group.empty() && effect.row.offset >= -1;
  }
  bool operator()(const KvPut& effect) const {
    return named(effect.ns, effect.key) && effect.row.version > 0;
  }
  bool operator()(const KvDelete& effect) const { return named(effect.ns, effect.key); }
  bool operator()(const TraceAppend& effect) const {
    const auto& names = effect.row.names;
    return named(effect.tenant, effect.transaction_id) && (!effect.pid || effect.pid->value != 0) &&
           !effect.row.event_type.empty() &&
           std::none_of(names.begin(), names.end(), [](const std::string& name) { return name.empty(); });
  }
  bool operator()(const TraceExpire& effect) const { return effect.limit > 0; }
  bool operator()(const TimerUpsert& effect) const {
    return named(effect.tenant, effect.queue) && named(effect.key, effect.row.partition) &&
           !effect.row.transaction_id.empty();
  }
  bool operator()(const TimerDelete& effect) const {
    return named(effect.tenant, effect.queue) && !effect.key.empty();
  }
  bool operator()(const TimerBackoff& effect) const {
    return named(effect.tenant, effect.queue) && !effect.key.empty();
  }
  bool operator()(const StreamsQueryUpsert& effect) const {
    return named(effect.tenant, effect.row.name) && named(effect.row.source, effect.row.config_hash);
  }
  bool operator()(const StreamsStatePut& effect) const { return effect.pid.value != 0; }
  bool operator()(const StreamsStateDelete& effect) const { return effect.pid.value != 0; }
  bool operator()(const FlagSet& effect) const { return !effect.name.empty(); }
  bool operator()(const QuotaSet& effect) const { return !effect.tenant.empty(); }
  bool operator()(const EphemeralConfigSet& effect) const { return named(effect.tenant, effect.queue); }
  bool operator()(const EphemeralConfigDelete& effect) const { return named(effect.tenant, effect.queue); }

 private:
  static bool partitions(const std::vector<Pid>& pids) {
    return !pids.empty() && std::all_of(pids.begin(), pids.end(), [](Pid pid) { return pid.value != 0; });
  }
  static bool named(std::string_view first, std::string_view second) {
    return !first.empty() && !second.empty();
  }
};

}  // namespace

Status validate_entry(const Entry& entry) {
  for (const auto check : {check_spans, check_request_ids, check_numbers})
    if (Status status = check(entry); !status) return status;
  for (std::size_t i = 0; i < entry.effects.size(); ++i)
    if (!std::visit(OwnCheck{}, entry.effects[i]))
      return refuse(
          fmt::format("effect {} of kind {} breaks a rule of its own", i, entry.effects[i].index()));
  return {};
}

}  // namespace queen::machine

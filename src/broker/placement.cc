#include "broker/placement.h"

#include <algorithm>

#include "base/invariant.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

using machine::Append;
using machine::CursorSet;

// LOG table of storage.md 3.2.
struct LogOf {
  const qlog::Layout& layout;
  const store::View& view;
  const LogExists& exists;

  LogId of_pid(Pid pid, std::uint64_t hint) const {
    const std::uint64_t queue = queue_id_of(pid, hint, view);
    return queue == 0 ? kSystemLog : layout.of_partition(LogId{queue}, pid);
  }
  // What only takes away makes no log again that was removed with the last it held.
  LogId if_there(LogId log) const { return log == kSystemLog || exists(log) ? log : kSystemLog; }

  LogId operator()(const machine::QueueDelete& effect) const {
    return if_there(layout.of_queue(effect.tenant, effect.queue));
  }
  LogId operator()(const machine::GroupDelete& effect) const {
    return if_there(layout.of_queue(effect.tenant, effect.queue));
  }
  LogId operator()(const machine::DlqDelete& effect) const {
    return if_there(layout.of_queue(effect.tenant, effect.queue));
  }
  LogId operator()(const machine::PartitionDelete& effect) const {
    return if_there(of_pid(effect.pid, effect.queue_id));
  }
  LogId operator()(const machine::CursorDelete& effect) const {
    return if_there(of_pid(effect.pid, effect.queue_id));
  }
  LogId operator()(const machine::Watermark& effect) const {
    return if_there(of_pid(effect.pid, effect.queue_id));
  }
  LogId operator()(const machine::GarbageAdd&) const { return kSystemLog; }
  LogId operator()(const machine::DeleteChunk&) const { return kSystemLog; }
  LogId operator()(const machine::QueueUpsert& effect) const {
    return layout.of_queue(effect.tenant, effect.queue);
  }
  LogId operator()(const machine::GroupUpsert& effect) const {
    return layout.of_queue(effect.tenant, effect.queue);
  }
  LogId operator()(const machine::DlqInsert& effect) const {
    return layout.of_queue(effect.tenant, effect.queue);
  }
  LogId operator()(const machine::PartitionCreate& effect) const {
    return layout.of_partition(qlog::Layout::queue_id(effect.tenant, effect.queue), effect.pid);
  }
  LogId operator()(const Append& effect) const { return of_pid(effect.pid, effect.queue_id); }
  LogId operator()(const CursorSet& effect) const { return of_pid(effect.pid, effect.queue_id); }
  LogId operator()(const machine::Noop&) const { return kSystemLog; }
  LogId operator()(const machine::KvPut&) const { return kSystemLog; }
  LogId operator()(const machine::KvDelete&) const { return kSystemLog; }
  LogId operator()(const machine::TraceAppend&) const { return kSystemLog; }
  LogId operator()(const machine::TraceExpire&) const { return kSystemLog; }
  LogId operator()(const machine::TimerUpsert&) const { return kSystemLog; }
  LogId operator()(const machine::TimerDelete&) const { return kSystemLog; }
  LogId operator()(const machine::TimerBackoff&) const { return kSystemLog; }
  LogId operator()(const machine::StreamsQueryUpsert&) const { return kSystemLog; }
  LogId operator()(const machine::StreamsStatePut&) const { return kSystemLog; }
  LogId operator()(const machine::StreamsStateDelete&) const { return kSystemLog; }
  LogId operator()(const machine::FlagSet&) const { return kSystemLog; }
  LogId operator()(const machine::QuotaSet&) const { return kSystemLog; }
  LogId operator()(const machine::EphemeralConfigSet&) const { return kSystemLog; }
  LogId operator()(const machine::EphemeralConfigDelete&) const { return kSystemLog; }
};

}  // namespace

std::uint64_t queue_id_of(Pid pid, std::uint64_t hint, const store::View& view) {
  if (hint != 0) return hint;
  const auto bytes = view.get(store::Keyspace::partitions, store::partition_key(pid));
  if (!bytes) return 0;
  const auto row = store::PartitionRow::decode(*bytes);
  INVARIANT(row.has_value(), "partition row {} does not decode", pid.value);
  return qlog::Layout::queue_id(row->tenant, row->queue).value;
}

std::vector<LogId> touched_logs(const machine::Entry& entry, const qlog::Layout& layout,
                                const store::View& view, const LogExists& exists) {
  std::vector<LogId> logs;
  const LogOf log_of{layout, view, exists};
  for (const auto& effect : entry.effects) {
    const LogId log = std::visit(log_of, effect);
    if (logs.empty() || logs.back() != log) logs.push_back(log);
  }
  std::sort(logs.begin(), logs.end());
  logs.erase(std::unique(logs.begin(), logs.end()), logs.end());
  if (logs.empty()) logs.push_back(kSystemLog);
  return logs;
}

Compressed compress_unsettled(const machine::Entry& entry, qlog::CompressorPool& compressors,
                              int zstd_level) {
  Compressed out(entry.effects.size());
  for (std::size_t i = 0; i < entry.effects.size(); ++i) {
    const auto* append = std::get_if<Append>(&entry.effects[i]);
    if (append == nullptr || append->payload == nullptr || append->payload->settled) continue;
    if (auto smaller = compressors.compress(append->payload->bytes, zstd_level))
      out[i] = std::make_shared<const Bytes>(*std::move(smaller));
  }
  return out;
}

std::shared_ptr<replica::Proposal> make_proposal(std::shared_ptr<const machine::Entry> entry,
                                                 Compressed compressed, const Placing& placing) {
  auto proposal = std::make_shared<replica::Proposal>();
  proposal->now_us = entry->now_us;
  proposal->entry = machine::encode_entry(*entry);
  proposal->bytes = proposal->entry.size();
  const LogOf log_of{placing.layout, placing.view, placing.exists};
  for (std::size_t i = 0; i < entry->effects.size(); ++i) {
    const auto* append = std::get_if<Append>(&entry->effects[i]);
    if (append == nullptr) continue;
    INVARIANT(append->payload != nullptr, "append to {} without its payload", append->pid.value);
    const LogId log = log_of(*append);
    INVARIANT(log != kSystemLog, "append to unknown partition {}", append->pid.value);
    BytesView payload = append->payload->bytes;
    bool is_compressed = append->payload->compressed;
    if (compressed[i]) {
      proposal->owned.push_back(std::move(compressed[i]));
      payload = *proposal->owned.back();
      is_compressed = true;
    }
    proposal->messages.push_back({log, append->pid, append->base_offset, append->count, append->created_at,
                                  append->hashes, payload, is_compressed});
    proposal->bytes += append->hashes.size() + payload.size();
  }
  proposal->touched = touched_logs(*entry, placing.layout, placing.view, placing.exists);
  proposal->decoded = std::move(entry);
  return proposal;
}

qlog::AppendsOf appends_of_entry() {
  return [](BytesView bytes) -> Result<std::vector<qlog::AppendKey>> {
    auto refs = machine::appends_of(bytes);
    if (!refs) return std::move(refs).error();
    std::vector<qlog::AppendKey> keys;
    keys.reserve(refs->size());
    for (const auto& ref : *refs) keys.push_back({ref.pid, ref.base_offset});
    return keys;
  };
}

}  // namespace queen::broker

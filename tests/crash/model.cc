#include "model.h"

#include <fmt/format.h>

#include <set>

#include "broker/cold_log.h"
#include "qlog/record.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::crash {

using machine::Command;
using machine::Outcome;
using store::Keyspace;

std::string message_text(std::uint32_t number) {
  const std::size_t bytes = number % 7 == 0 ? 900 : number % 60;
  return fmt::format("{{\"n\":{},\"x\":\"{}\"}}", number,
                     std::string(bytes, static_cast<char>('a' + number % 26)));
}

std::string transaction_id(std::uint32_t number) {
  return fmt::format("t{}", number);
}

machine::PushBatch message_batch(const std::string& queue, const std::string& partition,
                                 const std::vector<std::uint32_t>& numbers) {
  machine::PushBatch batch;
  batch.queue = queue;
  batch.partition = partition;
  for (const std::uint32_t number : numbers) {
    const Bytes text = message_text(number), transaction = transaction_id(number);
    qlog::MessageFrame frame;
    frame.message_id.bytes[15] = static_cast<std::uint8_t>(number);
    frame.transaction_id = transaction;
    frame.payload = text;
    qlog::append_frame(batch.frames, frame);
    batch.hashes += xxh3_128(transaction).view();
    batch.frame_ends.push_back(static_cast<std::uint32_t>(batch.frames.size()));
  }
  auto stored = std::make_shared<machine::StoredPayload>();
  stored->bytes = batch.frames;
  stored->raw_bytes = static_cast<std::uint32_t>(batch.frames.size());
  batch.stored = std::move(stored);
  return batch;
}

void Model::planned(const Command& command, const Outcome& outcome,
                    const std::vector<std::vector<std::uint32_t>>& numbers) {
  if (const auto* push = std::get_if<machine::PushOutcome>(&outcome.body)) {
    const auto& batches = std::get<machine::PushCommand>(command.body).batches;
    for (std::size_t i = 0; i < push->batches.size(); ++i) {
      const auto& stored = push->batches[i];
      for (std::size_t j = 0; j < stored.items.size(); ++j) {
        if (stored.items[j].status != machine::PushItemOutcome::Status::queued) continue;
        auto& partition = partitions[stored.pid.value];
        partition.queue = batches[i].queue;
        partition.partition = batches[i].partition;
        if (stored.items[j].offset == partition.numbers.size()) partition.numbers.push_back(numbers[i][j]);
      }
    }
  }
  if (const auto* ack = std::get_if<machine::AckOutcome>(&outcome.body)) {
    const auto& body = std::get<machine::AckCommand>(command.body);
    for (std::size_t i = 0; i < ack->items.size(); ++i) {
      if (!ack->items[i].success || ack->items[i].noop) continue;
      const std::uint64_t pid = std::stoull(body.items[i].partition_id);
      auto& done = committed.try_emplace({pid, body.group}, -1).first->second;
      const auto& row = partitions.at(pid);
      // The first one behind what was acknowledged: a repeat long after it is a message of its own.
      for (auto offset = std::max(done + 1, row.log_start); offset < std::ssize(row.numbers); ++offset) {
        const std::uint32_t number = row.numbers[static_cast<std::size_t>(offset)];
        if (xxh3_128(transaction_id(number)) != body.items[i].hash) continue;
        done = offset;
        break;
      }
    }
  }
  if (const auto* kv_outcome = std::get_if<machine::KvOutcome>(&outcome.body)) {
    const auto& ops = std::get<machine::KvCommand>(command.body).ops;
    for (std::size_t i = 0; i < kv_outcome->ops.size(); ++i) {
      if (!kv_outcome->ops[i].applied) continue;
      if (ops[i].kind == machine::KvKind::put || ops[i].kind == machine::KvKind::put_if_absent)
        kv[ops[i].key] = ops[i].value;
      if (ops[i].kind == machine::KvKind::incr) {
        const auto at = kv.try_emplace(ops[i].key, "0").first;
        at->second = std::to_string(std::stoll(at->second) + std::stoll(ops[i].delta));
      }
      if (ops[i].kind == machine::KvKind::del) kv.erase(ops[i].key);
    }
  }
  if (const auto* done = std::get_if<machine::TransactionOutcome>(&outcome.body))
    transaction(command, *done, numbers);
  if (std::holds_alternative<machine::ConfigureOutcome>(outcome.body)) {
    const auto& body = std::get<machine::ConfigureCommand>(command.body);
    retention_seconds[body.queue] =
        static_cast<std::int32_t>(body.integers.at("retentionSeconds").value_or(0));
  }
  if (std::holds_alternative<machine::QueueDeleteOutcome>(outcome.body)) {
    const auto& queue = std::get<machine::QueueDeleteCommand>(command.body).queue;
    std::erase_if(partitions, [&](const auto& row) { return row.second.queue == queue; });
    std::erase_if(committed, [&](const auto& row) { return !partitions.contains(row.first.first); });
    retention_seconds.erase(queue);
  }
}

// Whole or not at all: the model of an entry has all parts of its transactions, or none.
void Model::transaction(const Command& command, const machine::TransactionOutcome& outcome,
                        const std::vector<std::vector<std::uint32_t>>& numbers) {
  if (!outcome.reason.empty() || outcome.undecided) return;
  const auto& body = std::get<machine::TransactionCommand>(command.body);
  for (std::size_t i = 0; i < body.acks.size(); ++i)
    planned({command.tenant, {}, body.acks[i]}, {{}, {}, outcome.acks.at(i)}, {});
  planned({command.tenant, {}, body.push}, {{}, {}, outcome.push}, numbers);
  planned({command.tenant, {}, body.kv}, {{}, {}, outcome.kv}, {});
}

// What no answer told of yet is what timers became.
void Model::appended(const machine::Append& append) {
  if (!partitions.contains(append.pid.value)) return;
  ModelPartition& partition = partitions[append.pid.value];
  const auto base = static_cast<std::int64_t>(append.base_offset);
  partition.appends.push_back({base, base + append.count, append.created_at, append.payload_bytes});
  for (std::uint32_t i = 0; i < append.count; ++i) {
    if (append.base_offset + i != partition.numbers.size()) continue;
    const BytesView hash = BytesView(append.hashes).substr(i * sizeof(Hash128), sizeof(Hash128));
    for (const auto& [name, timer] : timers)
      if (name.first == partition.queue && timer.deliver_at <= append.created_at &&
          xxh3_128(transaction_id(timer.number)).view() == hash)
        partition.numbers.push_back(timer.number);
  }
}

void Model::entry(const machine::Entry& entry) {
  for (const auto& effect : entry.effects) {
    if (const auto* append = std::get_if<machine::Append>(&effect)) {
      appended(*append);
    } else if (const auto* made = std::get_if<machine::PartitionCreate>(&effect)) {
      auto& partition = partitions[made->pid.value];
      partition.queue = made->queue;
      partition.partition = made->partition;
    } else if (const auto* timer = std::get_if<machine::TimerUpsert>(&effect)) {
      const auto number = static_cast<std::uint32_t>(std::stoul(timer->row.transaction_id.substr(1)));
      timers[{timer->queue, timer->key}] = {number, timer->row.deliver_at};
    } else if (const auto* done = std::get_if<machine::TimerDelete>(&effect)) {
      timers.erase({done->queue, done->key});
    } else if (const auto* mark = std::get_if<machine::Watermark>(&effect)) {
      const auto found = partitions.find(mark->pid.value);
      if (found == partitions.end()) continue;
      found->second.log_start = mark->log_start;
      found->second.rows_start = mark->rows_start;
    } else if (const auto* gone = std::get_if<machine::PartitionDelete>(&effect)) {
      partitions.erase(gone->pid.value);
      std::erase_if(committed, [&](const auto& row) { return row.first.first == gone->pid.value; });
    }
  }
}

namespace {

std::string messages_differ(std::uint64_t pid, const ModelPartition& want, MiniNode& node, Reads reads) {
  const Pid id{pid};
  const LogId log = node.logs().layout().of_partition(qlog::Layout::queue_id(kDefaultTenant, want.queue), id);
  auto next = static_cast<std::uint64_t>(want.log_start);
  while (next < want.numbers.size()) {
    const auto batch = node.logs().read(log, id, next, {want.numbers.size(), 1000, 1U << 20});
    if (!batch && reads == Reads::may_fail) {
      ++next;  // nothing is given out from a damaged record; what is behind it may be sound
      continue;
    }
    if (!batch) return fmt::format("pid {} offset {}: {}", pid, next, batch.error().what);
    if (batch->messages.empty()) return fmt::format("pid {} offset {} is not there", pid, next);
    for (const auto& message : batch->messages) {
      if (message.offset != next)
        return fmt::format("pid {}: {} where {} should be", pid, message.offset, next);
      const std::uint32_t number = want.numbers[next];
      if (message.frame.payload != message_text(number) ||
          message.frame.transaction_id != transaction_id(number))
        return fmt::format("pid {} offset {}: other bytes", pid, next);
      ++next;
    }
  }
  return {};
}

// RT-9: exactly the rows of what ends at or above rows_start.
std::string rows_differ(std::uint64_t pid, const ModelPartition& want, MiniNode& node) {
  std::vector<std::int64_t> wanted, found;
  for (const auto& append : want.appends)
    if (append.end > want.rows_start) wanted.push_back(append.base);
  node.store().scan(Keyspace::txns, store::txns_prefix(Pid{pid}), {}, [&](BytesView key, BytesView) {
    found.push_back(store::parse_txns_key(key)->base_offset);
    return true;
  });
  if (wanted == found) return {};
  return fmt::format("pid {} has {} append rows, not {}", pid, found.size(), wanted.size());
}

std::string timers_differ(const Model& model, MiniNode& node) {
  for (const Keyspace table : {Keyspace::timers, Keyspace::timers_due})
    if (node.store().rows(table) != model.timers.size())
      return fmt::format("{} rows of timers instead of {}", node.store().rows(table), model.timers.size());
  for (const auto& [name, timer] : model.timers) {
    const auto bytes =
        node.store().get(Keyspace::timers, store::timer_key(kDefaultTenant, name.first, name.second));
    const auto row = bytes ? store::TimerRow::decode(*bytes) : Error{Errc::not_found, "no timer"};
    if (!row || row->transaction_id != transaction_id(timer.number) || row->deliver_at != timer.deliver_at ||
        row->payload != message_text(timer.number))
      return fmt::format("timer {} of {} differs", name.second, name.first);
  }
  return {};
}

std::string partition_differs(std::uint64_t pid, const ModelPartition& want, MiniNode& node, Reads reads) {
  const auto bytes = node.store().get(Keyspace::partitions, store::partition_key(Pid{pid}));
  if (!bytes) return fmt::format("partition {} is gone", pid);
  const auto row = store::PartitionRow::decode(*bytes);
  if (!row) return row.error().what;
  if (row->queue != want.queue || row->partition != want.partition)
    return fmt::format("partition {} has another name", pid);
  if (row->last_offset + 1 != static_cast<std::int64_t>(want.numbers.size()))
    return fmt::format("pid {} ends at {}, not at {}", pid, row->last_offset + 1, want.numbers.size());
  if (row->log_start != want.log_start)
    return fmt::format("pid {} starts at {}, not at {}", pid, row->log_start, want.log_start);
  if (row->rows_start != want.rows_start)
    return fmt::format("pid {} has rows from {}, not from {}", pid, row->rows_start, want.rows_start);
  if (auto text = rows_differ(pid, want, node); !text.empty()) return text;
  return messages_differ(pid, want, node, reads);
}

}  // namespace

std::map<std::uint64_t, std::uint64_t> unfinished(const Model& model, const std::string& queue,
                                                  const std::string& group) {
  std::map<std::uint64_t, std::uint64_t> firsts;
  for (const auto& [pid, partition] : model.partitions) {
    if (partition.queue != queue) continue;
    const auto committed = model.committed.find({pid, group});
    const std::int64_t done = committed == model.committed.end() ? -1 : committed->second;
    const std::int64_t first = std::max(done + 1, partition.log_start);
    if (first < std::ssize(partition.numbers)) firsts[pid] = static_cast<std::uint64_t>(first);
  }
  return firsts;
}

std::string difference(const Model& model, MiniNode& node, Reads reads) {
  for (const auto& [pid, partition] : model.partitions)
    if (auto text = partition_differs(pid, partition, node, reads); !text.empty()) return text;
  for (const auto& [of, offset] : model.committed) {
    const auto bytes = node.store().get(Keyspace::cursors, store::cursor_key(Pid{of.first}, of.second));
    const auto row = bytes ? store::CursorRow::decode(*bytes) : Error{Errc::not_found, "no cursor"};
    // A pop passes over what retention took.
    const auto log_start = model.partitions.at(of.first).log_start;
    if (!row || row->committed < offset || (row->committed > offset && row->committed >= log_start))
      return fmt::format("cursor of pid {}: {} instead of {}", of.first, row ? row->committed : -9, offset);
  }
  if (node.store().rows(Keyspace::kv) != model.kv.size())
    return fmt::format("{} KV rows instead of {}", node.store().rows(Keyspace::kv), model.kv.size());
  for (const auto& [key, value] : model.kv) {
    const auto bytes = node.store().get(Keyspace::kv, store::kv_key(kDefaultTenant, "ns", key));
    const auto row = bytes ? store::KvRow::decode(*bytes) : Error{Errc::not_found, "no row"};
    if (!row || row->value != value) return fmt::format("KV {} differs", key);
  }
  return timers_differ(model, node);
}

namespace {

// Of one pop. It ends where only the log knows more once it has claimed something: another goes on.
Result<std::vector<machine::PopClaim>> claims_of(MiniNode& node, const std::string& queue, std::uint8_t nth) {
  constexpr int kRoundsMax = 8;
  machine::PopCommand pop;
  pop.queue = queue;
  pop.group = "late";
  pop.batch = 1000;
  pop.partitions_max = 100;
  pop.subscription.mode = machine::Subscription::Mode::all;
  pop.lease_id.bytes[0] = nth;
  Command command{std::string(kDefaultTenant), {}, std::move(pop)};
  for (int round = 0; round < kRoundsMax; ++round) {
    const auto planned = node.plan({command});
    const auto* popped = std::get_if<machine::PopOutcome>(&planned.outcomes.at(0).body);
    if (popped == nullptr) return Error{Errc::invalid, planned.outcomes[0].code};
    if (popped->cold_asks.empty()) return popped->claims;
    auto& facts = std::get<machine::PopCommand>(command.body).cold;
    if (auto told = broker::ColdLog(node.logs()).read(popped->cold_asks, facts); !told) return told.error();
  }
  return Error{Errc::busy, "asks without end"};
}

}  // namespace

std::string late_group_differs(const Model& model, MiniNode& node) {
  std::set<std::string> queues;
  for (const auto& [pid, partition] : model.partitions) queues.insert(partition.queue);
  for (const std::string& queue : queues) {
    std::map<std::uint64_t, std::uint64_t> firsts;
    std::size_t claimed = 1;
    for (std::uint8_t nth = 1; claimed > 0; ++nth) {
      const auto claims = claims_of(node, queue, nth);
      if (!claims) return fmt::format("{}: {}", queue, claims.error().what);
      claimed = claims->size();
      for (const auto& claim : *claims) {
        if (!firsts.emplace(claim.pid.value, claim.first).second ||
            claim.last + 1 != model.partitions.at(claim.pid.value).numbers.size())
          return fmt::format("{}: pid {} is claimed up to {}", queue, claim.pid.value, claim.last);
      }
    }
    if (firsts != unfinished(model, queue, "late"))
      return fmt::format("{}: {} claims of {} partitions begin elsewhere", queue, firsts.size(),
                         unfinished(model, queue, "late").size());
  }
  return {};
}

}  // namespace queen::crash

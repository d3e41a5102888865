#include "ledger.h"

#include <array>

#include "base/hash.h"

namespace queen::sim {
namespace {

constexpr std::uint64_t kFetchBytes = 1ULL << 20;

}  // namespace

std::string payload_of(std::string_view transaction_id) {
  const std::uint64_t draw = xxh3_64(transaction_id);
  const std::size_t pad = draw % 16 == 0 ? draw / 16 % 3000 : draw / 16 % 60;
  return fmt::format(R"({{"id":"{}","n": {}.50,"pad":"{}"}})", transaction_id, draw % 1000,
                     std::string(pad, static_cast<char>('a' + draw % 26)));
}

void Ledger::sending(const PartitionName& where, const std::string& transaction_id) {
  messages_ += partitions_[where].sent.try_emplace(transaction_id).second ? 1 : 0;
}

// Those that were never sent before: what a repeat finds is of another push.
void Ledger::pushing_whole(const std::vector<std::pair<PartitionName, std::vector<std::string>>>& batches) {
  for (const auto& [where, ids] : batches) {
    auto& whole = whole_.emplace_back(where, std::vector<std::string>{});
    for (const auto& id : ids) {
      if (!partitions_[where].sent.contains(id))
        whole.second.push_back(id);
      else
        repeated_.emplace(where, id);
    }
  }
}

// All of it is there, under one stamp, or nothing.
void Ledger::check_whole_pushes() {
  std::map<std::pair<PartitionName, std::string_view>, std::int64_t> stamps;
  for (const auto& [where, log] : logs_)
    for (const auto& record : log.records) stamps[{where, record.transaction_id}] = record.ts_us;
  for (const auto& [where, ids] : whole_) {
    std::set<std::int64_t> seen;
    for (const auto& id : ids) {
      if (repeated_.contains({where, id}))
        continue;  // a later push may have stored what the first one did not
      const auto found = stamps.find({where, id});
      seen.insert(found == stamps.end() ? 0 : found->second);
    }
    if (logs_[where].log_start > 0 || seen.size() < 2) continue;
    return story_.violate("an append takes place as a whole",
                          "of the {} messages with {} of {}/{}: stamps {} to {}", ids.size(), ids.front(),
                          where.queue, where.partition, *seen.begin(), *seen.rbegin());
  }
}

// One message per offset, and one offset per message.
void Ledger::place(const PartitionName& where, std::uint64_t offset, const std::string& transaction_id) {
  const auto [at, fresh] = partitions_[where].at.try_emplace(offset, transaction_id);
  if (!fresh && at->second != transaction_id)
    story_.violate("one message per offset", "{}/{} offset {}: {} and {}", where.queue, where.partition,
                   offset, at->second, transaction_id);
}

void Ledger::stored(const PartitionName& where, const std::string& transaction_id, std::uint64_t offset,
                    std::optional<std::int64_t> before_us, std::int64_t after_us) {
  Sent& sent = partitions_[where].sent[transaction_id];
  if (sent.offset && *sent.offset != offset)
    story_.violate("stored once", "{}/{} {}: at offset {} and at {}", where.queue, where.partition,
                   transaction_id, *sent.offset, offset);
  sent.offset = offset;
  if (before_us) sent.before_us = before_us;
  sent.after_us = std::min(sent.after_us, after_us);
  place(where, offset, transaction_id);
}

void Ledger::seen(const PartitionName& where, const LogRecord& record) {
  auto& partition = partitions_[where];
  if (!partition.sent.contains(record.transaction_id))
    return story_.violate("nothing that nobody sent", "{}/{} offset {}: {}", where.queue, where.partition,
                          record.offset, record.transaction_id);
  if (record.payload != payload_of(record.transaction_id))
    return story_.violate("payloads are as sent", "{}/{} offset {} {}: {}", where.queue, where.partition,
                          record.offset, record.transaction_id, record.payload.substr(0, 200));
  place(where, record.offset, record.transaction_id);
  const auto [stamp, fresh] = partition.stamps.try_emplace(record.offset, record.ts_us);
  if (!fresh && stamp->second != record.ts_us)
    story_.violate("stamps stay", "{}/{} offset {}: {} and {}", where.queue, where.partition, record.offset,
                   stamp->second, record.ts_us);
}

std::optional<PartitionRead> Ledger::read(SimNode& node, const PartitionName& where,
                                          std::string_view tenant) {
  PartitionRead log;
  std::optional<std::uint64_t> next;
  for (;;) {
    const std::array<broker::FetchEntry, 1> ask = {
        {{where.queue, where.partition, next.value_or(0), kFetchBytes}}};
    auto answer = node.broker().fetch(std::string(tenant), ask);
    if (!answer) {
      story_.violate("logs can be read", "{}/{}: {} {}", where.queue, where.partition, answer.error().code,
                     answer.error().error);
      return std::nullopt;
    }
    const auto& entry = answer->at(0);
    if (entry.error == "UNKNOWN_TOPIC_OR_PARTITION") return log;
    log.end = entry.high_watermark;
    if (entry.error == "OFFSET_OUT_OF_RANGE" && next.value_or(0) < entry.log_start) {
      next = entry.log_start;
      continue;
    }
    if (!next) log.log_start = entry.log_start;
    for (const auto& message : entry.messages.messages)
      log.records.push_back(
          {message.offset, message.ts_us, std::string(message.transaction_id), std::string(message.payload)});
    if (entry.messages.messages.empty()) break;
    next = log.records.back().offset + 1;
    if (*next >= entry.high_watermark) break;
  }
  if (!log.records.empty())
    log.log_start = log.records.front().offset;
  else
    log.log_start = log.end;
  return log;
}

void Ledger::check(SimNode& node) {
  logs_.clear();
  const std::int64_t now = node.safe_time_us();
  for (const auto& [where, partition] : partitions_) {
    auto log = read(node, where);
    if (!log) return;
    check_partition(where, partition, *log, now);
    logs_[where] = std::move(*log);
  }
  check_strangers(node);
  check_whole_pushes();
}

// What is there, in the order of its offsets: dense, known, as sent, each once, stamps never going back.
void Ledger::check_records(const PartitionName& where, const Partition& partition, const PartitionRead& log) {
  std::set<std::string_view> once;
  std::uint64_t next = log.log_start;
  std::int64_t stamp = 0;
  for (const auto& record : log.records) {
    if (record.offset != next)
      return story_.violate("offsets without a gap", "{}/{}: {} instead of {}", where.queue, where.partition,
                            record.offset, next);
    ++next;
    if (record.ts_us < stamp)
      return story_.violate("stamps never go back", "{}/{} offset {}", where.queue, where.partition,
                            record.offset);
    stamp = record.ts_us;
    if (!once.insert(record.transaction_id).second)
      return story_.violate("stored once", "{}/{} {} twice, again at {}", where.queue, where.partition,
                            record.transaction_id, record.offset);
    const auto known = partition.at.find(record.offset);
    if (known != partition.at.end() && known->second != record.transaction_id)
      return story_.violate("offsets are never reused", "{}/{} offset {}: {} was {}", where.queue,
                            where.partition, record.offset, record.transaction_id, known->second);
    seen(where, record);
  }
  if (next != log.end)
    story_.violate("nothing answered is lost", "{}/{}: the log ends at {} and can be read to {}", where.queue,
                   where.partition, log.end, next);
}

void Ledger::check_partition(const PartitionName& where, const Partition& partition, const PartitionRead& log,
                             std::int64_t now_us) {
  check_records(where, partition, log);
  const std::int64_t keep = rules_[where.queue].retention_us;
  for (const auto& [transaction_id, sent] : partition.sent) {
    if (!sent.offset) continue;
    if (*sent.offset >= log.end)
      return story_.violate("nothing answered is lost", "{}/{} {} at offset {}: the log ends at {}",
                            where.queue, where.partition, transaction_id, *sent.offset, log.end);
    if (*sent.offset >= log.log_start) {
      const auto& record = log.records[*sent.offset - log.log_start];
      if (record.transaction_id != transaction_id)
        return story_.violate("nothing answered is lost", "{}/{} {} at offset {}: there is {}", where.queue,
                              where.partition, transaction_id, *sent.offset, record.transaction_id);
      if (record.ts_us > sent.after_us || (sent.before_us && record.ts_us <= *sent.before_us))
        return story_.violate("stamps are log time", "{}/{} {} stamped {} outside ({}, {}]", where.queue,
                              where.partition, transaction_id, record.ts_us, sent.before_us.value_or(0),
                              sent.after_us);
      continue;
    }
    if (keep == 0 || (sent.before_us && *sent.before_us > now_us - keep))
      return story_.violate("retention takes only what is due",
                            "{}/{} {} at offset {}: gone, log starts at {}", where.queue, where.partition,
                            transaction_id, *sent.offset, log.log_start);
  }
}

std::vector<LogRecord> Ledger::gone(const PartitionName& where, std::uint64_t offset) const {
  std::vector<LogRecord> out;
  const auto partition = partitions_.find(where);
  if (partition == partitions_.end()) return out;
  for (const auto& [at, transaction_id] : partition->second.at) {
    if (at >= offset) break;
    const auto stamp = partition->second.stamps.lower_bound(at);
    const bool none = stamp == partition->second.stamps.end();
    out.push_back({at, none ? INT64_MAX : stamp->second, transaction_id, payload_of(transaction_id),
                   !none && stamp->first == at});
  }
  return out;
}

// Partitions that nobody pushed to.
void Ledger::check_strangers(SimNode& node) {
  for (const auto& [queue, rules] : rules_) {
    const std::array<broker::ChangedEntry, 1> ask = {{{queue, std::nullopt, "", 1000}}};
    const auto answer = node.broker().changed(std::string(kDefaultTenant), ask);
    const auto& entry = answer.entries.at(0);
    if (!entry.error.empty()) {
      if (rules.exists) story_.violate("queues stay", "{}: {}", queue, entry.error);
      continue;
    }
    for (const auto& partition : entry.partitions)
      if (!partitions_.contains({queue, partition.name}))
        story_.violate("nothing that nobody sent", "partition {}/{}", queue, partition.name);
  }
}

}  // namespace queen::sim

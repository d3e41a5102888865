#include "broker/reads.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>

#include "base/invariant.h"
#include "broker/placement.h"
#include "machine/apply.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

using store::Keyspace;

constexpr std::uint32_t kFetchRecordsMax = 10'000;
constexpr std::size_t kRowsPerGate = 1024;  // rows looked at before apply gets a turn

template <class Row>
Row decode(const Bytes& bytes) {
  auto row = Row::decode(bytes);
  INVARIANT(row.has_value(), "a row in RAM does not decode: {}", row.error().what);
  return std::move(*row);
}

}  // namespace

// Individually compressed payloads are inflated into a buffer of their own, sealed ones opened.
void Reads::append_messages(Messages& to, qlog::ReadBatch batch) const {
  const std::size_t first = to.messages.size();
  to.messages.reserve(to.messages.size() + batch.messages.size());
  for (const auto& read : batch.messages) {
    Message message{
        read.offset,         read.created_at,         read.frame.message_id,   read.frame.transaction_id,
        read.frame.trace_id, read.frame.producer_sub, read.frame.null_payload, read.frame.encrypted,
        read.frame.payload,  read.frame.encrypted};
    if (read.frame.payload_zstd) {
      auto raw = qlog::decompress_payload(read.frame.payload);
      if (raw) {
        to.buffers.push_back(std::make_shared<const Bytes>(std::move(*raw)));
        message.payload = *to.buffers.back();
      }
    }
    to.messages.push_back(message);
  }
  to.buffers.insert(to.buffers.end(), batch.buffers.begin(), batch.buffers.end());
  opener_.open(to, first);
}

Messages Reads::range(Pid pid, std::uint64_t queue_id, std::uint64_t first, std::uint64_t last) {
  Messages out;
  const LogId log = logs_.layout().of_partition(LogId{queue_id}, pid);
  std::uint64_t next = first;
  while (next <= last) {
    const auto left = static_cast<std::uint32_t>(std::min<std::uint64_t>(last - next + 1, kFetchRecordsMax));
    auto batch = logs_.read(log, pid, next, {last + 1, left, UINT64_MAX});
    if (!batch || batch->messages.empty() || batch->messages.front().offset != next) break;
    next = batch->messages.back().offset + 1;
    append_messages(out, std::move(*batch));
  }
  return out;
}

Result<std::optional<Uuid>> Reads::id_of(Pid pid, std::uint64_t queue_id, std::uint64_t offset) {
  const LogId log = logs_.layout().of_partition(LogId{queue_id}, pid);
  const auto batch = logs_.read(log, pid, offset, {offset + 1, 1, UINT64_MAX});
  if (batch && !batch->messages.empty()) return std::optional(batch->messages.front().frame.message_id);
  if (batch) return std::optional<Uuid>();
  // Reclaim may be at what retention took, and damage there is nobody's loss (CR-5).
  const auto gate = store_.read_gate();
  const auto row = store_.get(Keyspace::partitions, store::partition_key(pid));
  if (row && decode<store::PartitionRow>(*row).log_start <= static_cast<std::int64_t>(offset))
    return batch.error();
  return std::optional<Uuid>();
}

Messages Reads::some(Pid pid, std::uint64_t queue_id, std::uint64_t first, std::uint64_t last) {
  constexpr std::uint32_t kMessagesMax = 512;
  constexpr std::uint64_t kBytesMax = 8ULL << 20;
  Messages out;
  const LogId log = logs_.layout().of_partition(LogId{queue_id}, pid);
  auto batch = logs_.read(log, pid, first, {last + 1, kMessagesMax, kBytesMax});
  if (batch) append_messages(out, std::move(*batch));
  return out;
}

// With a read gate held. Visits the hashes of a span in offset order until `visit` gives false: what has no
// rows from `cold`, the rest from the rows.
void Reads::each_hash(Pid pid, Span span, const machine::ColdFacts& cold,
                      const std::function<bool(std::int64_t, const Hash128&)>& visit) const {
  const auto visit_append = [&](std::int64_t base, BytesView hashes) {
    for (std::size_t at = 0; at + 16 <= hashes.size(); at += 16) {
      const std::int64_t offset = base + static_cast<std::int64_t>(at / 16);
      if (offset > span.to) return false;
      if (offset < span.from) continue;
      Hash128 hash;
      std::copy_n(hashes.data() + at, 16, reinterpret_cast<char*>(hash.canonical.data()));
      if (!visit(offset, hash)) return false;
    }
    return true;
  };
  std::int64_t next = span.from;
  for (auto at = cold.at(pid, next); at != cold.appends.end() && at->first.pid == pid; ++at) {
    if (!visit_append(at->first.base, at->second.hashes)) return;
    next = at->second.end + 1;
  }
  const auto prefix = store::txns_prefix(pid);
  const auto start = store_.last_at_or_below(Keyspace::txns, prefix, store::txns_key(pid, next));
  store_.scan(Keyspace::txns, prefix, start ? start->key : prefix, [&](BytesView key, BytesView value) {
    const auto row = store::AppendRowView::decode(value);
    const auto at = store::parse_txns_key(key);
    INVARIANT(row.has_value() && at.has_value(), "an append row does not decode");
    return at->base_offset <= span.to && visit_append(at->base_offset, row->hashes);
  });
}

// With a read gate held. As the planner resolves them: the k-th naming of a hash is its k-th message of the
// span, and a naming too many means the last one.
std::vector<std::optional<std::uint64_t>> Reads::offsets_of(Pid pid, Span span,
                                                            const machine::ColdFacts& cold,
                                                            const std::vector<Hash128>& hashes) const {
  struct Wanted {
    std::vector<std::size_t> positions;
    std::size_t next = 0;
  };
  std::vector<std::optional<std::uint64_t>> out(hashes.size());
  std::map<Hash128, Wanted> wanted;
  for (std::size_t i = 0; i < hashes.size(); ++i) wanted[hashes[i]].positions.push_back(i);
  std::size_t left = hashes.size();
  each_hash(pid, span, cold, [&](std::int64_t offset, const Hash128& hash) {
    const auto found = wanted.find(hash);
    if (found == wanted.end() || found->second.next == found->second.positions.size()) return true;
    out[found->second.positions[found->second.next++]] = static_cast<std::uint64_t>(offset);
    return --left > 0;
  });
  for (const auto& [hash, named] : wanted) {
    for (std::size_t i = named.next; i > 0 && i < named.positions.size(); ++i)
      out[named.positions[i]] = out[named.positions[i - 1]];
  }
  return out;
}

// With a read gate held.
Reads::Span Reads::named_span(const std::string& tenant, const store::PartitionRow& partition,
                              const std::string& group, Named& named) const {
  // Without a lease nothing is filed; one may be on its way, so a little is looked at all the same.
  constexpr std::int64_t kLookMessages = 65'536;
  const auto bytes = store_.get(Keyspace::cursors, store::cursor_key(named.pid, group));
  if (!bytes) return {0, kLookMessages};
  const auto cursor = decode<store::CursorRow>(*bytes);
  const auto queue = store_.get(Keyspace::queues, store::queue_key(tenant, partition.queue));
  // One less than the limit: an ack on its way may still count.
  named.budget_left =
      queue && std::int64_t{cursor.batch_retry_count} + 1 < decode<store::QueueRow>(*queue).retry_limit;
  Span span{cursor.committed + 1, 0};
  span.to = cursor.batch_end.value_or(span.from + kLookMessages);
  if (cursor.lease_conflated && cursor.batch_end) span.from = *cursor.batch_end;
  return span;
}

Result<std::optional<Reads::Named>> Reads::named(const std::string& tenant, Pid pid, const std::string& group,
                                                 const std::vector<Hash128>& hashes) {
  Named out;
  out.pid = pid;
  while (true) {
    machine::ColdAsk ask;
    {
      const auto gate = store_.read_gate();
      const auto bytes = store_.get(Keyspace::partitions, store::partition_key(pid));
      if (!bytes) return std::optional<Named>();
      const auto partition = decode<store::PartitionRow>(*bytes);
      if (partition.tenant != tenant) return std::optional<Named>();
      out.queue_id = qlog::Layout::queue_id(tenant, partition.queue).value;
      const Span span = named_span(tenant, partition, group, out);
      ask.pid = pid;
      ask.queue_id = out.queue_id;
      ask.from = std::max(span.from, partition.txns_start);
      ask.to = std::min(span.to, partition.rows_start - 1);
      if (out.cold.covers(pid, ask.from, ask.to)) {
        out.offsets = offsets_of(pid, span, out.cold, hashes);
        return std::optional<Named>(std::move(out));
      }
    }
    // Read without the gate; rows may go meanwhile, so it is looked at once more.
    out.cold = {};
    if (Status status = cold_.read({&ask, 1}, out.cold); !status) return status.error();
  }
}

bool Reads::queue_exists(const std::string& tenant, const std::string& queue) const {
  return store_.get(Keyspace::queues, store::queue_key(tenant, queue)).has_value();
}

// With a read gate held.
std::optional<Reads::Place> Reads::place(const std::string& tenant, const std::string& queue,
                                         const std::string& partition) const {
  const auto pid_row =
      store_.get(Keyspace::partitions_by_key, store::partition_by_key(tenant, queue, partition));
  if (!pid_row) return std::nullopt;
  const auto pid = store::decode_pid_row(*pid_row);
  INVARIANT(pid.has_value(), "a pid row does not decode");
  const auto bytes = store_.get(Keyspace::partitions, store::partition_key(*pid));
  if (!bytes) return std::nullopt;
  const auto row = decode<store::PartitionRow>(*bytes);
  return Place{*pid, qlog::Layout::queue_id(tenant, queue).value, static_cast<std::uint64_t>(row.log_start),
               static_cast<std::uint64_t>(row.last_offset + 1)};
}

Answer<void> Reads::fetch_one(const FetchEntry& entry, const std::optional<Place>& at,
                              FetchEntryAnswer& answer) {
  if (at) {
    answer.high_watermark = at->end;
    answer.log_start = at->log_start;
  }
  if (entry.offset < answer.log_start || entry.offset > answer.high_watermark) {
    answer.error = "OFFSET_OUT_OF_RANGE";
    return {};
  }
  if (entry.offset == answer.high_watermark) return {};
  const LogId log = logs_.layout().of_partition(LogId{at->queue_id}, at->pid);
  auto batch = logs_.read(log, at->pid, entry.offset, {at->end, kFetchRecordsMax, entry.bytes_max});
  if (!batch) return tl::unexpected(Refusal{"internal", batch.error().what});
  append_messages(answer.messages, std::move(*batch));
  return {};
}

Answer<std::vector<FetchEntryAnswer>> Reads::fetch(const std::string& tenant,
                                                   std::span<const FetchEntry> entries) {
  std::vector<FetchEntryAnswer> out(entries.size());
  std::vector<std::optional<Place>> places(entries.size());
  {
    // The ends of all entries at one instant: a transaction is seen in all of its partitions or in none.
    const auto gate = store_.read_gate();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (queue_exists(tenant, entries[i].queue)) {
        places[i] = place(tenant, entries[i].queue, entries[i].partition);
      } else {
        out[i].error = "UNKNOWN_TOPIC_OR_PARTITION";
      }
    }
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!out[i].error.empty()) continue;
    if (auto read = fetch_one(entries[i], places[i], out[i]); !read) return tl::unexpected(read.error());
  }
  return out;
}

// The log's index knows the stamps of all that is retained, also of what has no rows any more.
Answer<OffsetEntryAnswer> Reads::offset_of(const std::string& tenant, const OffsetEntry& entry) {
  OffsetEntryAnswer out;
  std::optional<Place> at;
  {
    const auto gate = store_.read_gate();
    if (!queue_exists(tenant, entry.queue)) {
      out.error = "UNKNOWN_TOPIC_OR_PARTITION";
      return out;
    }
    at = place(tenant, entry.queue, entry.partition);
  }
  if (!at) return out;
  out.high_watermark = at->end;
  out.log_start = at->log_start;
  if (at->log_start >= at->end) return out;
  const LogId log = logs_.layout().of_partition(LogId{at->queue_id}, at->pid);
  const auto found = logs_.first_stamped_at_or_after(log, at->pid, at->log_start, at->end, entry.since_us);
  if (!found) return tl::unexpected(Refusal{"internal", found.error().what});
  if (*found >= at->end) return out;
  const auto append = logs_.locate(log, at->pid, *found, 1);
  if (!append) return tl::unexpected(Refusal{"internal", append.error().what});
  if (append->empty()) return out;  // removed meanwhile
  out.offset = *found;
  out.ts_us = append->front().created_at;
  return out;
}

Answer<std::vector<OffsetEntryAnswer>> Reads::offsets(const std::string& tenant,
                                                      std::span<const OffsetEntry> entries) {
  std::vector<OffsetEntryAnswer> out;
  out.reserve(entries.size());
  for (const OffsetEntry& entry : entries) {
    auto answer = offset_of(tenant, entry);
    if (!answer) return tl::unexpected(answer.error());
    out.push_back(std::move(*answer));
  }
  return out;
}

ChangedEntryAnswer Reads::changed_one(const std::string& tenant, const ChangedEntry& entry) {
  ChangedEntryAnswer out;
  {
    const auto gate = store_.read_gate();
    if (!queue_exists(tenant, entry.queue)) {
      out.error = "UNKNOWN_TOPIC_OR_PARTITION";
      return out;
    }
  }
  std::uint64_t after = 0;  // pids start at 1
  if (!entry.after.empty()) {
    const std::string_view digits = std::string_view(entry.after).substr(1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), after);
    if (entry.after[0] != 'p' || error != std::errc{} || end != digits.data() + digits.size() || after == 0) {
      out.error = "BAD_CURSOR";
      return out;
    }
  }
  const auto prefix = store::queue_partitions_prefix(tenant, entry.queue);
  bool more = true;
  while (more && out.partitions.size() < entry.limit) {
    std::size_t looked_at = 0;
    more = false;
    const auto gate = store_.read_gate();
    const auto from = store::queue_partition_key(tenant, entry.queue, Pid{after + 1});
    store_.scan(Keyspace::queue_partitions, prefix, from, [&](BytesView key, BytesView) {
      if (looked_at++ >= kRowsPerGate || out.partitions.size() >= entry.limit) {
        more = true;
        return false;
      }
      const auto pid = store::parse_queue_partition_key(key);
      INVARIANT(pid.has_value(), "a queue_partitions key does not parse");
      after = pid->value;
      const auto bytes = store_.get(Keyspace::partitions, store::partition_key(*pid));
      if (!bytes) return true;
      const auto row = decode<store::PartitionRow>(*bytes);
      if (entry.since_us && row.last_write_at < *entry.since_us) return true;
      out.partitions.push_back({row.partition, row.uuid, row.last_offset,
                                static_cast<std::uint64_t>(row.log_start), row.last_write_at});
      return true;
    });
  }
  if (out.partitions.size() == entry.limit) out.next = "p" + std::to_string(after);
  return out;
}

ChangedAnswer Reads::changed(const std::string& tenant, std::span<const ChangedEntry> entries) {
  ChangedAnswer out;
  {
    // Before the partitions: whatever is applied while they are read is stamped above it.
    const auto gate = store_.read_gate();
    out.safe_time_us = machine::safe_time_us(store_);
  }
  for (const ChangedEntry& entry : entries) out.entries.push_back(changed_one(tenant, entry));
  return out;
}

}  // namespace queen::broker

// One message by its partition and transactionId.
#include <algorithm>

#include "broker/message_reads.h"
#include "broker/partition_lookup.h"
#include "broker/store_steps.h"

namespace queen::broker {
namespace {

using store::Keyspace;

constexpr std::size_t kAppendRowsPerStep = 256;
constexpr std::size_t kPlacesPerLookUp = 64;

std::optional<std::size_t> find_hash(BytesView hashes, const Hash128& hash) {
  for (std::size_t at = 0; at + 16 <= hashes.size(); at += 16)
    if (hashes.substr(at, 16) == hash.view()) return at / 16;
  return std::nullopt;
}

}  // namespace

std::optional<MessageReads::Partition> MessageReads::partition_named(const std::string& tenant,
                                                                     std::string_view text) const {
  const auto pid = find_partition(store_, tenant, text);
  return pid ? partition_of(tenant, *pid) : std::nullopt;
}

std::optional<std::int64_t> MessageReads::offset_in_rows(const Partition& partition,
                                                         const Hash128& hash) const {
  std::optional<std::int64_t> found;
  RowWalk walk(store_, Keyspace::txns, store::txns_prefix(partition.pid), kAppendRowsPerStep);
  // Rows below the log's start say what was sent and is no message any more.
  walk.start_at(store::txns_key(partition.pid, partition.row.log_start));
  bool more = true;
  while (more) {
    more = walk.step([&](BytesView key, BytesView value) {
      const auto at = store::parse_txns_key(key);
      const auto row = store::AppendRowView::decode(value);
      INVARIANT(at.has_value() && row.has_value(), "an append row does not decode");
      if (const auto number = find_hash(row->hashes, hash))
        found = at->base_offset + static_cast<std::int64_t>(*number);
      return !found;
    });
  }
  return found;
}

Answer<std::optional<std::int64_t>> MessageReads::offset_of(const Partition& partition, const Hash128& hash,
                                                            std::int64_t deadline_mono_us) {
  if (const auto found = offset_in_rows(partition, hash)) return found;
  // Rows may have left RAM since the partition was read.
  const auto now = partition_of(partition.row.tenant, partition.pid);
  if (!now) return std::optional<std::int64_t>();
  const LogId log = logs_.layout().of_partition(LogId{partition.queue_id}, partition.pid);
  std::int64_t next = now->row.log_start;
  while (next < now->row.rows_start) {
    if (clock_.mono_us() >= deadline_mono_us)
      return tl::unexpected(Refusal{"timeout", "the partition's log is too long to be searched in time"});
    const auto places = logs_.locate(log, partition.pid, static_cast<std::uint64_t>(next), kPlacesPerLookUp);
    if (!places) return tl::unexpected(Refusal{"internal", places.error().what});
    if (places->empty()) break;
    for (const qlog::AppendPlace& place : *places) {
      const auto read = logs_.hashes_at(log, partition.pid, place.base_offset);
      if (!read && read.error().code != Errc::corrupt)
        return tl::unexpected(Refusal{"internal", read.error().what});
      // A damaged record hides its own messages only.
      if (!read || !*read) continue;
      if (const auto number = find_hash((*read)->hashes, hash))
        return std::optional(static_cast<std::int64_t>(place.base_offset + *number));
    }
    next = static_cast<std::int64_t>(places->back().end);
  }
  return std::optional<std::int64_t>();
}

void MessageReads::add_failures(const std::string& tenant, const Partition& partition,
                                const MessageStatuses& statuses, MessageDetail& out) const {
  const auto offset = static_cast<std::int64_t>(out.message.offset);
  for (const CursorState& cursor : statuses.cursors()) {
    const bool at_cursor =
        offset > cursor.committed && offset <= std::max(cursor.leased_to, cursor.committed + 1);
    if (at_cursor) out.retry_count = std::max(out.retry_count, cursor.retries);
  }
  if (!statuses.is_dead(offset)) return;
  std::int64_t latest = -1;
  each_row(store_, Keyspace::dlq_by_pos, store::dlq_by_pos_prefix(partition.pid),
           [&](BytesView key, BytesView value) {
             const auto place = store::parse_dlq_by_pos_key(key);
             if (!place || place->offset != offset) return true;
             const auto ids = store::decode_uuids_row(value);
             INVARIANT(ids.has_value(), "a dlq_by_pos row does not decode");
             for (const Uuid& id : *ids) {
               const auto bytes = store_.get(Keyspace::dlq, store::dlq_key(tenant, partition.row.queue, id));
               if (!bytes) continue;
               auto letter = decode_row<store::DeadLetterRow>(*bytes);
               if (letter.failed_at <= latest) continue;
               latest = letter.failed_at;
               out.error = std::move(letter.error);
               out.retry_count = letter.retry_count;
             }
             return true;
           });
}

Answer<std::optional<MessageDetail>> MessageReads::message(const std::string& tenant,
                                                           std::string_view partition_text,
                                                           std::string_view transaction_id,
                                                           std::int64_t deadline_mono_us) {
  const std::optional<MessageDetail> none;
  const auto partition = partition_named(tenant, partition_text);
  if (!partition) return none;
  const auto offset = offset_of(*partition, xxh3_128(transaction_id), deadline_mono_us);
  if (!offset) return tl::unexpected(offset.error());
  if (!*offset) return none;
  MessageQuery query;
  query.queue = partition->row.queue;
  const Queues queues = queues_of(tenant, query);
  if (queues.empty()) return none;
  const auto spans = appends_.down_from(partition->pid, partition->queue_id, **offset, **offset, 1);
  if (!spans) return tl::unexpected(Refusal{"internal", spans.error().what});
  if (spans->empty()) return none;
  const auto number = static_cast<std::uint32_t>(**offset - spans->front().base);
  const Place place{spans->front().created_at, **offset, partition->pid, number, MessageStatus::pending};
  const MessageStatuses statuses(store_, clock_, partition->pid, **offset, **offset);

  MessageDetail out;
  out.message = view_of(*partition, queues.begin()->second, place, statuses);
  std::uint64_t payload_left = UINT64_MAX;
  read_into(*partition, {&out.message}, payload_left);
  if (!out.message.id)
    return tl::unexpected(Refusal{"internal", "the message cannot be read: its record is damaged"});
  Readers readers;
  add_registered(tenant, partition->row.queue, readers);
  for (const CursorState& cursor : statuses.cursors()) {
    readers.add(cursor.group);
    out.groups.push_back(
        {cursor.group, cursor.committed, cursor.committed >= **offset, cursor.lease_expires});
  }
  out.mode = readers.mode();
  add_failures(tenant, *partition, statuses, out);
  return std::optional(std::move(out));
}

}  // namespace queen::broker

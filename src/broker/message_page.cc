// Messages as they are shown: bodies from the log, status from the cursors.
#include <algorithm>

#include "broker/message_reads.h"
#include "broker/store_steps.h"

namespace queen::broker {

using store::Keyspace;

std::optional<MessageReads::Partition> MessageReads::partition_of(const std::string& tenant, Pid pid) const {
  const auto gate = store_.read_gate();
  const auto bytes = store_.get(Keyspace::partitions, store::partition_key(pid));
  if (!bytes) return std::nullopt;
  auto row = decode_row<store::PartitionRow>(*bytes);
  if (row.tenant != tenant) return std::nullopt;
  const std::uint64_t queue_id = qlog::Layout::queue_id(tenant, row.queue).value;
  return Partition{pid, queue_id, std::move(row)};
}

MessageView MessageReads::view_of(const Partition& partition, std::shared_ptr<const QueueFacts> queue,
                                  const Place& place, const MessageStatuses& statuses) const {
  MessageView out;
  out.queue = std::move(queue);
  out.partition = partition.row.partition;
  out.partition_id = partition.row.uuid;
  out.offset = static_cast<std::uint64_t>(place.offset);
  out.append_base = out.offset - place.in_append;
  out.created_at = place.stamp;
  out.status = statuses.of(place.offset);
  out.queue_status = statuses.in_queue_mode(place.offset);
  for (const CursorState& cursor : statuses.cursors()) {
    if (cursor.queue_mode()) continue;
    ++out.groups;
    out.consumed_by += cursor.committed >= place.offset ? 1 : 0;
  }
  return out;
}

// A message that does not come stays without an id.
void MessageReads::read_into(const Partition& partition, const std::vector<MessageView*>& ascending,
                             std::uint64_t& payload_left) {
  std::size_t next = 0;
  while (next < ascending.size()) {
    std::size_t end = next + 1;
    while (end < ascending.size() && ascending[end]->offset == ascending[end - 1]->offset + 1) ++end;
    const auto read =
        reads_.some(partition.pid, partition.queue_id, ascending[next]->offset, ascending[end - 1]->offset);
    // The first one cannot be read: on behind it.
    if (read.messages.empty()) ++next;
    for (const Message& message : read.messages) {
      while (next < end && ascending[next]->offset < message.offset) ++next;
      if (next == end) break;
      MessageView& view = *ascending[next++];
      view.id = message.id;
      view.transaction_id = message.transaction_id;
      view.trace_id = message.trace_id;
      if (message.producer_sub) view.producer_sub = std::string(*message.producer_sub);
      view.encrypted = message.sealed;
      view.null_payload = message.null_payload;
      view.payload_available = message.payload.size() <= payload_left;
      if (!view.payload_available) continue;
      payload_left -= message.payload.size();
      view.payload = message.payload;
    }
  }
}

void MessageReads::fill_page(const std::string& tenant, const Queues& queues, const MessageQuery& query,
                             const std::vector<Place>& places, Readers& readers,
                             std::vector<MessageView>& page) {
  page.resize(places.size());
  std::map<std::uint64_t, std::vector<std::size_t>> by_partition;  // newest first
  for (std::size_t i = 0; i < places.size(); ++i) by_partition[places[i].pid.value].push_back(i);
  std::uint64_t payload_left = Resources::kBrowsePayloadBytesMax;
  for (auto& [number, newest_first] : by_partition) {
    const auto partition = partition_of(tenant, Pid{number});
    const auto queue = partition ? queues.find(partition->row.queue) : queues.end();
    if (queue == queues.end()) continue;
    const std::int64_t first = places[newest_first.back()].offset;
    const MessageStatuses statuses(store_, clock_, partition->pid, first,
                                   places[newest_first.front()].offset);
    for (const CursorState& cursor : statuses.cursors()) readers.add(cursor.group);
    std::vector<MessageView*> ascending;
    for (auto at = newest_first.rbegin(); at != newest_first.rend(); ++at) {
      page[*at] = view_of(*partition, queue->second, places[*at], statuses);
      // As it was when it was chosen by it.
      if (query.status) page[*at].status = places[*at].status;
      if (page[*at].status == MessageStatus::processing) page[*at].lease_expires_at = statuses.leased_until();
      ascending.push_back(&page[*at]);
    }
    read_into(*partition, ascending, payload_left);
    // Deleted while the page was made: then it is no message any more. One that is damaged is shown.
    const auto later = partition_of(tenant, partition->pid);
    for (MessageView* view : ascending) {
      const bool there = later && static_cast<std::int64_t>(view->offset) >= later->row.log_start;
      if (!there && !view->id) view->queue = nullptr;
    }
  }
  std::erase_if(page, [](const MessageView& view) { return view.queue == nullptr; });
}

}  // namespace queen::broker

// Browsing: which messages a page shows is found from the append rows and the logs' index; bodies are read
// for the page alone.
#include <algorithm>

#include "broker/message_reads.h"
#include "broker/store_steps.h"

namespace queen::broker {
namespace {

using store::Keyspace;

constexpr std::size_t kAppendsPerStep = 32;

bool label_is(const std::optional<std::string>& label, const std::optional<std::string>& wanted) {
  return !wanted || (label && *label == *wanted);
}

}  // namespace

bool MessageReads::Place::newer_than(const Place& other) const {
  if (stamp != other.stamp) return stamp > other.stamp;
  if (offset != other.offset) return offset > other.offset;
  return pid > other.pid;
}

class MessageReads::Newest {
 public:
  explicit Newest(std::size_t most) : most_(most) {}
  // False when it is older than all of as many places as are needed.
  bool add(const Place& place) {
    if (heap_.size() == most_) {
      if (!place.newer_than(heap_.front())) return false;
      std::pop_heap(heap_.begin(), heap_.end(), newer);
      heap_.pop_back();
    }
    heap_.push_back(place);
    std::push_heap(heap_.begin(), heap_.end(), newer);
    return true;
  }
  // Whether a message stamped so late may still be needed.
  bool wants(std::int64_t stamp) const { return heap_.size() < most_ || stamp >= heap_.front().stamp; }
  // Newest first, without the first `skip`.
  std::vector<Place> page(std::size_t skip) {
    std::sort_heap(heap_.begin(), heap_.end(), newer);
    heap_.erase(heap_.begin(), heap_.begin() + static_cast<std::ptrdiff_t>(std::min(skip, heap_.size())));
    return std::move(heap_);
  }

 private:
  static bool newer(const Place& a, const Place& b) { return a.newer_than(b); }
  const std::size_t most_;
  std::vector<Place> heap_;
};

void MessageReads::Readers::add(std::string group) {
  if (group == machine::kQueueMode)
    queue_mode = true;
  else
    named.insert(std::move(group));
}

MessageReads::Queues MessageReads::queues_of(const std::string& tenant, const MessageQuery& query) const {
  Queues out;
  const auto take = [&](std::string name, BytesView value) {
    auto row = decode_row<store::QueueRow>(value);
    if (!label_is(row.namespace_name, query.namespace_name) || !label_is(row.task, query.task)) return;
    out[name] = std::make_shared<const QueueFacts>(QueueFacts{name, std::move(row)});
  };
  if (query.queue) {
    const auto gate = store_.read_gate();
    if (const auto bytes = store_.get(Keyspace::queues, store::queue_key(tenant, *query.queue)))
      take(*query.queue, *bytes);
    return out;
  }
  each_row(store_, Keyspace::queues, store::queues_prefix(tenant), [&](BytesView key, BytesView value) {
    auto name = store::parse_queue_key(key);
    INVARIANT(name.has_value(), "a queue's key does not parse");
    take(std::move(name->queue), value);
    return true;
  });
  return out;
}

void MessageReads::add_registered(const std::string& tenant, const std::string& queue,
                                  Readers& readers) const {
  each_row(store_, Keyspace::groups, store::groups_prefix(tenant, queue), [&](BytesView key, BytesView) {
    auto name = store::parse_group_key(key);
    INVARIANT(name.has_value(), "a group's key does not parse");
    readers.add(std::move(name->group));
    return true;
  });
}

Status MessageReads::collect_dead(const Partition& partition, const MessageQuery& query,
                                  const MessageStatuses& statuses, Newest& newest) {
  const auto& dead = statuses.dead();
  for (auto offset = dead.rbegin(); offset != dead.rend(); ++offset) {
    const auto spans = appends_.down_from(partition.pid, partition.queue_id, *offset, *offset, 1);
    if (!spans) return spans.error();
    if (spans->empty()) continue;
    const AppendSpan& span = spans->front();
    if (span.created_at < query.from_us) return {};
    const auto number = static_cast<std::uint32_t>(*offset - span.base);
    if (!newest.add({span.created_at, *offset, partition.pid, number, MessageStatus::dead_letter})) return {};
  }
  return {};
}

Status MessageReads::collect_range(const Partition& partition, const MessageQuery& query, Wanted wanted,
                                   const MessageStatuses* statuses, Newest& newest) {
  std::int64_t offset = wanted.last;
  while (offset >= wanted.first) {
    const auto spans =
        appends_.down_from(partition.pid, partition.queue_id, offset, wanted.first, kAppendsPerStep);
    if (!spans) return spans.error();
    if (spans->empty()) return {};
    for (const AppendSpan& span : *spans) {
      if (span.created_at < query.from_us) return {};
      const std::int64_t last = std::min(span.end, wanted.last);
      for (std::int64_t at = last; at >= std::max(span.base, wanted.first); --at) {
        if (statuses != nullptr && statuses->is_dead(at)) continue;
        const Place place{span.created_at, at, partition.pid, static_cast<std::uint32_t>(at - span.base),
                          query.status.value_or(MessageStatus::pending)};
        if (!newest.add(place)) return {};
      }
    }
    offset = spans->back().base - 1;
  }
  return {};
}

Status MessageReads::collect(const Partition& partition, const MessageQuery& query, Newest& newest) {
  const store::PartitionRow& row = partition.row;
  Wanted wanted{row.log_start, row.last_offset};
  if (row.last_created_at >= query.to_us) {
    const auto end = appends_.first_stamped(partition.pid, partition.queue_id, row.log_start,
                                            row.last_offset + 1, query.to_us);
    if (!end) return end.error();
    wanted.last = *end - 1;
  }
  if (!query.status) return collect_range(partition, query, wanted, nullptr, newest);
  const MessageStatuses statuses(store_, clock_, partition.pid, wanted.first, wanted.last);
  const bool leased = statuses.leased_until().has_value();
  switch (*query.status) {
    case MessageStatus::dead_letter:
      return collect_dead(partition, query, statuses, newest);
    case MessageStatus::completed:
      wanted.last = std::min(wanted.last, statuses.completed_to());
      break;
    case MessageStatus::pending:
    case MessageStatus::processing:
      if (leased != (*query.status == MessageStatus::processing)) return {};
      wanted.first = std::max(wanted.first, statuses.completed_to() + 1);
      break;
  }
  return collect_range(partition, query, wanted, &statuses, newest);
}

Status MessageReads::collect_queue(const std::string& tenant, const MessageQuery& query,
                                   const std::string& queue, Newest& newest) {
  const std::uint64_t queue_id = qlog::Layout::queue_id(tenant, queue).value;
  std::vector<Partition> found;
  const auto take = [&](Pid pid, store::PartitionRow row) {
    const bool some = row.log_start <= row.last_offset && row.last_created_at >= query.from_us;
    if (some && newest.wants(row.last_created_at)) found.push_back({pid, queue_id, std::move(row)});
    return true;
  };
  const auto collect_found = [&]() -> Status {
    for (const Partition& partition : found)
      if (Status status = collect(partition, query, newest); !status) return status;
    found.clear();
    return {};
  };
  if (query.partition) {
    {
      const auto gate = store_.read_gate();
      const auto bytes =
          store_.get(Keyspace::partitions_by_key, store::partition_by_key(tenant, queue, *query.partition));
      if (!bytes) return {};
      const auto pid = store::decode_pid_row(*bytes);
      INVARIANT(pid.has_value(), "a pid row does not decode");
      if (const auto row = store_.get(Keyspace::partitions, store::partition_key(*pid)))
        take(*pid, decode_row<store::PartitionRow>(*row));
    }
    return collect_found();
  }
  PartitionWalk walk(store_, tenant, queue);
  bool more = true;
  while (more) {
    more = walk.step(take);
    if (Status status = collect_found(); !status) return status;
  }
  return {};
}

Answer<MessagesView> MessageReads::messages(const std::string& tenant, const MessageQuery& query) {
  MessagesView out;
  Readers readers;
  Newest newest(query.offset + query.limit);
  const Queues queues = queues_of(tenant, query);
  for (const auto& [name, facts] : queues) {
    add_registered(tenant, name, readers);
    if (Status status = collect_queue(tenant, query, name, newest); !status)
      return tl::unexpected(Refusal{"internal", status.error().what});
  }
  fill_page(tenant, queues, query, newest.page(query.offset), readers, out.messages);
  out.mode = readers.mode();
  return out;
}

}  // namespace queen::broker

// Browsing messages, and one message in detail (api-messaging.md 11.1, 11.2).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "broker/append_index.h"
#include "broker/message_status.h"
#include "broker/reads.h"
#include "broker/resources.h"

namespace queen::broker {

// The message part of Resources, with its contract.
class MessageReads {
 public:
  MessageReads(const store::Store& store, qlog::QueueLogs& logs, Clock& clock, Reads& reads)
      : store_(store), logs_(logs), clock_(clock), reads_(reads), appends_(store, logs) {}

  Answer<MessagesView> messages(const std::string& tenant, const MessageQuery& query);
  Answer<std::optional<MessageDetail>> message(const std::string& tenant, std::string_view partition,
                                               std::string_view transaction_id,
                                               std::int64_t deadline_mono_us);

 private:
  // Where a message stands. The newest come first in the order of a page.
  struct Place {
    std::int64_t stamp = 0, offset = 0;
    Pid pid;
    std::uint32_t in_append = 0;  // its number in its push
    MessageStatus status = MessageStatus::pending;
    bool newer_than(const Place& other) const;
  };
  // The places that a page needs, in a heap whose front is the oldest of them.
  class Newest;
  struct Partition {
    Pid pid;
    std::uint64_t queue_id = 0;
    store::PartitionRow row;
  };
  struct Wanted {
    std::int64_t first = 0, last = 0;  // offsets, both inclusive
  };
  using Queues = std::map<std::string, std::shared_ptr<const QueueFacts>>;

  // Who reads the queues that were asked for.
  struct Readers {
    std::set<std::string> named;
    bool queue_mode = false;
    void add(std::string group);
    ModeView mode() const { return {queue_mode, named.size()}; }
  };

  Queues queues_of(const std::string& tenant, const MessageQuery& query) const;
  void add_registered(const std::string& tenant, const std::string& queue, Readers& readers) const;
  Status collect_queue(const std::string& tenant, const MessageQuery& query, const std::string& queue,
                       Newest& newest);
  Status collect(const Partition& partition, const MessageQuery& query, Newest& newest);
  Status collect_range(const Partition& partition, const MessageQuery& query, Wanted wanted,
                       const MessageStatuses* statuses, Newest& newest);
  Status collect_dead(const Partition& partition, const MessageQuery& query, const MessageStatuses& statuses,
                      Newest& newest);
  void fill_page(const std::string& tenant, const Queues& queues, const MessageQuery& query,
                 const std::vector<Place>& places, Readers& readers, std::vector<MessageView>& page);
  std::optional<Partition> partition_of(const std::string& tenant, Pid pid) const;
  MessageView view_of(const Partition& partition, std::shared_ptr<const QueueFacts> queue, const Place& place,
                      const MessageStatuses& statuses) const;
  void read_into(const Partition& partition, const std::vector<MessageView*>& ascending,
                 std::uint64_t& payload_left);

  std::optional<Partition> partition_named(const std::string& tenant, std::string_view text) const;
  Answer<std::optional<std::int64_t>> offset_of(const Partition& partition, const Hash128& hash,
                                                std::int64_t deadline_mono_us);
  std::optional<std::int64_t> offset_in_rows(const Partition& partition, const Hash128& hash) const;
  void add_failures(const std::string& tenant, const Partition& partition, const MessageStatuses& statuses,
                    MessageDetail& out) const;

  const store::Store& store_;
  qlog::QueueLogs& logs_;
  Clock& clock_;
  Reads& reads_;
  AppendIndex appends_;
};

}  // namespace queen::broker

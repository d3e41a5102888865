// What the management routes show of queues, partitions and messages (api-messaging.md 10.3, 11.1, 11.2):
// reads of this node's applied state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/broker.h"
#include "store/rows.h"

namespace queen::broker {

// Messages of one partition, or the sum over several.
struct Figures {
  std::int64_t total = 0;  // retained
  // Of them, what is ahead of the cursor of the slowest named group, else of queue mode's; without cursors
  // all.
  std::int64_t unconsumed = 0;
  std::int64_t processing = 0;  // inside live leases, at most `unconsumed`; each group's lease counts
  std::int64_t dead_letter = 0;
  std::int64_t retained_bytes = 0;

  std::int64_t waiting() const { return unconsumed - processing; }
  std::int64_t completed() const { return std::max<std::int64_t>(0, total - unconsumed - dead_letter); }
  Figures& operator+=(const Figures& other);
};

struct PartitionView {
  std::string name;
  Uuid id;
  std::int64_t created_at = 0;
  Figures figures;
  std::int64_t consumed = 0;  // by all cursors together
  std::int64_t last_write_at = 0;
  // Stamps of the first and last retained message.
  std::optional<std::int64_t> oldest_at, newest_at;
};
struct QueueView {
  store::QueueRow row;
  std::vector<PartitionView> partitions;  // by name; the first `partitions_max` in creation order
  bool truncated = false;
  std::uint64_t segments = 0;
  Figures totals;  // of the whole queue
};

// Work of a group, or of the group that is furthest behind in each partition.
struct DepthView {
  struct Partition {
    std::string name;
    std::int64_t pending = 0, processing = 0;  // processing is a part of pending
    std::int64_t ready() const { return pending - processing; }
  };
  std::vector<Partition> partitions;  // in creation order
  bool conflation = false;            // the named group's; without a name false
};

struct SizesView {
  std::vector<std::pair<std::string, std::int64_t>> partitions;  // in creation order
  bool truncated = false;
};

struct BusyPartition {
  std::string queue, name;
  Uuid id;
  std::int64_t pending = 0, processing = 0;
  std::optional<std::int64_t> oldest_unconsumed_at;  // nothing: caught up
};
struct BusyView {
  std::vector<BusyPartition> partitions;  // most pending first
  bool truncated = false;                 // not every partition was looked at
  std::int64_t now_us = 0;
};

struct OverviewView {
  std::uint64_t queues = 0, partitions = 0, namespaces = 0, tasks = 0;
  Figures totals;
  // Over the partitions with unconsumed messages; all 0 when there is none.
  struct Lag {
    std::int64_t sum = 0, most = 0;
  };
  std::uint64_t lagging = 0;
  Lag time_us;  // age of the first unconsumed message
  Lag offsets;
  std::int64_t now_us = 0;
};

// Queues by name and labels; nothing = any. A queue without a label has the empty one.
struct QueueFilter {
  std::optional<std::string> queue, namespace_name, task;
  bool matches(std::string_view name, const store::QueueRow& row) const;
};
struct QueueStanding {
  std::string name;
  store::QueueRow row;
  std::uint64_t partitions = 0;
  Figures figures;
  std::int64_t consumed = 0;  // by all cursors together
  std::uint64_t leases = 0, leased_partitions = 0;
  std::int64_t leased_messages = 0;
};
struct StandingView {
  std::vector<QueueStanding> queues;  // by name
  // Error texts of dead letters with how often, most often first: of the first kDeadLettersMax letters, and
  // of the first kErrorsMax texts.
  static constexpr std::uint64_t kDeadLettersMax = 100'000;
  static constexpr std::size_t kErrorsMax = 1'000;
  std::vector<std::pair<std::string, std::uint64_t>> errors;
  std::uint64_t dead_letters_seen = 0, dead_partitions = 0;
};

enum class MessageStatus : std::uint8_t { pending, processing, completed, dead_letter };

struct MessageQuery {
  std::optional<std::string> queue, partition, namespace_name, task;
  std::optional<MessageStatus> status;
  std::int64_t from_us = 0, to_us = 0;  // stamps, `to_us` exclusive
  std::uint64_t limit = 200, offset = 0;
};

// A queue as its messages show it.
struct QueueFacts {
  std::string name;
  store::QueueRow row;
};
struct MessageView {
  std::shared_ptr<const QueueFacts> queue;  // one for all messages of a queue
  std::string partition;
  Uuid partition_id;
  std::uint64_t offset = 0;
  std::uint64_t append_base = 0;  // first offset of the push it came with
  std::int64_t created_at = 0;
  // Nothing when the log cannot give the message (damage).
  std::optional<Uuid> id;
  std::string transaction_id;
  std::optional<Uuid> trace_id;
  std::optional<std::string> producer_sub;
  bool encrypted = false;  // stored so (EN-11)
  bool null_payload = false;
  bool payload_available = false;
  std::string payload;  // JSON text as the producer wrote it

  // M-1.
  MessageStatus status = MessageStatus::pending;
  std::optional<MessageStatus> queue_status;  // in queue mode alone; nothing where it does not read
  std::uint32_t consumed_by = 0, groups = 0;  // named groups that have passed it, and that read the partition
  std::optional<std::int64_t> lease_expires_at;  // while processing
};
struct ModeView {
  bool queue_mode = false;
  std::uint64_t groups = 0;
};
struct MessagesView {
  std::vector<MessageView> messages;  // newest first by (stamp, offset)
  ModeView mode;                      // of the queues that were asked for
};

struct MessageDetail {
  MessageView message;
  std::optional<std::string> error;  // of its latest dead letter
  std::uint32_t retry_count = 0;
  struct Group {
    std::string name;
    std::int64_t committed = -1;
    bool consumed = false;
    std::optional<std::int64_t> lease_expires_at;  // of a live lease
  };
  std::vector<Group> groups;
  ModeView mode;
};

// Thread-safe. Calls block on the disk and may walk every partition of a tenant: they belong on
// Broker::look(). The store is held for at most a few hundred partitions at a time, and never across I/O, so
// the figures of one answer are of moments close to each other, not of one. An answer without value: there is
// no such queue or message. Errors: internal (the logs' index cannot be read).
class Resources {
 public:
  virtual ~Resources() = default;
  virtual std::optional<QueueView> queue(const std::string& tenant, const std::string& queue,
                                         std::size_t partitions_max) = 0;
  // Messages that `group` has not finished. Where a registered group has no cursor yet, from where it will
  // start. Without `group`: in each partition those of the named group that is furthest behind, one without
  // cursor being at the start; else of queue mode; else all.
  virtual Answer<std::optional<DepthView>> depth(const std::string& tenant, const std::string& queue,
                                                 const std::optional<std::string>& group) = 0;
  virtual std::optional<SizesView> sizes(const std::string& tenant, const std::string& queue,
                                         std::size_t partitions_max) = 0;
  // The `limit` partitions with most unconsumed messages, of the first `partitions_max`.
  virtual Answer<std::optional<BusyView>> busiest(const std::string& tenant,
                                                  const std::optional<std::string>& queue, std::size_t limit,
                                                  std::size_t partitions_max) = 0;
  virtual Answer<OverviewView> overview(const std::string& tenant) = 0;
  // Of the queues that `filter` takes.
  virtual StandingView standing(const std::string& tenant, const QueueFilter& filter) = 0;

  // Keeps at most offset + limit places (32 bytes each) and kBrowsePayloadBytesMax of payloads; a
  // payload that does not fit is not `payload_available`.
  virtual Answer<MessagesView> messages(const std::string& tenant, const MessageQuery& query) = 0;
  static constexpr std::uint64_t kBrowseOffsetMax = 1'000'000;
  static constexpr std::uint64_t kBrowsePayloadBytesMax = 32ULL << 20;

  // The first message with `transaction_id` that has its row in RAM, else the first one the log retains.
  // `partition`: its number or its UUID. Errors: timeout (the log was not read to its end by
  // `deadline_mono_us`), internal.
  virtual Answer<std::optional<MessageDetail>> message(const std::string& tenant, std::string_view partition,
                                                       std::string_view transaction_id,
                                                       std::int64_t deadline_mono_us) = 0;
};

}  // namespace queen::broker

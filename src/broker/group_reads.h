// What consumer groups have read and what they still have before them, from this node's applied state
// (api-messaging.md 9.1).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "broker/broker.h"
#include "store/store.h"

namespace queen::broker {

// Thread-safe. Calls block on the disk where the row of a message has left RAM; no read gate is held across
// that. Each walks the tenant's partitions a few at a time, so a list is no snapshot of one moment.
class GroupReads {
 public:
  GroupReads(const store::Store& store, qlog::QueueLogs& logs, Clock& clock)
      : store_(store), logs_(logs), clock_(clock) {}

  std::vector<GroupOnQueue> groups(const std::string& tenant);
  std::vector<GroupOnQueue> group(const std::string& tenant, const std::string& group);
  std::vector<GroupCursor> lagging(const std::string& tenant, std::int64_t longer_than_us);

  std::vector<PositionAnswer> positions(const std::string& tenant, const std::string& group,
                                        const std::vector<PositionAsk>& asked);
  // Wherever it stands, on queues where it is registered.
  std::vector<PositionAnswer> positions(const std::string& tenant, const std::string& group);
  // The queues where the group has a registration or a cursor.
  std::vector<std::string> queues_of(const std::string& tenant, const std::string& group);

 private:
  // A cursor whose oldest message has no row any more.
  struct Cold {
    std::size_t index = 0;  // among the cursors seen
    Pid pid;
    std::uint64_t offset = 0;
  };
  struct Seen {
    std::vector<GroupCursor> cursors;
    std::vector<Cold> cold;
    std::int64_t now = 0;
  };
  struct PartitionSeen {
    Pid pid;
    const store::PartitionRow& row;
  };
  using Visit = std::function<void(GroupCursor cursor)>;

  std::vector<std::string> queue_names(const std::string& tenant) const;
  std::optional<store::GroupRow> registration(const std::string& tenant, const std::string& queue,
                                              const std::string& group) const;
  void each_partition(const std::string& tenant, const std::string& queue,
                      const std::function<void(const PartitionSeen& partition)>& visit,
                      const std::function<void()>& gate_is_open) const;
  void each_cursor(const std::string& tenant, const std::string& queue,
                   const std::optional<std::string>& group, const Visit& visit);
  void see(const PartitionSeen& partition, const std::string& group, BytesView cursor, Seen& seen) const;
  void look_up(const std::string& tenant, const std::string& queue, Seen& seen) const;
  std::optional<PositionAnswer> position_at(Pid pid, const std::string& group) const;

  const store::Store& store_;
  qlog::QueueLogs& logs_;
  Clock& clock_;
};

}  // namespace queen::broker

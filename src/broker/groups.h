// What consumer groups have read and what they still have before them (api-messaging.md 9.1): reads of this
// node's applied state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "broker/broker.h"
#include "store/rows.h"

namespace queen::broker {

// A group's cursor in one partition.
struct GroupCursor {
  std::string queue, group, partition;
  Uuid partition_id;
  std::optional<std::string> lease_id;  // of the live lease
  std::uint64_t total_consumed = 0;     // messages
  std::uint64_t lag = 0;                // retained messages behind the cursor
  std::int64_t oldest_us = 0;           // stamp of the first of them, when there is one
  std::int64_t lag_us = 0;              // its age
};
// A group on one queue.
struct GroupOnQueue {
  std::string queue, group;
  std::optional<store::GroupRow> registration;
  std::vector<GroupCursor> cursors;  // by partition number; empty in sums
  // Sums over the cursors.
  std::uint64_t partitions = 0, partitions_behind = 0, lag = 0;
  std::int64_t lag_us_max = 0;
  bool consumed = false;  // anything ever
};
struct PositionAsk {
  std::string queue, partition;
};
struct PositionAnswer {
  std::string queue, partition;
  std::optional<std::uint64_t> offset;  // the next to read; nothing where the group has read nothing
  std::string metadata;
};
// Thread-safe. Calls block on the disk and may walk every partition of a tenant: they belong on
// Broker::look(). The store is held for at most a few hundred partitions at a time, and never across I/O, so
// a list is no snapshot of one moment.
class Groups {
 public:
  virtual ~Groups() = default;
  // The tenant's groups that have a cursor somewhere, by group, then queue; without the cursors.
  virtual std::vector<GroupOnQueue> all(const std::string& tenant) = 0;
  // One group where it has a cursor, by queue.
  virtual std::vector<GroupOnQueue> one(const std::string& tenant, const std::string& group) = 0;
  // Cursors whose oldest message is older than that, the oldest first.
  virtual std::vector<GroupCursor> lagging(const std::string& tenant, std::int64_t longer_than_us) = 0;
  // Where a group reads on: what is asked for in that order, or without `asked` wherever it stands on queues
  // where it is registered.
  virtual std::vector<PositionAnswer> positions(const std::string& tenant, const std::string& group,
                                                const std::optional<std::vector<PositionAsk>>& asked) = 0;
};

}  // namespace queen::broker

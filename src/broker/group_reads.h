// Consumer groups as their routes show them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "broker/append_index.h"
#include "broker/groups.h"
#include "store/store.h"

namespace queen::broker {

class GroupReads final : public Groups {
 public:
  GroupReads(const store::Store& store, qlog::QueueLogs& logs, Clock& clock)
      : store_(store), clock_(clock), appends_(store, logs) {}

  std::vector<GroupOnQueue> all(const std::string& tenant) override;
  std::vector<GroupOnQueue> one(const std::string& tenant, const std::string& group) override;
  std::vector<GroupCursor> lagging(const std::string& tenant, std::int64_t longer_than_us) override;
  std::vector<PositionAnswer> positions(const std::string& tenant, const std::string& group,
                                        const std::optional<std::vector<PositionAsk>>& asked) override;
  // The queues where the group has a registration or a cursor.
  std::vector<std::string> queues_of(const std::string& tenant, const std::string& group);

 private:
  // A cursor whose oldest message has no row any more.
  struct Cold {
    std::size_t index = 0;  // among the cursors seen
    Pid pid;
    std::int64_t offset = 0;
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
  void each_cursor(const std::string& tenant, const std::string& queue,
                   const std::optional<std::string>& group, const Visit& visit);
  void see_cursors(const PartitionSeen& partition, const std::optional<std::string>& group, Seen& seen) const;
  void see(const PartitionSeen& partition, const std::string& group, BytesView cursor, Seen& seen) const;
  void look_up(std::uint64_t queue_id, Seen& seen);
  std::optional<PositionAnswer> position_at(Pid pid, const std::string& group) const;
  std::vector<PositionAnswer> asked_positions(const std::string& tenant, const std::string& group,
                                              const std::vector<PositionAsk>& asked) const;

  const store::Store& store_;
  Clock& clock_;
  AppendIndex appends_;
};

}  // namespace queen::broker

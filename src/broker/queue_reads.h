// Queues and their partitions as the management routes show them (api-messaging.md 10.3).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "broker/append_index.h"
#include "broker/resources.h"
#include "store/store.h"

namespace queen::broker {

// The queue part of Resources, with its contract.
class QueueReads {
 public:
  QueueReads(const store::Store& store, qlog::QueueLogs& logs, Clock& clock)
      : store_(store), logs_(logs), clock_(clock), appends_(store, logs) {}

  std::optional<QueueView> queue(const std::string& tenant, const std::string& queue,
                                 std::size_t partitions_max);
  Answer<std::optional<DepthView>> depth(const std::string& tenant, const std::string& queue,
                                         const std::optional<std::string>& group);
  std::optional<SizesView> sizes(const std::string& tenant, const std::string& queue,
                                 std::size_t partitions_max);
  Answer<std::optional<BusyView>> busiest(const std::string& tenant, const std::optional<std::string>& queue,
                                          std::size_t limit, std::size_t partitions_max);
  Answer<OverviewView> overview(const std::string& tenant);

 private:
  struct Named;  // a queue with its row
  struct Lagging;
  std::optional<store::QueueRow> row_of(const std::string& tenant, const std::string& queue) const;
  std::vector<Named> queues_of(const std::string& tenant) const;
  PartitionView view_of(Pid pid, const store::PartitionRow& row, std::int64_t now) const;
  Answer<std::optional<DepthView>> depth_of_group(const std::string& tenant, const std::string& queue,
                                                  const std::string& group);
  DepthView depth_of_slowest(const std::string& tenant, const std::string& queue);
  Status add_queue(const std::string& tenant, const std::string& queue, OverviewView& out);

  const store::Store& store_;
  qlog::QueueLogs& logs_;
  Clock& clock_;
  AppendIndex appends_;
};

}  // namespace queen::broker

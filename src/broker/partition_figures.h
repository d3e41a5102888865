// What the cursors of a partition say about its messages. All calls under a read gate.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "broker/resources.h"
#include "store/rows.h"
#include "store/store.h"

namespace queen::broker {

struct CursorState {
  std::string group;
  std::int64_t committed = -1;
  std::optional<std::int64_t> lease_expires;  // of a live lease
  std::int64_t leased_to = -1;                // its last offset
  std::uint64_t consumed = 0;
  std::uint32_t retries = 0;  // of the batch at the cursor

  bool queue_mode() const;
};

// Every cursor of the partition, by group. A lease is live that ends after `now_us`.
std::vector<CursorState> cursors_of(const store::Store& store, Pid pid, std::int64_t now_us);
// Of one group.
std::optional<CursorState> cursor_of(const store::Store& store, Pid pid, std::string_view group,
                                     std::int64_t now_us);

// The last offset that counts as consumed: by the slowest named group; with none, by queue mode; with neither
// nothing is.
std::int64_t consumed_to(const std::vector<CursorState>& cursors);

// Counts the log files that hold messages of some partitions; those of one queue share a few logs.
class QueueSegments {
 public:
  explicit QueueSegments(const qlog::QueueLogs& logs) : layout_(logs.layout()), files_(logs.files()) {}
  void add(LogId queue_id, Pid pid);
  std::uint64_t count() const { return count_; }

 private:
  const qlog::Layout layout_;
  const std::map<LogId, std::vector<std::uint32_t>> files_;
  std::vector<LogId> counted_;
  std::uint64_t count_ = 0;
};

// Without dead letters and bytes, which a caller may know for the whole queue.
Figures message_figures(const store::PartitionRow& row, const std::vector<CursorState>& cursors);
std::int64_t dead_letters_of(const store::Store& store, Pid pid);
std::int64_t counter_of(const store::Store& store, BytesView key);
std::int64_t retained_bytes_of(const store::Store& store, Pid pid);

// Leases end with time, and on a quiet node no entry moves the stamps on.
std::int64_t lease_now_us(const store::Store& store, Clock& clock);

}  // namespace queen::broker

// Where the messages of a partition stand and when they were stamped: from the append rows, and from the
// logs' index for what has left RAM.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "qlog/queue_logs.h"
#include "store/rows.h"
#include "store/store.h"

namespace queen::broker {

struct AppendSpan {
  std::int64_t base = 0, end = 0;  // offsets, both inclusive
  std::int64_t created_at = 0;
};

// The append row that holds `offset`; nothing when it has left RAM. Under a read gate.
std::optional<AppendSpan> append_row_at(const store::Store& store, Pid pid, std::int64_t offset);

// Thread-safe. Calls take the read gate themselves and may block on the disk, without it. `queue_id` is
// Layout::queue_id(). Errors: as QueueLogs::locate().
class AppendIndex {
 public:
  AppendIndex(const store::Store& store, qlog::QueueLogs& logs) : store_(store), logs_(logs) {}

  // Appends that hold `offset` and what is before it, from there down, at most `most`; never empty unless no
  // message is at or below `offset`. An offset that no file has (damage) is stepped over.
  Result<std::vector<AppendSpan>> down_from(Pid pid, std::uint64_t queue_id, std::int64_t offset,
                                            std::int64_t log_start, std::size_t most);
  // Stamp of the message at `offset`; nothing when it is gone.
  Result<std::optional<std::int64_t>> stamp(Pid pid, std::uint64_t queue_id, std::int64_t offset);
  // First offset in [from, end) stamped at or after `since_us`; `end` when there is none.
  Result<std::int64_t> first_stamped(Pid pid, std::uint64_t queue_id, std::int64_t from, std::int64_t end,
                                     std::int64_t since_us);

 private:
  std::vector<AppendSpan> rows_down(Pid pid, std::int64_t offset, std::int64_t log_start, std::size_t most);
  Result<std::optional<AppendSpan>> in_log(Pid pid, std::uint64_t queue_id, std::int64_t offset);

  const store::Store& store_;
  qlog::QueueLogs& logs_;
};

}  // namespace queen::broker

// What a running broker still holds of one queue, read over its public routes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "sink/documents.h"

namespace queen::cli {

struct LogRecord {
  std::uint64_t offset = 0;
  std::string transaction_id;
  std::int64_t ts = 0;  // µs
  std::string payload;  // JSON text as the broker spells it
};
struct LogPart {
  std::vector<LogRecord> records;  // ascending, without holes unless retention made one
  std::uint64_t log_start = 0, high_watermark = 0;
};
struct LogBounds {
  std::uint64_t log_start = 0;
  std::int64_t last_offset = -1;
};

// Blocks. Errors of every call: unavailable (no answer, or a refusal), not_found (no such queue), corrupt (an
// answer that cannot be read).
class BrokerLog {
 public:
  virtual ~BrokerLog() = default;
  // The commit pointer of `sink` for the queue; nothing before its first commit.
  virtual Result<std::optional<sink::Committed>> committed(const std::string& sink) = 0;
  // Every partition of the queue.
  virtual Result<std::map<std::string, LogBounds>> partitions() = 0;
  // Records from `offset` on, at least one if there is one; about `bytes_max` bytes of payload. An offset
  // below the log's start reads from the start.
  virtual Result<LogPart> fetch(const std::string& partition, std::uint64_t offset,
                                std::uint64_t bytes_max) = 0;
};

// `url` is http(s)://host[:port]. `tenant` is sent when it is not the default one. Errors: invalid (the
// address).
Result<std::unique_ptr<BrokerLog>> connect_broker(const std::string& url, const std::string& tenant,
                                                  const std::string& queue);

}  // namespace queen::cli

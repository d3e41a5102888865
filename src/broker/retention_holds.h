// What the retention hold of sinks keeps on disk, queue by queue (s3-sink.md 13; HD-18).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/broker.h"

namespace queen::broker {

// Written by the scanner's rounds, read by whoever asks. Thread-safe.
class RetentionHolds {
 public:
  // Of one partition in the round that goes on.
  void add(const std::string& tenant, const std::string& queue, const std::string& sink, std::uint64_t bytes);
  // The round has seen every partition: what it added is what is shown now.
  void end_round();

  // Queues of which something is kept, in the order of their names.
  std::vector<RetentionHold> shown() const;
  // Nothing while the holds keep less than half of `log_bytes`; otherwise a sentence that names the largest.
  std::optional<std::string> warning(std::uint64_t log_bytes) const;

 private:
  using ByQueue = std::map<std::pair<std::string, std::string>, RetentionHold>;
  mutable std::mutex mutex_;  // guards everything below
  ByQueue counting_;          // bounded by the queues that have a hold
  ByQueue shown_;
};

}  // namespace queen::broker

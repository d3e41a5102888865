// How many descriptors this process has open, against its limit (HD-28, HD-38).
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"

namespace queen::app {

// Raises the soft limit to the hard one. What it was and is now.
struct DescriptorLimit {
  std::uint64_t before = 0, now = 1024;
};
DescriptorLimit raise_descriptor_limit();

// Thread-safe. Counts at most every few seconds.
class DescriptorWatch {
 public:
  DescriptorWatch(Clock& clock, std::uint64_t limit) : clock_(clock), limit_(limit) {}
  // A sentence once four fifths of the limit are in use.
  std::optional<std::string> warning();

 private:
  Clock& clock_;
  const std::uint64_t limit_;
  std::mutex mutex_;  // guards what follows
  std::optional<std::int64_t> counted_at_;
  std::uint64_t open_ = 0;
};

}  // namespace queen::app

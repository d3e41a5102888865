// One buffer budget for every queue of every sink of a node (s3-sink.md 18; HD-14). On one
// executor; only total() and limit() may be called elsewhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace queen::sink {

class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t limit_bytes) : limit_(limit_bytes) {}

  // What the queue `key` (tenant and queue, each percent-encoded, joined by a slash) holds now, in bytes of
  // weight.
  void report(const std::string& key, std::uint64_t bytes);
  void leave(const std::string& key);
  // The node is above its limit and this queue holds the most: it closes its window.
  bool must_close(const std::string& key) const;
  // Above the limit only the queue that holds the most goes on reading, because it may need the rest of its
  // partitions before it can close. So the total passes the limit by one queue's reads, not by everybody's.
  bool may_read(const std::string& key) const;
  std::uint64_t total() const { return total_; }
  std::uint64_t limit() const { return limit_; }

 private:
  bool is_largest(const std::string& key) const;

  std::uint64_t limit_;
  std::atomic<std::uint64_t> total_ = 0;
  std::map<std::string, std::uint64_t> held_;  // bounded by the queues of the node
};

}  // namespace queen::sink

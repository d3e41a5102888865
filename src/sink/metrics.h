// The counters of every sink of a node, and the families that GET /metrics/prometheus shows of them
// (s3-sink.md 23).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lake/record_writer.h"
#include "sink/status.h"

namespace queen::sink {

// Buckets of a histogram by upper bound; the last of `counts` is above all of them.
template <std::size_t N>
struct Histogram {
  std::array<std::uint64_t, N + 1> counts{};
  std::uint64_t sum = 0;
  void observe(const std::array<std::uint64_t, N>& bounds, std::uint64_t value) {
    std::size_t bucket = 0;
    while (bucket < N && value > bounds[bucket]) ++bucket;
    ++counts[bucket];
    sum += value;
  }
};
inline constexpr std::array<std::uint64_t, 8> kWindowRecordBounds = {1,      10,      100,       1'000,
                                                                     10'000, 100'000, 1'000'000, 10'000'000};
inline constexpr std::array<std::uint64_t, 8> kWindowByteBounds = {
    1ULL << 20, 4ULL << 20, 16ULL << 20, 64ULL << 20, 128ULL << 20, 256ULL << 20, 512ULL << 20, 1ULL << 30};

struct QueueCounters {
  std::uint64_t windows = 0, records = 0, lost = 0, fetch_ok = 0, fetch_failed = 0;
  std::map<std::string, std::uint64_t> bytes;  // by format
};
struct TenantCounters {
  std::map<std::string, QueueCounters> queues;
  Histogram<kWindowRecordBounds.size()> window_records;
  Histogram<kWindowByteBounds.size()> window_bytes;
  std::map<std::pair<std::string, int>, std::uint64_t> requests;  // by operation and status, 0 = no answer
  std::uint64_t precondition_lost = 0, given_back = 0;
};

struct CommittedWindow {
  std::uint64_t records = 0, bytes = 0, lost = 0;
};

// Counters outlive runs, restarts and a sink that is built anew; only forget() drops them. Thread-safe.
class MetricRegistry {
 public:
  // Series of a tenant and of a queue begin at 0, so that the first count shows as a step.
  void begin_tenant(const std::string& tenant);
  void begin_queue(const std::string& tenant, const std::string& queue, lake::Format format);
  void count_window(const std::string& tenant, const std::string& queue, lake::Format format,
                    const CommittedWindow& window);
  void count_fetch(const std::string& tenant, const std::string& queue, bool answered);
  void count_request(const std::string& tenant, std::string_view op, int status);
  void count_precondition_lost(const std::string& tenant);
  void count_given_back(const std::string& tenant);
  // Every series of a tenant whose sink is gone for good. Counts that come later would begin them anew, so
  // its requests have ended by now.
  void forget(const std::string& tenant);

  std::map<std::string, TenantCounters> snapshot() const;

 private:
  mutable std::mutex mutex_;                       // guards tenants_
  std::map<std::string, TenantCounters> tenants_;  // bounded by the sinks of the node and their queues
};

// What the gauges show: of each sink that runs, by tenant, its queues.
using SinkQueues = std::map<std::string, std::map<std::string, QueueRow>>;

// All families as text, each declared once whether it has samples or not. `wall_us`: the clock of this node.
std::string metrics_text(const std::map<std::string, TenantCounters>& counters, const SinkQueues& running,
                         std::uint64_t buffered_bytes, std::int64_t wall_us);

}  // namespace queen::sink

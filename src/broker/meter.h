// What this node counted, in rows of one period each, and its gauges of now (operations.md 4 to 6).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace queen::broker {

// What is counted where a call is answered. Kept in files (docs/formats/metrics.md): new ones go to the end.
enum class Op : std::uint8_t {
  push_requests,
  push_messages,  // stored; repeats are not
  pop_requests,
  pop_messages,
  pop_empty,  // pops answered without a message
  ack_requests,
  ack_success,  // items answered `success` whose message was completed
  ack_failed,   // all other items: messages that failed, and acks that were not taken
  dead_letters,
  transactions,  // that took place; on a queue: that pushed to it or acked of it
  errors,        // calls that this node could not serve, not those it refused for what they asked
  conflated,     // messages that a conflating group passed over
  partitions_created,
  partitions_deleted,
};
inline constexpr std::size_t kOps = 14;

// Of delivered messages: from their creation to their delivery.
struct LagSum {
  std::uint64_t count = 0, sum_us = 0, max_us = 0;
  LagSum& operator+=(const LagSum& other);
};

struct OpCounts {
  std::array<std::uint64_t, kOps> counts{};
  LagSum lag;

  std::uint64_t operator[](Op op) const { return counts[static_cast<std::size_t>(op)]; }
  std::uint64_t& operator[](Op op) { return counts[static_cast<std::size_t>(op)]; }
  std::uint64_t acks() const { return (*this)[Op::ack_success] + (*this)[Op::ack_failed]; }
  bool empty() const { return counts == std::array<std::uint64_t, kOps>{}; }
  OpCounts& operator+=(const OpCounts& other);
};

// Gauges that are looked at every few seconds. Kept in files, as Op.
enum class Gauge : std::uint8_t {
  cpu_user,    // percent of one core, times 100
  cpu_system,  // likewise
  rss_bytes,
  virtual_bytes,
  waiting_pops,  // on their way or parked
  inflight,      // entries proposed and not applied
  applied_lag,   // entries committed and not applied
  log_bytes,
  log_files,
  map_used_pct,  // of the store's map
};
inline constexpr std::size_t kGauges = 10;

// What the looks of a period saw.
struct GaugeRange {
  std::uint64_t sum = 0, min = 0, max = 0, last = 0;
};
struct GaugeLooks {
  std::uint64_t looks = 0;
  std::array<GaugeRange, kGauges> gauges{};

  const GaugeRange& operator[](Gauge gauge) const { return gauges[static_cast<std::size_t>(gauge)]; }
  void look(const std::array<std::uint64_t, kGauges>& values);
  // `later` was seen after this.
  GaugeLooks& operator+=(const GaugeLooks& later);
};

// A period of this node. The one that runs has no end yet: until_us is now.
struct NodeRow {
  std::int64_t from_us = 0, until_us = 0;  // wall clock
  OpCounts ops;
  LagSum loop;  // how much too late a timer of 100 ms came
  GaugeLooks gauges;
};
struct QueueOpsRow {
  std::int64_t from_us = 0;
  std::string tenant, queue;
  OpCounts ops;
  std::uint64_t parked = 0;  // pops that waited at the end of the period
};

struct ParkedPops {
  std::string tenant, queue;
  std::uint64_t count = 0;
};
struct DeadLetterDepth {
  std::string tenant, queue;
  std::uint64_t count = 0;
};

// Of this moment.
struct NodeGauges {
  std::uint64_t log_index = 0, committed = 0, applied = 0, durable = 0;  // entries
  std::uint64_t inflight = 0;
  std::uint64_t log_files = 0, log_bytes = 0;
  std::uint64_t map_used_pct = 0;
  std::uint64_t waiting_pops = 0;
  bool storage_full = false;
};

struct ProcessUse {
  std::int64_t cpu_user_us = 0, cpu_system_us = 0;  // since the process started
  std::uint64_t rss_bytes = 0, virtual_bytes = 0;
};
// What the system knows of this process. Thread-safe.
class ProcessProbe {
 public:
  virtual ~ProcessProbe() = default;
  virtual ProcessUse use() = 0;
};

struct MeterSettings {
  std::int64_t flush_us = 0;  // METRICS_FLUSH_MS; 0 = count only, and write no rows
  std::int64_t node_hours = 168, queue_hours = 24;
  std::uint64_t queue_rows_max = 500'000;
  ProcessProbe* process = nullptr;  // outlives the broker; null: its gauges are 0
};

// Thread-safe. Rows are in no order and only of the range, by the minute in which their period began, with
// those of the period that runs. Calls that give rows read files, and dead_letters() walks over all queues:
// they belong on Broker::look().
class Meter {
 public:
  virtual ~Meter() = default;
  virtual OpCounts totals() const = 0;  // since the start
  virtual std::int64_t uptime_us() const = 0;
  virtual LagSum loop_lag() const = 0;  // since the start
  virtual NodeGauges gauges() const = 0;
  virtual ProcessUse process() const = 0;
  virtual std::vector<ParkedPops> parked() const = 0;
  // Of the last period that ended.
  virtual std::vector<QueueOpsRow> last_rows() const = 0;
  // End of the newest row that was written, also before the last restart; nothing when there is none.
  virtual std::optional<std::int64_t> written_until_us() const = 0;

  virtual std::vector<NodeRow> node_rows(std::int64_t from_us, std::int64_t to_us) const = 0;
  virtual std::vector<QueueOpsRow> queue_rows(const std::string& tenant, std::int64_t from_us,
                                              std::int64_t to_us) const = 0;
  virtual std::vector<DeadLetterDepth> dead_letters() const = 0;  // queues that have some, of all tenants
};

// The minute of a stamp, as rows are found and merged by it.
constexpr std::int64_t minute_of(std::int64_t us) {
  constexpr std::int64_t kMinuteUs = 60'000'000;
  return us - ((us % kMinuteUs) + kMinuteUs) % kMinuteUs;
}

}  // namespace queen::broker

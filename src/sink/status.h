// What a sink says about itself: rows written by the tasks, read by status calls from any thread (s3-sink.md
// 22).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "sink/health.h"
#include "sink/settings.h"

namespace queen::sink {

enum class QueueState : std::uint8_t {
  claiming,
  held,
  restoring,
  filling,
  intent,
  upload,
  commit,
  drained,
  fenced,
  failed,
  missing,
  crashed,
  released
};
std::string_view name_of(QueueState state);

struct LastError {
  std::int64_t at_us = 0;  // wall clock
  std::string message;
};

// One queue of a sink as this node sees it. Times are stamps in µs.
struct QueueRow {
  QueueState state = QueueState::claiming;
  bool owned_here = false;
  std::string held_by;  // when held by another node
  std::uint64_t k = 0;
  std::optional<std::int64_t> t_end, complete_through, safe_time, lag_us;
  bool redo = false;
  std::uint64_t buffered_bytes = 0, partitions = 0;
  std::uint64_t windows_committed = 0, records = 0, bytes = 0,
                records_lost = 0;                       // since the sink started here
  std::optional<std::uint64_t> swept_partitions;        // of the last complete full sweep
  std::optional<std::uint64_t> checkpoint_age_windows;  // committed k − k of the last checkpoint
  std::optional<LastError> last_error;
};

struct BucketState {
  std::optional<bool> reachable;  // nothing before the first probe
  std::string error;
  std::optional<std::int64_t> checked_at_us;  // wall clock
};
struct PlacementState {
  std::uint64_t nodes = 1, queues = 0, share = 0, held = 0;
  std::optional<std::string> giving_back;
};

// Thread-safe.
class StatusBoard {
 public:
  explicit StatusBoard(std::int64_t max_window_us) : health_(max_window_us) {}

  void set_queue(const std::string& queue, const QueueRow& row);
  void set_bucket(BucketState bucket);
  void set_placement(PlacementState placement);

  void health_begin(const std::string& queue, std::int64_t now_us);
  void health_report(const std::string& queue, std::int64_t lag_us, std::int64_t now_us);
  void health_forget(const std::string& queue);

  // A consistent copy of everything, for the status, the metrics and tests.
  struct Snapshot {
    std::map<std::string, QueueRow> queues;
    BucketState bucket;
    PlacementState placement;
    HealthVerdict health;
  };
  Snapshot snapshot(std::int64_t now_us) const;

 private:
  mutable std::mutex mutex_;  // guards everything below
  std::map<std::string, QueueRow> queues_;
  BucketState bucket_;
  PlacementState placement_;
  Health health_;
};

// What the supervisor of a node knows of one sink (20).
struct UnitState {
  std::string tenant;
  std::string source = "env";      // or `cp`: the control plane
  std::string cluster;             // of a control-plane sink, else empty
  std::string phase = "starting";  // starting, running, backoff, stopped, error
  std::string error;               // why it cannot run
  std::uint64_t restarts = 0;
  std::string last_exit;       // why its last run ended unasked
  std::int64_t uptime_us = 0;  // of the run that goes on
  std::int64_t backoff_us = 0;
};
// What it shares with the other sinks of the node.
struct NodeState {
  const NodeSettings& node;
  std::string_view version;
  std::uint64_t buffered_bytes = 0;
};
// The object of `sinks[]` for one sink, fields as in s3-sink.md 22. Never a key or a secret. `settings` is
// null for a sink whose configuration cannot be read.
std::string unit_json(const UnitState& unit, const UnitSettings* settings, const NodeState& node,
                      const StatusBoard::Snapshot& now);

}  // namespace queen::sink

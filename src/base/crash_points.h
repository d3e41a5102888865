// Points at which a test has the process killed (storage.md 28).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/result.h"

namespace queen {

// The points of one node. Names, in this order, are in the .cc file.
enum class CrashPoint : std::uint8_t {
  batcher_drained,           // commands taken from the queue, nothing planned
  planner_planned,           // entry planned, not proposed
  propose_sent,              // entry handed to the replicator
  qlog_record_written,       // the group's records are written in at least one log, nothing synced
  log_appended,              // the group is written in every touched log, nothing synced
  qlog_record_fsynced,       // one touched log is synced, others are not
  log_flushed,               // every touched log is synced, nobody told
  commit_before_apply,       // committed, not applied
  apply_mid_entry,           // between two effects of an entry
  apply_store_committed,     // entry applied, not answered
  durable_files_synced,      // checkpoint: logs synced, the store's file not written
  durable_store_committed,   // checkpoint written, its index not reported
  seg_rolled,                // outgoing file synced, next file not in use
  seg_qidx_written,          // index written beside the sealed file
  gc_before_unlink,          // reclaim, before an unlink
  gc_after_unlink,           // reclaim, after it
  compaction_copied,         // rewrite copied, not swapped
  compaction_loc_committed,  // rewrite swapped, the old view still open
};
inline constexpr std::size_t kCrashPoints = 18;

std::string_view name_of(CrashPoint point);

// Thread-safe. Rooms get a pointer, null in every node that nobody tests: see reach_point().
class CrashPoints {
 public:
  // Runs when a point is due, with its name; the real one does not return.
  using Fire = std::function<void(std::string_view point)>;
  explicit CrashPoints(Fire fire) : fire_(std::move(fire)) {}

  // `point[:n],...` arms each point for its n-th time, n from 1 (1 when left out). Errors: invalid; its text
  // lists all points.
  Status arm(std::string_view list);
  void reach(CrashPoint point);

 private:
  const Fire fire_;
  std::array<std::atomic<std::int64_t>, kCrashPoints> left_{};  // times until a point is due; 0 = not armed
};

inline void reach_point(CrashPoints* points, CrashPoint point) {
  if (points != nullptr) points->reach(point);
}

// Says `fault: crash point <point> fired` on stderr and kills this process: no clean-up of any kind.
[[noreturn]] void kill_this_process(std::string_view point);

}  // namespace queen

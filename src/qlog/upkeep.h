// Making space come back: files sealed by age, dead files unlinked or rewritten, empty logs removed.
// storage.md 18, 19.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"

namespace queen::qlog {

// What upkeep asks of the room above. Called on the upkeep thread only; none of it waits for the disk.
class UpkeepHost {
 public:
  virtual ~UpkeepHost() = default;

  // The partition as applied on this node: nothing when it does not exist.
  struct Partition {
    LogId log;  // that its appends go to
    std::uint64_t txns_start = 0;
  };
  // In the order of `pids`, as of one moment.
  virtual std::vector<std::optional<Partition>> look_up(std::span<const Pid> pids) = 0;

  // No record at or below it is needed to recover this node (recovery floor). Never goes back.
  virtual EntryIndex recovery_floor() = 0;
  // Checkpoints are numbered from 1 as their cuts are begun. What was true, or marked, before a call of
  // cuts_begun() that gives n is in every checkpoint above n.
  virtual std::uint64_t cuts_begun() = 0;
  virtual std::uint64_t cut_durable() = 0;  // number of the newest one that is durable

  // False: the node has failed or is stopping; the pass ends where it is.
  virtual bool go_on() = 0;
};

struct UpkeepSettings {
  std::int64_t seal_age_us = 600'000'000;  // 0 = never by age (QUEEN_QLOG_SEAL_AGE_S)
  bool reclaim = true;                     // off: every sealed file stays (QUEEN_QLOG_RECLAIM)
  // Share of a file's message bytes that must be dead before it is rewritten, 0..100; unset: any in the log
  // of one queue, 50 in a shared one (QUEEN_QLOG_COMPACT_MIN_DEAD_PCT).
  std::optional<double> min_dead_pct;
  Clock* clock = nullptr;  // outlives the upkeep
};

struct IdleReport {
  std::uint32_t sealed = 0, removed = 0;
};
struct ReclaimReport {
  std::uint32_t looked_at = 0, unlinked = 0, rewritten = 0;
  std::uint64_t look_ups = 0;
  std::uint64_t freed_bytes = 0;
};

// Both passes on one thread. Neither holds up an append for longer than one log's seal.
class LogUpkeep {
 public:
  virtual ~LogUpkeep() = default;

  // Seals active files whose oldest data is older than the seal age at `now_us` (µs since the epoch), and
  // removes empty logs of one queue: at most 64 of both, going on next time where it stopped. Errors:
  // unavailable (a seal failed: the logs take no more writes and the node must stop). A full volume is not an
  // error: the file is sealed another time.
  virtual Result<IdleReport> idle_pass(std::int64_t now_us) = 0;

  // Frees files in which nothing lives, and rewrites at most one that is dead in part. Looks at 256 files,
  // asks about 262,144 partitions and takes 200 ms at the most (a copy that was begun is finished), and goes
  // on next time where it stopped. Failures are logged, and tried again later. Then makes or merges the
  // directory over sealed files of at most one log (RD-9), unless those are off. Every 30 s the pages of
  // indexes that nobody searched meanwhile leave this process's memory.
  virtual ReclaimReport reclaim_pass() = 0;
};

}  // namespace queen::qlog

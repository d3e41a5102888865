// Apply: an entry's effects into the store, on every node alike (storage.md 8).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/crash_points.h"
#include "base/result.h"
#include "machine/effects.h"
#include "store/store.h"

namespace queen::machine {

// What waiting readers may want to know of an applied entry.
struct Applied {
  struct QueueTouched {
    std::string tenant, queue;
    bool operator==(const QueueTouched&) const = default;
  };
  std::vector<QueueTouched> queues;  // appended to, or a lease ended, a group or queue made: distinct, sorted
  // Of these something becomes ready at `at`: a lease, a delay or a window ends then.
  struct QueueLater {
    std::string tenant, queue;
    std::int64_t at = 0;  // stamp µs, after the entry's
    auto operator<=>(const QueueLater&) const = default;
  };
  std::vector<QueueLater> later;  // distinct, sorted
  // When the first of the timers that it scheduled is due: stamp µs.
  std::optional<std::int64_t> timer_due;
  bool skipped = false;  // at or below the applied index: nothing was changed
};

// Validates (6.3, 8.1 step 3) before the first write, runs the effects in order, writes the meta rows, the
// applied index last; under the store's write gate. Errors: corrupt (a gap, a broken invariant, an unknown
// kind): poison, the node must stop and a restart replays from the checkpoint.
Result<Applied> apply_entry(store::Store& store, EntryIndex index, std::uint64_t term, const Entry& entry,
                            CrashPoints* crash_points = nullptr);

// Reads of the meta rows.
EntryIndex applied_index(const store::Store& store);
// Rolling digest of every change that entries made to replicated rows (AP-7): equal on nodes that applied the
// same entries, however their apply was spread out or interrupted.
std::uint64_t digest_chain(const store::Store& store);
// The greatest stamp applied: max(last_now_us, max_created_at_us) (safeTime, api-messaging.md 8.3).
std::int64_t safe_time_us(const store::Store& store);

}  // namespace queen::machine

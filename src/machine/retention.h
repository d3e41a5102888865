// What retention may take from a partition (storage.md 17.2): pure rules, shared by the scanner that proposes
// and the planner that decides. Times are µs since the epoch; `now_us` is the entry's clock for the planner
// and a guess at it for the scanner.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "store/rows.h"
#include "store/view.h"

namespace queen::machine {

// Stamps: an append stamped below a cutoff is due by it, when it is also below the cutoff's cap. A cutoff
// that is off is kNever, below every stamp.
struct Cutoffs {
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();
  std::int64_t all = kNever;
  std::int64_t completed = kNever;  // capped: see completed()
  std::int64_t wait = kNever;
  std::int64_t txns = kNever;  // hash lists; capped at log_start
  // Append rows alone: `txns`, but never a row that a pop still needs to judge a delay or a window by.
  std::int64_t rows = kNever;

  // The furthest that any message of the queue can be due by; kNever when its messages are kept.
  std::int64_t furthest() const;
};
// `sink_end_us`: tEnd of the commit pointer of the queue's retention hold, nothing when there is none
// (RT-7). RT-2: `txn_window_min_us` is the shortest life of a hash list.
Cutoffs cutoffs_of(const store::QueueRow& queue, std::int64_t now_us, std::optional<std::int64_t> sink_end_us,
                   std::int64_t txn_window_min_us);

// tEnd of the commit pointer that the queue's hold names, to the millisecond; nothing when the queue holds
// for no sink, and when the row is absent, expired or not to be understood (s3-sink.md 13). Reads the
// tenant's KV.
std::optional<std::int64_t> sink_end_us(const store::View& view, std::string_view tenant,
                                        std::string_view queue, const store::QueueRow& row,
                                        std::int64_t now_us);

// How far the groups of a partition have come.
struct Completion {
  // Lowest committed offset of all cursors, and the lowest stamp wanted by a registered group that has no
  // cursor here yet: it has finished only what is older (F-3). Nothing when no group is there to say so.
  std::optional<std::int64_t> committed;
  std::optional<std::int64_t> wanted_us;
};
// A registered group of a queue, as completion_of() wants it.
struct RegisteredGroup {
  std::string group;
  std::int64_t wanted_us = 0;
};
// Errors: corrupt.
Result<std::vector<RegisteredGroup>> registered_groups(const store::View& view, std::string_view tenant,
                                                       std::string_view queue);
Result<Completion> completion_of(const store::View& view, Pid pid,
                                 const std::vector<RegisteredGroup>& groups);
// Whether every group has finished the append that ends at `last_offset` and is stamped `stamp`; with no
// group nothing is completed.
bool completed(const Completion& completion, std::int64_t last_offset, std::int64_t stamp);

// Whether the append that ends at `last_offset` and is stamped `stamp` may go, message and all (RT-8).
bool message_due(const Cutoffs& cutoffs, const Completion& completion, std::int64_t last_offset,
                 std::int64_t stamp);

// Whether the partition may be removed (RT-13): nothing in it for longer than `cleanup_us`, counting hash
// lists and append rows, which a partition made anew under its name would not know (RT-2). Errors: corrupt.
Result<bool> partition_dead(const store::View& view, Pid pid, const store::PartitionRow& partition,
                            std::int64_t now_us, std::int64_t cleanup_us);

}  // namespace queen::machine

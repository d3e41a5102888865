// Where a window may end (s3-sink.md 8.6, closing). Part of the window engine; pure.
#pragma once

#include <cstdint>
#include <optional>

#include "sink/detail/partition_table.h"
#include "sink/layout.h"
#include "sink/window_engine.h"

namespace queen::sink::detail {

// a - b and a + b for stamps, without running past the ends of the axis: infinity stays infinity.
std::int64_t stamp_minus(std::int64_t a, std::int64_t b);
std::int64_t stamp_plus(std::int64_t a, std::int64_t b);

enum class Forced : bool { no, yes };

struct CloseInput {
  std::int64_t t_prev = kNever;     // end of the window before; kNever for the first one of `earliest`
  std::int64_t safe_time = kNever;  // of the last complete pass
  std::optional<std::int64_t> frontier;
  std::optional<std::int64_t> reading_from;  // smallest frontier of the partitions that are still being read
  Forced forced = Forced::no;
};
struct CloseDecision {
  std::optional<std::int64_t> t_start, t_end;  // both set: close
  std::int64_t t_prev = kNever;                // after stepping over empty aligned stretches
  std::uint64_t stepped = 0;
};

// The alignment boundary that the window being filled may not cross.
std::optional<std::int64_t> boundary_of(Align align, std::int64_t t_prev,
                                        std::optional<std::int64_t> smallest_buffered);
//
// An age close waits while records below the limit of the window are still being read: closing at the
// frontier of a backlog would cut it into windows of one answer each. Size, boundary and force do not wait.
CloseDecision decide_close(const EngineSettings& settings, const CloseInput& input,
                           const PartitionTable& table);

}  // namespace queen::sink::detail

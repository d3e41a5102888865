#include "sink/detail/window_close.h"

#include <algorithm>

#include "base/planted_bugs.h"

namespace queen::sink::detail {
namespace {

// The smallest stamp such that the records strictly below it weigh the target; `cap` when only all records
// below `cap` do; nothing when even those weigh less.
std::optional<std::int64_t> size_end(const EngineSettings& settings, const PartitionTable& table,
                                     std::int64_t cap) {
  if (table.weight() < settings.target_bytes) return std::nullopt;
  std::uint64_t below = 0;
  std::optional<std::int64_t> last;
  for (const auto& [ts, weight] : table.weights_below(cap)) {
    if (last && ts != *last && below >= settings.target_bytes) return ts;
    below += weight;
    last = ts;
  }
  if (below < settings.target_bytes) return std::nullopt;
  return cap;
}

}  // namespace

std::int64_t stamp_minus(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (a == kNever || a == kForever) return a;
  if (__builtin_sub_overflow(a, b, &out)) return b > 0 ? kNever : kForever;
  return out;
}

std::int64_t stamp_plus(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (a == kNever || a == kForever) return a;
  if (__builtin_add_overflow(a, b, &out)) return b > 0 ? kForever : kNever;
  return out;
}

std::optional<std::int64_t> boundary_of(Align align, std::int64_t t_prev,
                                        std::optional<std::int64_t> smallest_buffered) {
  if (t_prev != kNever) return next_boundary(align, t_prev);
  if (!smallest_buffered) return std::nullopt;
  return next_boundary(align, *smallest_buffered);
}

CloseDecision decide_close(const EngineSettings& settings, const CloseInput& input,
                           const PartitionTable& table) {
  CloseDecision out;
  out.t_prev = input.t_prev;
  const auto smallest = table.smallest_stamp();
  const std::int64_t frontier = input.frontier.value_or(kForever);
  const bool above = planted(PlantedBug::sink_closes_above_safe_time) && frontier >= input.safe_time;
  const std::int64_t known = above ? stamp_plus(input.safe_time, settings.guard_us)
                                   : std::min(stamp_minus(input.safe_time, settings.guard_us), frontier);
  while (true) {
    const auto boundary = boundary_of(settings.align, out.t_prev, smallest);
    const std::int64_t cap = std::min(known, boundary.value_or(kForever));
    if (cap <= out.t_prev) return out;
    const bool at_boundary = boundary == cap;
    const bool any = smallest && *smallest < cap;
    if (!any) {
      if (!at_boundary) return out;
      out.t_prev = cap;
      ++out.stepped;
      continue;
    }
    const bool old =
        out.t_prev == kNever || input.safe_time >= stamp_plus(out.t_prev, settings.max_window_us);
    const bool reading = input.reading_from && *input.reading_from <= cap;
    const bool by_age = old && !reading;
    const auto by_size = size_end(settings, table, cap);
    if (!by_size && !at_boundary && !by_age && input.forced == Forced::no) return out;
    out.t_start = out.t_prev != kNever ? out.t_prev : align_floor(settings.align, *smallest);
    out.t_end = by_size.value_or(cap);
    return out;
  }
}

}  // namespace queen::sink::detail

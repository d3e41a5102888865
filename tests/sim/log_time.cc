#include "log_time.h"

#include <algorithm>
#include <limits>

namespace queen::sim {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
// Each look at log time moves it on by a microsecond at least, whatever the clock says.
constexpr std::int64_t kLooksUs = 20 * kMsUs;

}  // namespace

void LogTime::note(std::int64_t stamp_us) {
  SimClock& clock = node_.clock();
  const Mark last = marks_.empty() ? Mark{} : marks_.back();
  // Log time stays as far ahead as the wall clock ever was, whoever looked then.
  marks_.push_back(
      {world_.now_us(), clock.wall_us(), clock.jumped_us_max(), std::max(last.stamp_us, stamp_us)});
}

std::int64_t LogTime::at_most_us() {
  note(0);
  return kEpochUs + node_.clock().mono_us() + marks_.back().ahead_us + kLooksUs;
}

std::int64_t LogTime::not_before(std::int64_t log_us) const {
  std::int64_t from = 0;
  for (const Mark& mark : marks_) {
    const std::int64_t at = node_.clock().world_time_of(log_us - kLooksUs - kEpochUs - mark.ahead_us);
    if (at <= mark.at_us) return std::max(at, from);
    from = mark.at_us;
  }
  return kNever;
}

// The wall clock may go back behind it, and log time need not have been looked at meanwhile.
std::int64_t LogTime::surely_by(std::int64_t log_us) const {
  std::int64_t by = kNever;
  for (auto mark = marks_.rbegin(); mark != marks_.rend(); ++mark) {
    if (std::max(mark->wall_us, mark->stamp_us) < log_us) break;
    by = mark->at_us;
  }
  return by;
}

}  // namespace queen::sim

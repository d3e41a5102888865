#include "base/crash_points.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <optional>

#include "base/text.h"

namespace queen {
namespace {

constexpr std::array<std::string_view, kCrashPoints> kNames = {
    "batcher.drained",   "planner.planned",         "propose.sent",         "qlog.record_written",
    "log.appended",      "qlog.record_fsynced",     "log.flushed",          "commit.before_apply",
    "apply.mid_entry",   "apply.store_committed",   "durable.files_synced", "durable.store_committed",
    "seg.rolled",        "seg.qidx_written",        "gc.before_unlink",     "gc.after_unlink",
    "compaction.copied", "compaction.loc_committed"};
static_assert(static_cast<std::size_t>(CrashPoint::compaction_loc_committed) + 1 == kCrashPoints);

std::optional<std::size_t> position_of(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return i;
  return std::nullopt;
}

std::optional<std::int64_t> times_of(std::string_view text) {
  std::int64_t times = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), times);
  if (error != std::errc{} || end != text.data() + text.size() || times < 1) return std::nullopt;
  return times;
}

}  // namespace

std::string_view name_of(CrashPoint point) {
  return kNames[static_cast<std::size_t>(point)];
}

Status CrashPoints::arm(std::string_view list) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string item = trim(list.substr(0, comma));
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    const std::size_t colon = item.find(':');
    const auto point = position_of(std::string_view(item).substr(0, colon));
    const auto times =
        colon == std::string::npos ? std::optional<std::int64_t>(1) : times_of(item.substr(colon + 1));
    if (!point || !times) {
      return Error{Errc::invalid, fmt::format("{} is not point[:n] with n from 1 and one of the points {}",
                                              item, fmt::join(kNames, ", "))};
    }
    left_[*point].store(*times, std::memory_order_relaxed);
  }
  return {};
}

void CrashPoints::reach(CrashPoint point) {
  auto& left = left_[static_cast<std::size_t>(point)];
  if (left.load(std::memory_order_relaxed) == 0) return;
  if (left.fetch_sub(1, std::memory_order_relaxed) == 1) fire_(name_of(point));
}

void kill_this_process(std::string_view point) {
  const std::string line = fmt::format("fault: crash point {} fired\n", point);
  // Straight to the descriptor: nothing that is buffered may survive, or hold this up.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

}  // namespace queen

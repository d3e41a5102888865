#include "story.h"

namespace queen::sim {

void Story::add(std::string_view room, std::string text) {
  events_.push_back(
      fmt::format("{:>12.6f} {:<9} {}", static_cast<double>(world_.now_us()) / 1e6, room, text));
  if (events_.size() > kEventsMax) events_.pop_front();
}

void Story::violated(std::string_view rule, std::string what) {
  if (keep_ == Keep::events) add("VIOLATED", fmt::format("{}: {}", rule, what));
  if (failed()) return;
  rule_ = rule;
  what_ = std::move(what);
}

std::string Story::tail(std::size_t lines) const {
  std::string out;
  const std::size_t from = events_.size() > lines ? events_.size() - lines : 0;
  for (std::size_t i = from; i < events_.size(); ++i) out += events_[i] + "\n";
  return out;
}

void StoryLog::write(LogLevel level, std::string_view target, std::string_view event,
                     std::span<const LogField> fields) {
  if (event == "queue_restored") story_.sink_restored();
  if (!story_.keeps()) return;
  static constexpr std::string_view kLevels[] = {"trace", "debug", "info", "warn", "error"};
  std::string text = fmt::format("{} {}", kLevels[static_cast<int>(level)], event);
  for (const auto& field : fields) text += fmt::format(" {}={}", field.key, field.text);
  story_.note(target, "{}", text);
}

}  // namespace queen::sim

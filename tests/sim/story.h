// What a history tells about itself: events by room, kept when somebody wants to read them, and the first
// rule that was broken.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "world.h"

namespace queen::sim {

class Story {
 public:
  enum class Keep : bool { nothing, events };
  Story(World& world, Keep keep) : world_(world), keep_(keep) {}

  template <class... Args>
  void note(std::string_view room, fmt::format_string<Args...> format, Args&&... args) {
    if (keep_ == Keep::events) add(room, fmt::format(format, std::forward<Args>(args)...));
  }
  // A rule is broken; the first one stands. `rule` names it in a word or two.
  template <class... Args>
  void violate(std::string_view rule, fmt::format_string<Args...> format, Args&&... args) {
    violated(rule, fmt::format(format, std::forward<Args>(args)...));
  }
  bool failed() const { return !rule_.empty(); }
  const std::string& rule() const { return rule_; }
  const std::string& what() const { return what_; }
  // When the sink began to work on a queue, by its log.
  void sink_restored() { restored_us_.push_back(world_.now_us()); }
  const std::vector<std::int64_t>& restored_us() const { return restored_us_; }
  bool keeps() const { return keep_ == Keep::events; }
  // The last `lines` events.
  std::string tail(std::size_t lines) const;

 private:
  static constexpr std::size_t kEventsMax = 200'000;
  void add(std::string_view room, std::string text);
  void violated(std::string_view rule, std::string what);

  World& world_;
  const Keep keep_;
  std::deque<std::string> events_;
  std::string rule_, what_;
  std::vector<std::int64_t> restored_us_;
};

// The log lines of a node, into its story.
class StoryLog final : public LogSink {
 public:
  explicit StoryLog(Story& story) : story_(story) {}
  bool enabled(LogLevel level, std::string_view target) const override {
    return (story_.keeps() && level >= LogLevel::info) || (target == "queen-s3" && level == LogLevel::info);
  }
  void write(LogLevel level, std::string_view target, std::string_view event,
             std::span<const LogField> fields) override;

 private:
  Story& story_;
};

}  // namespace queen::sim

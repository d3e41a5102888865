// Log lines: an event name plus fields, on a target (operations.md 17). Never a secret, never a payload,
// never one per message.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace queen {

enum class LogLevel : int { trace, debug, info, warn, error };

// One field of a line. Numbers and booleans stay what they are in JSON lines.
struct LogField {
  template <class T>
  LogField(std::string_view name, const T& value)  // NOLINT: built in braces at every call
      : key(name), text(fmt::format("{}", value)), quoted(!std::is_arithmetic_v<T>) {}
  std::string key;
  std::string text;
  bool quoted;
};

// Where lines go. Implementations are thread-safe.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual bool enabled(LogLevel level, std::string_view target) const = 0;
  virtual void write(LogLevel level, std::string_view target, std::string_view event,
                     std::span<const LogField> fields) = 0;
};

// To stdout through spdlog: `<RFC 3339 UTC> <LEVEL> <target>: <event> key=value …`, or one flat JSON object
// per line. `filter` is `level` and `target=level` items, comma separated (`info,rsm=debug`); a filter that
// does not parse acts as `info`.
std::unique_ptr<LogSink> make_stdout_log(std::string_view filter, bool json);
// Drops everything: for tests.
LogSink& null_log();

// A sink, a target and the fields of a scope; cheap to copy. One per room.
class Logger {
 public:
  Logger(LogSink& sink, std::string target) : sink_(&sink), target_(std::move(target)) {}
  Logger with_target(std::string target) const { return {*sink_, std::move(target)}; }
  // A scope inside this one: every line of it begins with `field`.
  Logger inside(LogField field) const {
    Logger out = *this;
    auto fields = scope_ ? *scope_ : std::vector<LogField>();
    fields.push_back(std::move(field));
    out.scope_ = std::make_shared<const std::vector<LogField>>(std::move(fields));
    return out;
  }

  void error(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::error, event, fields);
  }
  void warn(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::warn, event, fields);
  }
  void info(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::info, event, fields);
  }
  void debug(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::debug, event, fields);
  }

 private:
  void write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
    if (!sink_->enabled(level, target_)) return;
    if (!scope_) return sink_->write(level, target_, event, {fields.begin(), fields.size()});
    std::vector<LogField> all = *scope_;
    all.insert(all.end(), fields.begin(), fields.end());
    sink_->write(level, target_, event, all);
  }
  LogSink* sink_;
  std::string target_;
  std::shared_ptr<const std::vector<LogField>> scope_;  // shared by the copies of a logger; null: none
};

}  // namespace queen

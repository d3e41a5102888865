#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <map>
#include <optional>

#include "base/clock.h"
#include "base/text.h"

namespace queen {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"TRACE", "DEBUG", "INFO", "WARN", "ERROR"};

std::optional<LogLevel> parse_level(std::string_view name) {
  const std::string lower = lower_ascii(name);
  if (lower == "trace") return LogLevel::trace;
  if (lower == "debug") return LogLevel::debug;
  if (lower == "info") return LogLevel::info;
  if (lower == "warn") return LogLevel::warn;
  if (lower == "error") return LogLevel::error;
  return std::nullopt;
}

struct Filter {
  LogLevel all = LogLevel::info;
  std::map<std::string, LogLevel, std::less<>> per_target;
};

Filter parse_filter(std::string_view text) {
  Filter filter;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string item = trim(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    if (item.empty()) continue;
    const auto equals = item.find('=');
    const auto level = parse_level(trim(equals == std::string::npos ? item : item.substr(equals + 1)));
    if (!level) return {};
    if (equals == std::string::npos) {
      filter.all = *level;
    } else {
      filter.per_target[trim(item.substr(0, equals))] = *level;
    }
  }
  return filter;
}

class StdoutLog final : public LogSink {
 public:
  StdoutLog(Filter filter, bool json)
      : filter_(std::move(filter)),
        json_(json),
        out_("queen", std::make_shared<spdlog::sinks::stdout_sink_mt>()) {
    out_.set_pattern("%v");
    out_.set_level(spdlog::level::trace);
    out_.flush_on(spdlog::level::trace);
  }

  bool enabled(LogLevel level, std::string_view target) const override {
    const auto found = filter_.per_target.find(target);
    return level >= (found == filter_.per_target.end() ? filter_.all : found->second);
  }

  void write(LogLevel level, std::string_view target, std::string_view event,
             std::span<const LogField> fields) override {
    const std::string now = iso_micros(clock_.wall_us());
    const std::string_view name = kLevelNames[static_cast<std::size_t>(level)];
    std::string line;
    if (json_) {
      line = fmt::format(R"({{"timestamp":"{}","level":"{}","target":{},"message":{})", now, name,
                         json_string(target), json_string(to_valid_utf8(event)));
      for (const LogField& field : fields) {
        line += fmt::format(",{}:{}", json_string(field.key),
                            field.quoted ? json_string(to_valid_utf8(field.text)) : field.text);
      }
      line += '}';
    } else {
      line = fmt::format("{} {} {}: {}", now, name, target, event);
      for (const LogField& field : fields) line += fmt::format(" {}={}", field.key, one_line(field.text));
    }
    out_.log(spdlog::level::info, line);
  }

 private:
  // A value can never begin a line of its own.
  static std::string one_line(std::string text) {
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    }
    return text;
  }
  SystemClock clock_;
  Filter filter_;
  bool json_;
  spdlog::logger out_;
};

class NullLog final : public LogSink {
 public:
  bool enabled(LogLevel, std::string_view) const override { return false; }
  void write(LogLevel, std::string_view, std::string_view, std::span<const LogField>) override {}
};

}  // namespace

std::unique_ptr<LogSink> make_stdout_log(std::string_view filter, bool json) {
  return std::make_unique<StdoutLog>(parse_filter(filter), json);
}

LogSink& null_log() {
  static NullLog log;
  return log;
}

}  // namespace queen

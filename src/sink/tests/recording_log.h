// A log that keeps its lines.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"

namespace queen::sink::test {

struct LogLine {
  LogLevel level;
  std::string event;
  std::map<std::string, std::string> fields;
};
class RecordingLog final : public LogSink {
 public:
  bool enabled(LogLevel, std::string_view) const override { return true; }
  void write(LogLevel level, std::string_view, std::string_view event,
             std::span<const LogField> fields) override {
    LogLine line{.level = level, .event = std::string(event), .fields = {}};
    for (const LogField& field : fields) line.fields[field.key] = field.text;
    lines.push_back(std::move(line));
  }
  std::vector<LogLine> lines;
};

}  // namespace queen::sink::test

#include "sink/detail/setting_reader.h"

#include <charconv>

namespace queen::sink::detail {

std::optional<std::string> SettingReader::text(std::string_view variable) const {
  const auto raw = source_.raw(setting_row(variable));
  if (!raw) return std::nullopt;
  std::string value = trim(*raw);
  if (value.empty()) return std::nullopt;
  return value;
}

std::string SettingReader::required(std::string_view variable) {
  auto value = text(variable);
  if (!value) refuse(fmt::format("{} is not set. {}", name(variable), setting_row(variable).help));
  return value.value_or("");
}

std::int64_t SettingReader::number(std::string_view variable, std::int64_t fallback) {
  const auto value = text(variable);
  if (!value) return fallback;
  const SettingRow& row = setting_row(variable);
  std::int64_t parsed = 0;
  const char* end = value->data() + value->size();
  const auto [stop, code] = std::from_chars(value->data(), end, parsed);
  if (code == std::errc::invalid_argument || stop != end) {
    refuse(fmt::format("{}={} is not a whole number in {}. {}", name(variable), *value, row.range, row.help));
  } else if (code != std::errc() || parsed < row.min || parsed > row.max) {
    refuse(fmt::format("{}={} is outside {}. {}", name(variable), *value, row.range, row.help));
  }
  return parsed;
}

std::int64_t SettingReader::plain_integer(std::string_view variable, std::int64_t fallback) {
  const auto value = text(variable);
  if (!value) return fallback;
  const SettingRow& row = setting_row(variable);
  std::int64_t parsed = 0;
  const char* end = value->data() + value->size();
  const auto [stop, code] = std::from_chars(value->data(), end, parsed);
  if (code != std::errc() || stop != end || parsed < row.min || parsed > row.max)
    refuse(fmt::format("{}={} is not an integer in {}", name(variable), *value, row.range));
  return parsed;
}

bool SettingReader::boolean(std::string_view variable, bool fallback) {
  const auto value = text(variable);
  if (!value) return fallback;
  const std::string word = lower_ascii(*value);
  for (const char* yes : {"true", "1", "yes", "on"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"false", "0", "no", "off"}) {
    if (word == no) return false;
  }
  refuse(fmt::format("{}={} is not a boolean: use true or false", name(variable), *value));
  return fallback;
}

}  // namespace queen::sink::detail

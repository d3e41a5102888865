// Reads settings one by one and keeps the first refusal, so that the lists of settings are plain lists. Used
// for the variables of the environment and for the document of a tenant alike (s3-sink.md 4.5).
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text.h"
#include "sink/settings_table.h"

namespace queen::sink::detail {

// Where values come from, and what a sentence calls a setting.
class SettingSource {
 public:
  virtual ~SettingSource() = default;
  // As written; blank counts as unset.
  virtual std::optional<std::string> raw(const SettingRow& row) const = 0;
  // A setting that was given as a list of names; nothing when it was given as text or not at all.
  virtual std::optional<std::vector<std::string>> list(const SettingRow& row) const = 0;
  virtual std::string name(const SettingRow& row) const = 0;
};

// Settings are asked for by the name of their variable, which settings_table.h holds.
class SettingReader {
 public:
  explicit SettingReader(const SettingSource& source) : source_(source) {}

  std::string name(std::string_view variable) const { return source_.name(setting_row(variable)); }
  // Trimmed.
  std::optional<std::string> text(std::string_view variable) const;
  std::optional<std::vector<std::string>> list(std::string_view variable) const {
    return source_.list(setting_row(variable));
  }
  std::string required(std::string_view variable);
  std::int64_t number(std::string_view variable, std::int64_t fallback);
  // The two variables whose refusal is one sentence for every mistake (s3-sink.md 4.2).
  std::int64_t plain_integer(std::string_view variable, std::int64_t fallback);
  bool boolean(std::string_view variable, bool fallback);

  template <class T>
  struct Choice {
    const char* word;
    T value;
  };
  // `what` as in "is not <what>"; `more` is added after the accepted values.
  template <class T>
  T choice(std::string_view variable, T fallback, const char* what, std::initializer_list<Choice<T>> choices,
           std::string_view more = "") {
    const auto value = text(variable);
    if (!value) return fallback;
    const std::string word = lower_ascii(*value);
    std::string accepted;
    for (const auto& one : choices) {
      if (word == lower_ascii(one.word)) return one.value;
      accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", one.word);
    }
    refuse(fmt::format("{}={} is not {}: use one of {}{}", name(variable), *value, what, accepted, more));
    return fallback;
  }

  void refuse(std::string sentence) {
    if (!refusal_) refusal_ = std::move(sentence);
  }
  const std::optional<std::string>& refusal() const { return refusal_; }

 private:
  const SettingSource& source_;
  std::optional<std::string> refusal_;
};

}  // namespace queen::sink::detail

// The one table of settings: parsing, `queen --help`, the boot log and docs/configuration.md are made from
// it. Classes of bad values: configuration.md 1.1, with the rulings (nothing is ignored silently).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace queen::config {

enum class Kind : std::uint8_t {
  boolean,     // true/1/yes/on, false/0/no/off, any case; blank = default; others stop the boot
  on_switch,   // on unless 0, false, off, no
  off_switch,  // off unless 1, true, on, yes
  integer,     // decimal; one that does not parse = default, outside the range = clamped, each with a warning
  percent,     // 1..100, fractions allowed; others = default with a warning
  text,        // as given
  choice,      // one of `choices`; others = default with a warning
  own,         // read by the room that owns it, by rules of its own
};

struct Row {
  const char* name;
  Kind kind;
  const char* fallback;           // the default, as text; "" = unset
  std::int64_t min = 0, max = 0;  // integers
  const char* unit = "";
  const char* section = "";  // heading in the documentation
  const char* help = "";     // one sentence
  const char* choices = "";  // comma separated
  bool secret = false;       // shown as <unset> or <set:N chars>
};

// Rows of everything but the S3 sink, whose rows its room brings (sink/settings_table.h).
std::span<const Row> engine_rows();

using Lookup = std::function<std::optional<std::string>(std::string_view name)>;

struct Warning {
  std::string name, value, text;  // `value` is empty for secrets
};

class Values {
 public:
  // Reads every row but `own` ones. Errors: invalid, naming variable and value (a boot refusal).
  static Result<Values> read(std::span<const Row> rows, const Lookup& lookup);

  bool flag(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double percent(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  // The variable was set to something that is not blank.
  bool is_set(std::string_view name) const;
  const std::vector<Warning>& warnings() const { return warnings_; }

 private:
  struct Value {
    std::int64_t integer = 0;
    double percent = 0;
    std::string text;
    bool set = false;
  };
  const Value& at(std::string_view name) const;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<Warning> warnings_;
};

// true/1/yes/on or false/0/no/off, any case, trimmed.
std::optional<bool> parse_boolean(std::string_view text);

// One warning per `QUEEN_*` name of `environment` that no row has, with the nearest name that one has.
std::vector<Warning> unknown_names(std::span<const std::string> environment,
                                   std::span<const std::string> known);

// `docs/configuration.md`, and the settings part of --help.
std::string as_markdown(std::span<const Row> rows);
std::string as_help(std::span<const Row> rows);
// `<unset>`, `<set:N chars>` or the value.
std::string masked(const Row& row, const std::string& value);

}  // namespace queen::config

#include "config/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/invariant.h"
#include "base/text.h"

namespace queen::config {
namespace {

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// Letters to change to turn one name into the other (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

bool has_choice(std::string_view choices, std::string_view value) {
  return !value.empty() && fmt::format(",{},", choices).find(fmt::format(",{},", value)) != std::string::npos;
}

std::string range_text(const Row& row) {
  switch (row.kind) {
    case Kind::boolean:
      return "true, false";
    case Kind::on_switch:
    case Kind::off_switch:
      return "on, off";
    case Kind::integer:
      return row.max == INT64_MAX ? fmt::format("from {}", row.min) : fmt::format("{}..{}", row.min, row.max);
    case Kind::percent:
      return "1..100";
    case Kind::choice:
      return std::string(row.choices);
    case Kind::text:
      return "text";
    case Kind::own:
      return std::string(row.choices);
  }
  return "";
}

}  // namespace

std::optional<bool> parse_boolean(std::string_view text) {
  const std::string value = lower_ascii(trim(text));
  if (value == "true" || value == "1" || value == "yes" || value == "on") return true;
  if (value == "false" || value == "0" || value == "no" || value == "off") return false;
  return std::nullopt;
}

namespace {

struct Reading {
  std::int64_t integer = 0;
  double percent = 0;
  std::string text;
  std::string warning;  // not empty: what is used instead
};

Reading default_of(const Row& row) {
  Reading out;
  out.text = row.fallback;
  if (row.kind == Kind::integer) out.integer = parse_integer(row.fallback).value_or(0);
  if (row.kind == Kind::percent) out.percent = parse_number(row.fallback).value_or(0);
  if (row.kind == Kind::boolean || row.kind == Kind::on_switch || row.kind == Kind::off_switch) {
    out.integer = parse_boolean(row.fallback).value_or(false) ? 1 : 0;
  }
  return out;
}

Reading read_integer(const Row& row, const std::string& raw) {
  Reading out = default_of(row);
  const auto value = parse_integer(trim(raw));
  if (!value) {
    out.warning = fmt::format("not a number; {} is used", row.fallback);
    return out;
  }
  // Zero where only positive numbers make sense is a mistake, not a wish for the smallest.
  if (*value <= 0 && row.min > 0) {
    out.warning = fmt::format("not in {}; {} is used", range_text(row), row.fallback);
    return out;
  }
  out.integer = std::clamp(*value, row.min, row.max);
  if (out.integer != *value) out.warning = fmt::format("not in {}; {} is used", range_text(row), out.integer);
  out.text = std::to_string(out.integer);
  return out;
}

Reading read_other(const Row& row, const std::string& raw) {
  Reading out = default_of(row);
  const std::string value = trim(raw);
  switch (row.kind) {
    case Kind::on_switch:
    case Kind::off_switch:
      out.integer = parse_boolean(value).value_or(row.kind == Kind::on_switch) ? 1 : 0;
      out.text = out.integer != 0 ? "on" : "off";
      if (!parse_boolean(value)) out.warning = fmt::format("not on or off; {} is used", out.text);
      break;
    case Kind::percent:
      if (const auto number = parse_number(value); number && *number >= 1 && *number <= 100) {
        out.percent = *number;
        out.text = value;
      } else {
        out.warning =
            fmt::format("not in 1..100; {} is used", *row.fallback == 0 ? "no value" : row.fallback);
      }
      break;
    case Kind::choice:
      if (has_choice(row.choices, lower_ascii(value))) {
        out.text = lower_ascii(value);
      } else {
        out.warning = fmt::format("not one of {}; {} is used", row.choices, row.fallback);
      }
      break;
    default:
      out.text = raw;
  }
  return out;
}

}  // namespace

Result<Values> Values::read(std::span<const Row> rows, const Lookup& lookup) {
  Values out;
  for (const Row& row : rows) {
    if (row.kind == Kind::own) continue;
    const auto raw = lookup(row.name);
    const bool blank = !raw || trim(*raw).empty();
    Reading reading = default_of(row);
    if (raw && row.kind == Kind::text) {
      reading.text = *raw;  // an empty text is a value; who reads it decides
    } else if (!blank && row.kind == Kind::boolean) {
      const auto value = parse_boolean(*raw);
      if (!value) {
        return Error{
            Errc::invalid,
            fmt::format("{}={} is not a boolean: use true, 1, yes, on or false, 0, no, off", row.name, *raw)};
      }
      reading.integer = *value ? 1 : 0;
      reading.text = *value ? "true" : "false";
    } else if (!blank) {
      reading = row.kind == Kind::integer ? read_integer(row, *raw) : read_other(row, *raw);
    }
    if (!reading.warning.empty())
      out.warnings_.push_back({row.name, row.secret ? "" : *raw, reading.warning});
    out.values_[row.name] = Value{reading.integer, reading.percent, reading.text, !blank};
  }
  return out;
}

const Values::Value& Values::at(std::string_view name) const {
  const auto found = values_.find(name);
  INVARIANT(found != values_.end(), "no setting named {}", name);
  return found->second;
}
bool Values::flag(std::string_view name) const {
  return at(name).integer != 0;
}
std::int64_t Values::integer(std::string_view name) const {
  return at(name).integer;
}
double Values::percent(std::string_view name) const {
  return at(name).percent;
}
const std::string& Values::text(std::string_view name) const {
  return at(name).text;
}
bool Values::is_set(std::string_view name) const {
  return at(name).set;
}

std::vector<Warning> unknown_names(std::span<const std::string> environment,
                                   std::span<const std::string> known) {
  std::vector<Warning> out;
  for (const std::string& name : environment) {
    if (!name.starts_with("QUEEN_") || std::find(known.begin(), known.end(), name) != known.end()) continue;
    const auto nearest = std::min_element(
        known.begin(), known.end(),
        [&](const std::string& a, const std::string& b) { return distance(name, a) < distance(name, b); });
    out.push_back(
        {name, "",
         fmt::format("no such setting; the nearest name is {}", nearest == known.end() ? "none" : *nearest)});
  }
  return out;
}

std::string masked(const Row& row, const std::string& value) {
  if (!row.secret) return value;
  return value.empty() ? "<unset>" : fmt::format("<set:{} chars>", value.size());
}

std::string as_markdown(std::span<const Row> rows) {
  std::string out =
      "# Configuration\n\nEvery setting is an environment variable, read once at boot. A bad number is "
      "replaced by the default and a\n"
      "number outside its range is clamped, each with one WARN line; what cannot be guessed stops the boot "
      "with one line that\n"
      "names the variable. With the S3 sink on, any wrong `QUEEN_S3_*` value stops the boot. `HOSTNAME` "
      "(node id, instance name) and\n"
      "`SSL_CERT_FILE` (certificates of the bucket) are read too. This page is made by `queen "
      "--settings-markdown`.\n";
  std::string section;
  for (const Row& row : rows) {
    if (section != row.section) {
      section = row.section;
      out += fmt::format("\n## {}\n\n| Variable | Default | Range | Meaning |\n|---|---|---|---|\n", section);
    }
    const std::string unit = *row.unit == 0 ? "" : fmt::format(" {}", row.unit);
    const std::string fallback = *row.fallback == 0 ? "unset" : fmt::format("`{}`", row.fallback);
    out += fmt::format("| `{}` | {} | {}{} | {} |\n", row.name, fallback, range_text(row), unit, row.help);
  }
  return out;
}

std::string as_help(std::span<const Row> rows) {
  std::string out = "Settings (environment variables):\n";
  std::string section;
  for (const Row& row : rows) {
    if (section != row.section) {
      section = row.section;
      out += fmt::format("\n  {}\n", section);
    }
    const std::string fallback = *row.fallback == 0 ? "unset" : std::string(row.fallback);
    out += fmt::format("    {}={}{}{}\n        {}\n", row.name, fallback, *row.unit == 0 ? "" : " ", row.unit,
                       row.help);
  }
  return out;
}

}  // namespace queen::config

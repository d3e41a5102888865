#include "base/prometheus_text.h"

#include <fmt/format.h>

#include "base/invariant.h"

namespace queen {
namespace {

void append_label(std::string& out, std::string_view value) {
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
}

std::string_view name_of(PrometheusText::Type type) {
  switch (type) {
    case PrometheusText::Type::counter:
      return "counter";
    case PrometheusText::Type::histogram:
      return "histogram";
    case PrometheusText::Type::gauge:
      break;
  }
  return "gauge";
}

}  // namespace

void PrometheusText::family(std::string_view name, Type type, std::string_view help, Shown shown) {
  name_ = name;
  type_ = type;
  help_ = help;
  told_ = false;
  if (shown == Shown::always) tell();
}

void PrometheusText::tell() {
  if (told_) return;
  out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help_, name_, name_of(type_));
  told_ = true;
}

void PrometheusText::begin(std::string_view suffix, const Labels& labels) {
  tell();
  out_.append(name_).append(suffix);
  if (!labels.empty()) {
    char before = '{';
    for (const auto& [name, value] : labels) {
      out_.append(1, before).append(name).append("=\"");
      append_label(out_, value);
      out_ += '"';
      before = ',';
    }
    out_ += '}';
  }
  out_ += ' ';
}

void PrometheusText::sample(const Labels& labels, std::uint64_t value) {
  begin("", labels);
  out_ += fmt::format("{}\n", value);
}

void PrometheusText::sample(const Labels& labels, double value) {
  begin("", labels);
  out_ += fmt::format("{}\n", value);
}

void PrometheusText::histogram(const Labels& labels, std::span<const std::uint64_t> bounds,
                               std::span<const std::uint64_t> counts, std::uint64_t sum) {
  INVARIANT(counts.size() == bounds.size() + 1, "a histogram of {} bounds has {} counts", bounds.size(),
            counts.size());
  std::uint64_t seen = 0;
  Labels with_bound = labels;
  with_bound.emplace_back("le", "");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    seen += counts[i];
    const std::string bound = i < bounds.size() ? fmt::format("{}", bounds[i]) : "+Inf";
    with_bound.back().second = bound;
    begin("_bucket", with_bound);
    out_ += fmt::format("{}\n", seen);
  }
  begin("_sum", labels);
  out_ += fmt::format("{}\n", sum);
  begin("_count", labels);
  out_ += fmt::format("{}\n", seen);
}

}  // namespace queen

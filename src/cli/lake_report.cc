// The report of `queenctl lake verify` as text and as JSON.
#include "base/text.h"
#include "cli/json_line.h"
#include "cli/lake_verify.h"

namespace queen::cli {
namespace {

std::string text_of(const LakeFinding& finding) {
  std::string line = fmt::format("{:<13}", finding.reason);
  if (finding.k > 0) line += fmt::format(" window {}", finding.k);
  if (!finding.key.empty()) line += " " + finding.key;
  if (finding.partition) line += fmt::format(" partition {}", json_string(*finding.partition));
  if (finding.offset) line += fmt::format(" offset {}", *finding.offset);
  return line + ": " + finding.what;
}

std::string json_of(const LakeFinding& finding) {
  JsonObject out;
  out.add("reason", finding.reason);
  finding.k > 0 ? out.add("k", finding.k) : out.raw("k", "null");
  finding.key.empty() ? out.raw("key", "null") : out.add("key", finding.key);
  out.add("partition", finding.partition).add("offset", finding.offset).add("what", finding.what);
  return out.str();
}

std::optional<std::string> instant(std::optional<std::int64_t> us) {
  return us ? std::optional(iso_micros(*us)) : std::nullopt;
}

}  // namespace

std::string LakeReport::as_text() const {
  std::string out;
  for (const auto& finding : findings.kept()) out += text_of(finding) + "\n";
  if (findings.left_out() > 0) out += fmt::format("… and {} more\n", findings.left_out());
  out += fmt::format("queue {} under {}: {} windows, {} objects, {} records, {} bytes", path.queue,
                     path.prefix, windows, objects, records, bytes);
  if (begin) out += fmt::format(", from {} to {}", iso_micros(*begin), iso_micros(*end));
  if (lost > 0) out += fmt::format("; {} records were lost to retention", lost);
  if (with_broker)
    out += fmt::format("; the commit pointer is at window {}, {} records compared with the broker's log",
                       windows_committed, compared);
  out += findings.any() ? "\nWRONG\n" : "\nright\n";
  return out;
}

std::string LakeReport::as_json() const {
  std::string list;
  for (const auto& finding : findings.kept()) list += (list.empty() ? "" : ",\n  ") + json_of(finding);
  JsonObject out;
  out.add("prefix", path.prefix)
      .add("tenant", path.tenant)
      .add("queue", path.queue)
      .add("right", !findings.any())
      .raw("findings", "[" + list + "]")
      .add("findingsLeftOut", findings.left_out())
      .add("windows", windows)
      .add("objects", objects)
      .add("records", records)
      .add("bytes", bytes)
      .add("recordsLost", lost)
      .add("from", instant(begin))
      .add("to", instant(end));
  if (!with_broker) return out.raw("broker", "null").str() + "\n";
  JsonObject broker;
  broker.add("committedWindows", windows_committed).add("recordsCompared", compared);
  return out.raw("broker", broker.str()).str() + "\n";
}

}  // namespace queen::cli

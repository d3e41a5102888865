#include "sink/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <utility>

#include "base/text.h"
#include "sink/settings_table.h"

namespace queen::sink {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::string_view kLead = "QUEEN_S3_EMBEDDED=true: ";

constexpr std::array<std::pair<std::string_view, CrashPoint>, 5> kCrashPoints = {{
    {"after_intent", CrashPoint::after_intent},
    {"mid_upload", CrashPoint::mid_upload},
    {"after_upload", CrashPoint::after_upload},
    {"before_commit", CrashPoint::before_commit},
    {"after_commit", CrashPoint::after_commit},
}};

const SettingRow& row_of(std::string_view name) {
  for (const SettingRow& row : kSettingRows) {
    if (name == row.name) return row;
  }
  return kSettingRows[0];
}

// Reads variables one by one and keeps the first refusal, so that the readers below are plain lists.
class Reader {
 public:
  explicit Reader(const Lookup& lookup) : lookup_(lookup) {}

  std::optional<std::string> text(std::string_view name) const {
    auto raw = lookup_(name);
    if (!raw) return std::nullopt;
    std::string value = trim(*raw);
    if (value.empty()) return std::nullopt;
    return value;
  }

  std::string required(std::string_view name) {
    auto value = text(name);
    if (!value) refuse(fmt::format("{} is not set. {}", name, row_of(name).help));
    return value.value_or("");
  }

  std::int64_t number(std::string_view name, std::int64_t fallback) {
    const auto value = text(name);
    if (!value) return fallback;
    const SettingRow& row = row_of(name);
    std::int64_t parsed = 0;
    const char* end = value->data() + value->size();
    const auto [stop, code] = std::from_chars(value->data(), end, parsed);
    if (code == std::errc::invalid_argument || stop != end) {
      refuse(fmt::format("{}={} is not a whole number in {}. {}", name, *value, row.range, row.help));
    } else if (code != std::errc() || parsed < row.min || parsed > row.max) {
      refuse(fmt::format("{}={} is outside {}. {}", name, *value, row.range, row.help));
    }
    return parsed;
  }

  // The two variables whose refusal is one sentence for every mistake (s3-sink.md 4.2).
  std::int64_t plain_integer(std::string_view name, std::int64_t fallback) {
    const auto value = text(name);
    if (!value) return fallback;
    const SettingRow& row = row_of(name);
    std::int64_t parsed = 0;
    const char* end = value->data() + value->size();
    const auto [stop, code] = std::from_chars(value->data(), end, parsed);
    if (code != std::errc() || stop != end || parsed < row.min || parsed > row.max)
      refuse(fmt::format("{}={} is not an integer in {}", name, *value, row.range));
    return parsed;
  }

  bool boolean(std::string_view name, bool fallback) {
    const auto value = text(name);
    if (!value) return fallback;
    const std::string word = lower_ascii(*value);
    for (const char* yes : {"true", "1", "yes", "on"}) {
      if (word == yes) return true;
    }
    for (const char* no : {"false", "0", "no", "off"}) {
      if (word == no) return false;
    }
    refuse(fmt::format("{}={} is not a boolean: use true or false", name, *value));
    return fallback;
  }

  template <class T>
  struct Choice {
    const char* word;
    T value;
  };
  // `what` as in "is not <what>"; `more` is added after the accepted values.
  template <class T>
  T choice(std::string_view name, T fallback, const char* what, std::initializer_list<Choice<T>> choices,
           std::string_view more = "") {
    const auto value = text(name);
    if (!value) return fallback;
    const std::string word = lower_ascii(*value);
    std::string accepted;
    for (const auto& one : choices) {
      if (word == lower_ascii(one.word)) return one.value;
      accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", one.word);
    }
    refuse(fmt::format("{}={} is not {}: use one of {}{}", name, *value, what, accepted, more));
    return fallback;
  }

  void refuse(std::string sentence) {
    if (!refusal_) refusal_ = Error{Errc::invalid, std::string(kLead) + std::move(sentence)};
  }
  const std::optional<Error>& refusal() const { return refusal_; }

 private:
  const Lookup& lookup_;
  std::optional<Error> refusal_;
};

void read_queues(Reader& reader, UnitSettings& unit) {
  const std::string raw = reader.required("QUEEN_S3_QUEUES");
  if (raw == "*") {
    unit.all_queues = true;
    return;
  }
  std::string_view rest = raw;
  while (true) {
    const auto comma = rest.find(',');
    std::string name = trim(rest.substr(0, comma));
    const bool known = std::find(unit.queues.begin(), unit.queues.end(), name) != unit.queues.end();
    if (name == "*") reader.refuse(fmt::format("QUEEN_S3_QUEUES={} holds a *, which must stand alone", raw));
    if (!name.empty() && !known) unit.queues.push_back(std::move(name));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (unit.queues.empty()) reader.refuse(fmt::format("QUEEN_S3_QUEUES={} names no queue", raw));
}

bool is_port(std::string_view text) {
  unsigned port = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  return code == std::errc() && stop == text.data() + text.size() && port >= 1 && port <= 65'535;
}

// Splits `host[:port]`, where the host may be an IPv6 address in brackets.
std::pair<std::string_view, std::optional<std::string_view>> split_port(std::string_view authority) {
  const auto bracket = authority.rfind(']');
  const auto from = bracket == std::string_view::npos ? 0 : bracket;
  const auto colon = authority.find(':', from);
  if (colon == std::string_view::npos) return {authority, std::nullopt};
  return {authority.substr(0, colon), authority.substr(colon + 1)};
}

std::string read_endpoint(Reader& reader) {
  constexpr const char* kName = "QUEEN_S3_ENDPOINT";
  const std::string raw = reader.required(kName);
  if (raw.empty()) return raw;
  std::string value = raw;
  if (value.ends_with('/')) value.pop_back();
  const std::string lower = lower_ascii(value);
  std::size_t scheme = 0;
  if (lower.starts_with("http://") || lower == "http:/") scheme = 7;
  if (lower.starts_with("https://") || lower == "https:/") scheme = 8;
  if (scheme == 0) {
    reader.refuse(fmt::format("{}={} has no scheme: write http:// or https:// before the host", kName, raw));
    return raw;
  }
  const std::string_view authority = std::string_view(value).substr(std::min(scheme, value.size()));
  if (authority.find_first_of("/?#") != std::string_view::npos) {
    reader.refuse(
        fmt::format("{}={} carries a path: the place inside the bucket is QUEEN_S3_PREFIX", kName, raw));
    return raw;
  }
  const auto [host, port] = split_port(authority);
  if (host.empty() || host.find_first_of(" \t@") != std::string_view::npos)
    reader.refuse(fmt::format("{}={} has no host", kName, raw));
  if (port && !is_port(*port))
    reader.refuse(fmt::format("{}={} has a port that is not one: use 1..=65535", kName, raw));
  return lower.substr(0, scheme) + std::string(authority);
}

std::string read_bucket(Reader& reader) {
  std::string value = reader.required("QUEEN_S3_BUCKET");
  if (value.find_first_of("/ \t") != std::string::npos)
    reader.refuse(fmt::format(
        "QUEEN_S3_BUCKET={} is not a bucket name: the place inside the bucket is QUEEN_S3_PREFIX", value));
  return value;
}

std::string read_prefix(Reader& reader) {
  const auto raw = reader.text("QUEEN_S3_PREFIX");
  if (!raw) return "queen";
  std::string_view value = *raw;
  while (value.starts_with('/')) value.remove_prefix(1);
  while (value.ends_with('/')) value.remove_suffix(1);
  if (value.empty()) {
    reader.refuse(fmt::format("QUEEN_S3_PREFIX={} is empty: name at least one path segment", *raw));
    return "queen";
  }
  std::string_view rest = value;
  while (true) {
    const auto slash = rest.find('/');
    const std::string_view segment = rest.substr(0, slash);
    if (segment.empty() || segment == "." || segment == "..")
      reader.refuse(fmt::format("QUEEN_S3_PREFIX={} has an empty or relative segment \"{}\"", *raw, segment));
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  return std::string(value);
}

std::string read_sink_name(Reader& reader) {
  const std::string value = reader.text("QUEEN_S3_SINK").value_or("default");
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (value.size() > 64 || value.find_first_not_of(kAlphabet) != std::string::npos)
    reader.refuse(fmt::format(
        "QUEEN_S3_SINK={} is not a sink name: use 1..=64 characters of A-Z a-z 0-9 . _ -. It scopes the "
        "KV documents of the sink; two sinks on one queue also use different QUEEN_S3_PREFIX values",
        value));
  return value;
}

void read_sse(Reader& reader, UnitSettings& unit) {
  unit.sse = reader.choice<s3::Sse>(
      "QUEEN_S3_SSE", s3::Sse::off, "a mode",
      {{"AES256", s3::Sse::aes256}, {"aws:kms", s3::Sse::aws_kms}, {"kms", s3::Sse::aws_kms}},
      "; the key of aws:kms is QUEEN_S3_SSE_KMS_KEY_ID");
  unit.sse_kms_key_id = reader.text("QUEEN_S3_SSE_KMS_KEY_ID").value_or("");
  if (!unit.sse_kms_key_id.empty() && unit.sse != s3::Sse::aws_kms)
    reader.refuse(fmt::format("QUEEN_S3_SSE_KMS_KEY_ID is set but QUEEN_S3_SSE={}: it goes with aws:kms only",
                              unit.sse == s3::Sse::aes256 ? "AES256" : "off"));
}

void read_format(Reader& reader, UnitSettings& unit) {
  const std::string word = lower_ascii(reader.text("QUEEN_S3_FORMAT").value_or(""));
  if (word == "parquet") reader.refuse("QUEEN_S3_FORMAT=parquet: this build writes jsonl only");
  unit.kind.format = reader.choice<lake::Format>(
      "QUEEN_S3_FORMAT", lake::Format::jsonl, "a format",
      {{"jsonl", lake::Format::jsonl}, {"json", lake::Format::jsonl}, {"ndjson", lake::Format::jsonl}});
  unit.kind.codec = reader.choice<lake::Codec>("QUEEN_S3_COMPRESSION", lake::Codec::zstd, "a codec",
                                               {{"zstd", lake::Codec::zstd},
                                                {"zst", lake::Codec::zstd},
                                                {"gzip", lake::Codec::gzip},
                                                {"gz", lake::Codec::gzip},
                                                {"none", lake::Codec::none},
                                                {"off", lake::Codec::none}});
  const auto layout = reader.text("QUEEN_S3_LAYOUT");
  const std::string layout_word = lower_ascii(layout.value_or("merged"));
  for (const char* other : {"per-partition", "per_partition", "perpartition"}) {
    if (layout_word == other)
      reader.refuse(fmt::format("QUEEN_S3_LAYOUT={}: this build writes merged only", *layout));
  }
  if (layout_word != "merged")
    reader.refuse(fmt::format("QUEEN_S3_LAYOUT={} is not a layout: use merged", layout.value_or("")));
}

UnitSettings read_unit(Reader& reader) {
  UnitSettings unit;
  read_queues(reader, unit);
  unit.endpoint = read_endpoint(reader);
  unit.region = reader.required("QUEEN_S3_REGION");
  unit.bucket = read_bucket(reader);
  unit.access_key = reader.required("QUEEN_S3_ACCESS_KEY");
  unit.secret_key = reader.required("QUEEN_S3_SECRET_KEY");
  unit.prefix = read_prefix(reader);
  unit.path_style = reader.boolean("QUEEN_S3_PATH_STYLE", false);
  read_sse(reader, unit);
  read_format(reader, unit);
  unit.align = reader.choice<Align>("QUEEN_S3_ALIGN", Align::hour, "an alignment",
                                    {{"hour", Align::hour},
                                     {"hourly", Align::hour},
                                     {"day", Align::day},
                                     {"daily", Align::day},
                                     {"none", Align::none},
                                     {"off", Align::none}});
  unit.start = reader.choice<StartFrom>("QUEEN_S3_START", StartFrom::latest, "a start",
                                        {{"latest", StartFrom::latest},
                                         {"now", StartFrom::latest},
                                         {"end", StartFrom::latest},
                                         {"earliest", StartFrom::earliest},
                                         {"beginning", StartFrom::earliest}});
  unit.target_bytes = static_cast<std::uint64_t>(reader.number("QUEEN_S3_TARGET_MB", 128)) * kMiB;
  unit.max_window_us = reader.number("QUEEN_S3_MAX_WINDOW_MS", 300'000) * 1000;
  unit.sink = read_sink_name(reader);
  return unit;
}

void read_instance(Reader& reader, const SettingsContext& context, NodeSettings& node) {
  const std::string suffix = fmt::format("/node-{}", context.node_id);
  if (auto given = reader.text("QUEEN_S3_INSTANCE")) {
    node.instance = given->ends_with(suffix) ? *given : *given + suffix;
    return;
  }
  std::string host = reader.text("HOSTNAME").value_or(trim(context.os_host_name));
  if (host.empty()) host = "localhost";
  // Node 0 means that the node has no id of its own, so that two of them could not be told apart.
  if (context.node_id == 0) {
    node.instance = fmt::format("s3-{:016x}", context.random_bits);
    node.instance_generated = true;
    return;
  }
  node.instance = fmt::format("node-{}@{}", context.node_id, host);
}

NodeSettings read_node(Reader& reader, const SettingsContext& context) {
  NodeSettings node;
  const int cores = static_cast<int>(std::min(context.cores, 1024U));
  node.threads = static_cast<int>(reader.plain_integer("QUEEN_S3_THREADS", std::clamp(cores / 4, 1, 2)));
  node.shutdown_grace_us = reader.plain_integer("QUEEN_S3_SHUTDOWN_GRACE_MS", 30'000) * 1000;
  node.memory_bytes = static_cast<std::uint64_t>(reader.number("QUEEN_S3_MEMORY_MB", 512)) * kMiB;
  node.fetch_concurrency = static_cast<int>(reader.number("QUEEN_S3_FETCH_CONCURRENCY", 4));
  node.discovery_interval_us = reader.number("QUEEN_S3_DISCOVERY_INTERVAL_MS", 2'000) * 1000;
  node.safe_guard_us = reader.number("QUEEN_S3_SAFE_GUARD_MS", 5'000) * 1000;
  node.lease_ttl_us = reader.number("QUEEN_S3_LEASE_TTL_MS", 30'000) * 1000;
  node.multipart_threshold_bytes =
      static_cast<std::uint64_t>(reader.number("QUEEN_S3_MULTIPART_THRESHOLD_MB", 64)) * kMiB;
  node.checkpoint_every = static_cast<std::uint64_t>(reader.number("QUEEN_S3_CHECKPOINT_EVERY", 20));
  read_instance(reader, context, node);
  const auto point = reader.text("QUEEN_S3_CRASH_AT");
  const std::string word = lower_ascii(point.value_or("never"));
  const auto* found = std::find_if(kCrashPoints.begin(), kCrashPoints.end(),
                                   [&](const auto& one) { return one.first == word; });
  if (found != kCrashPoints.end()) {
    node.crash_at = found->second;
  } else if (word != "never" && word != "off" && word != "none") {
    reader.refuse(
        fmt::format("QUEEN_S3_CRASH_AT={} is not a fault point: use never, after_intent, mid_upload, "
                    "after_upload, before_commit or after_commit",
                    *point));
  }
  return node;
}

}  // namespace

std::string_view name_of(CrashPoint point) {
  for (const auto& [word, value] : kCrashPoints) {
    if (value == point) return word;
  }
  return "never";
}

Result<SinkSettings> read_settings(const Lookup& lookup, const SettingsContext& context) {
  Reader reader(lookup);
  SinkSettings out;
  if (auto partitions = lookup("QUEEN_S3_PARTITIONS"))
    reader.refuse(
        fmt::format("QUEEN_S3_PARTITIONS={} is not supported: partitions are found through POST "
                    "/api/v1/partitions/changed, and a static list has no safeTime to close a window against",
                    *partitions));
  for (const char* name : {"QUEEN_S3_LISTEN", "QUEEN_S3_LOG_FORMAT"}) {
    if (reader.text(name)) out.ignored.emplace_back(name);
  }
  out.node = read_node(reader, context);
  if (reader.text("QUEEN_S3_QUEUES")) {
    out.environment = read_unit(reader);
  } else {
    for (const SettingRow& row : kSettingRows) {
      if (row.scope != SettingScope::queues || !reader.text(row.name)) continue;
      reader.refuse(
          fmt::format("{} is set but QUEEN_S3_QUEUES is not: QUEEN_S3_QUEUES turns the sink of the "
                      "environment on",
                      row.name));
    }
  }
  if (reader.refusal()) return *reader.refusal();
  return out;
}

s3::ClientSettings client_settings(const UnitSettings& unit, const NodeSettings& node) {
  s3::ClientSettings out;
  out.endpoint = unit.endpoint;
  out.region = unit.region;
  out.bucket = unit.bucket;
  out.access_key = unit.access_key;
  out.secret_key = unit.secret_key;
  out.path_style = unit.path_style;
  out.sse = unit.sse;
  out.sse_kms_key_id = unit.sse_kms_key_id;
  out.multipart_threshold_bytes = node.multipart_threshold_bytes;
  return out;
}

}  // namespace queen::sink

#include "sink/detail/unit_reader.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace queen::sink::detail {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;

void add_queue(UnitSettings& unit, std::string name) {
  const bool known = std::find(unit.queues.begin(), unit.queues.end(), name) != unit.queues.end();
  if (!name.empty() && !known) unit.queues.push_back(std::move(name));
}

void read_queue_list(SettingReader& reader, const std::vector<std::string>& names, UnitSettings& unit) {
  const std::string called = reader.name("QUEEN_S3_QUEUES");
  for (const std::string& name : names) {
    if (trim(name) == "*")
      reader.refuse(called + " is a list that holds *, which must stand alone as a string");
    add_queue(unit, trim(name));
  }
  if (unit.queues.empty()) reader.refuse(called + " names no queue");
}

void read_queues(SettingReader& reader, UnitSettings& unit) {
  if (const auto names = reader.list("QUEEN_S3_QUEUES")) return read_queue_list(reader, *names, unit);
  const std::string raw = reader.required("QUEEN_S3_QUEUES");
  if (raw.empty()) return;
  if (raw == "*") {
    unit.all_queues = true;
    return;
  }
  const std::string called = reader.name("QUEEN_S3_QUEUES");
  std::string_view rest = raw;
  while (true) {
    const auto comma = rest.find(',');
    std::string name = trim(rest.substr(0, comma));
    if (name == "*") reader.refuse(fmt::format("{}={} holds a *, which must stand alone", called, raw));
    add_queue(unit, std::move(name));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (unit.queues.empty()) reader.refuse(fmt::format("{}={} names no queue", called, raw));
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

std::string read_endpoint(SettingReader& reader) {
  const std::string called = reader.name("QUEEN_S3_ENDPOINT");
  const std::string raw = reader.required("QUEEN_S3_ENDPOINT");
  if (raw.empty()) return raw;
  std::string value = raw;
  if (value.ends_with('/')) value.pop_back();
  const std::string lower = lower_ascii(value);
  std::size_t scheme = 0;
  if (lower.starts_with("http://") || lower == "http:/") scheme = 7;
  if (lower.starts_with("https://") || lower == "https:/") scheme = 8;
  if (scheme == 0) {
    reader.refuse(fmt::format("{}={} has no scheme: write http:// or https:// before the host", called, raw));
    return raw;
  }
  const std::string_view authority = std::string_view(value).substr(std::min(scheme, value.size()));
  if (authority.find_first_of("/?#") != std::string_view::npos) {
    reader.refuse(fmt::format("{}={} carries a path: the place inside the bucket is {}", called, raw,
                              reader.name("QUEEN_S3_PREFIX")));
    return raw;
  }
  const auto [host, port] = split_port(authority);
  if (host.empty() || host.find_first_of(" \t@") != std::string_view::npos)
    reader.refuse(fmt::format("{}={} has no host", called, raw));
  if (port && !is_port(*port))
    reader.refuse(fmt::format("{}={} has a port that is not one: use 1..=65535", called, raw));
  return lower.substr(0, scheme) + std::string(authority);
}

std::string read_bucket(SettingReader& reader) {
  std::string value = reader.required("QUEEN_S3_BUCKET");
  if (value.find_first_of("/ \t") != std::string::npos)
    reader.refuse(fmt::format("{}={} is not a bucket name: the place inside the bucket is {}",
                              reader.name("QUEEN_S3_BUCKET"), value, reader.name("QUEEN_S3_PREFIX")));
  return value;
}

std::string read_prefix(SettingReader& reader) {
  const auto raw = reader.text("QUEEN_S3_PREFIX");
  if (!raw) return "queen";
  const std::string called = reader.name("QUEEN_S3_PREFIX");
  std::string_view value = *raw;
  while (value.starts_with('/')) value.remove_prefix(1);
  while (value.ends_with('/')) value.remove_suffix(1);
  if (value.empty()) {
    reader.refuse(fmt::format("{}={} is empty: name at least one path segment", called, *raw));
    return "queen";
  }
  std::string_view rest = value;
  while (true) {
    const auto slash = rest.find('/');
    const std::string_view segment = rest.substr(0, slash);
    if (segment.empty() || segment == "." || segment == "..")
      reader.refuse(fmt::format("{}={} has an empty or relative segment \"{}\"", called, *raw, segment));
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  return std::string(value);
}

std::string read_sink_name(SettingReader& reader) {
  const std::string value = reader.text("QUEEN_S3_SINK").value_or("default");
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (value.size() > 64 || value.find_first_not_of(kAlphabet) != std::string::npos)
    reader.refuse(
        fmt::format("{}={} is not a sink name: use 1..=64 characters of A-Z a-z 0-9 . _ -. It scopes the KV "
                    "documents of the "
                    "sink; two sinks on one queue also use different {} values",
                    reader.name("QUEEN_S3_SINK"), value, reader.name("QUEEN_S3_PREFIX")));
  return value;
}

void read_sse(SettingReader& reader, UnitSettings& unit) {
  const std::string kms = reader.name("QUEEN_S3_SSE_KMS_KEY_ID");
  unit.sse = reader.choice<s3::Sse>(
      "QUEEN_S3_SSE", s3::Sse::off, "a mode",
      {{"AES256", s3::Sse::aes256}, {"aws:kms", s3::Sse::aws_kms}, {"kms", s3::Sse::aws_kms}},
      "; the key of aws:kms is " + kms);
  unit.sse_kms_key_id = reader.text("QUEEN_S3_SSE_KMS_KEY_ID").value_or("");
  if (!unit.sse_kms_key_id.empty() && unit.sse != s3::Sse::aws_kms)
    reader.refuse(fmt::format("{} is set but {}={}: it goes with aws:kms only", kms,
                              reader.name("QUEEN_S3_SSE"), unit.sse == s3::Sse::aes256 ? "AES256" : "off"));
}

// Both codecs are read whatever the format is, so that a mistake does not wait for the day of the change.
void read_format(SettingReader& reader, UnitSettings& unit) {
  using lake::Codec;
  using lake::Format;
  unit.kind.format = reader.choice<Format>("QUEEN_S3_FORMAT", Format::jsonl, "a format",
                                           {{"jsonl", Format::jsonl},
                                            {"json", Format::jsonl},
                                            {"ndjson", Format::jsonl},
                                            {"parquet", Format::parquet}});
  const Codec text =
      reader.choice<Codec>("QUEEN_S3_COMPRESSION", Codec::zstd, "a codec",
                           {{"zstd", Codec::zstd},
                            {"zst", Codec::zstd},
                            {"gzip", Codec::gzip},
                            {"gz", Codec::gzip},
                            {"none", Codec::none},
                            {"off", Codec::none}},
                           "; the codec of Parquet is " + reader.name("QUEEN_S3_PARQUET_CODEC"));
  const Codec columns = reader.choice<Codec>(
      "QUEEN_S3_PARQUET_CODEC", Codec::zstd, "a codec",
      {{"zstd", Codec::zstd}, {"zst", Codec::zstd}, {"snappy", Codec::snappy}, {"snap", Codec::snappy}});
  unit.kind.codec = unit.kind.format == Format::parquet ? columns : text;
  unit.layout = reader.choice<Layout>("QUEEN_S3_LAYOUT", Layout::merged, "a layout",
                                      {{"merged", Layout::merged},
                                       {"per-partition", Layout::per_partition},
                                       {"per_partition", Layout::per_partition},
                                       {"perpartition", Layout::per_partition}});
}

void read_times(SettingReader& reader, UnitSettings& unit) {
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
}

}  // namespace

UnitSettings read_unit(SettingReader& reader) {
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
  read_times(reader, unit);
  unit.sink = read_sink_name(reader);
  return unit;
}

}  // namespace queen::sink::detail

#include "sink/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "sink/detail/setting_reader.h"
#include "sink/detail/unit_reader.h"
#include "sink/settings_table.h"

namespace queen::sink {
namespace {

using detail::SettingReader;

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::string_view kLead = "QUEEN_S3_EMBEDDED=true: ";

constexpr std::array<std::pair<std::string_view, CrashPoint>, 5> kCrashPoints = {{
    {"after_intent", CrashPoint::after_intent},
    {"mid_upload", CrashPoint::mid_upload},
    {"after_upload", CrashPoint::after_upload},
    {"before_commit", CrashPoint::before_commit},
    {"after_commit", CrashPoint::after_commit},
}};

class Environment final : public detail::SettingSource {
 public:
  explicit Environment(const Lookup& lookup) : lookup_(lookup) {}
  std::optional<std::string> raw(const SettingRow& row) const override { return lookup_(row.name); }
  std::optional<std::vector<std::string>> list(const SettingRow& /*row*/) const override {
    return std::nullopt;
  }
  std::string name(const SettingRow& row) const override { return row.name; }
  // Of a variable that is no setting of the sink.
  std::string other(std::string_view variable) const { return trim(lookup_(variable).value_or("")); }

 private:
  const Lookup& lookup_;
};

void read_instance(const SettingReader& reader, const Environment& environment,
                   const SettingsContext& context, NodeSettings& node) {
  const std::string suffix = fmt::format("/node-{}", context.node_id);
  if (auto given = reader.text("QUEEN_S3_INSTANCE")) {
    node.instance = given->ends_with(suffix) ? *given : *given + suffix;
    return;
  }
  std::string host = environment.other("HOSTNAME");
  if (host.empty()) host = trim(context.os_host_name);
  if (host.empty()) host = "localhost";
  // Node 0 means that the node has no id of its own, so that two of them could not be told apart.
  if (context.node_id == 0) {
    node.instance = fmt::format("s3-{:016x}", context.random_bits);
    node.instance_generated = true;
    return;
  }
  node.instance = fmt::format("node-{}@{}", context.node_id, host);
}

CrashPoint read_crash_point(SettingReader& reader) {
  const auto point = reader.text("QUEEN_S3_CRASH_AT");
  const std::string word = lower_ascii(point.value_or("never"));
  const auto* found = std::find_if(kCrashPoints.begin(), kCrashPoints.end(),
                                   [&](const auto& one) { return one.first == word; });
  if (found != kCrashPoints.end()) return found->second;
  if (word != "never" && word != "off" && word != "none")
    reader.refuse(
        fmt::format("QUEEN_S3_CRASH_AT={} is not a fault point: use never, after_intent, mid_upload, "
                    "after_upload, before_commit or after_commit",
                    *point));
  return CrashPoint::never;
}

NodeSettings read_node(SettingReader& reader, const Environment& environment,
                       const SettingsContext& context) {
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
  read_instance(reader, environment, context, node);
  node.crash_at = read_crash_point(reader);
  return node;
}

// Any setting of a sink that is set while nothing turns the sink on is a mistake.
void refuse_settings_without_queues(SettingReader& reader) {
  for (const SettingRow& row : kSettingRows) {
    if (row.scope != SettingScope::queues || !reader.text(row.name)) continue;
    reader.refuse(fmt::format(
        "{} is set but QUEEN_S3_QUEUES is not: QUEEN_S3_QUEUES turns the sink of the environment on",
        row.name));
  }
}

}  // namespace

std::string_view name_of(CrashPoint point) {
  for (const auto& [word, value] : kCrashPoints) {
    if (value == point) return word;
  }
  return "never";
}

Result<SinkSettings> read_settings(const Lookup& lookup, const SettingsContext& context) {
  const Environment environment(lookup);
  SettingReader reader(environment);
  SinkSettings out;
  if (const std::string partitions = environment.other("QUEEN_S3_PARTITIONS"); !partitions.empty())
    reader.refuse(
        fmt::format("QUEEN_S3_PARTITIONS={} is not supported: partitions are found through POST "
                    "/api/v1/partitions/changed, and a static list has no safeTime to close a window against",
                    partitions));
  for (const char* name : {"QUEEN_S3_LISTEN", "QUEEN_S3_LOG_FORMAT"}) {
    if (!environment.other(name).empty()) out.ignored.emplace_back(name);
  }
  out.node = read_node(reader, environment, context);
  if (reader.text("QUEEN_S3_QUEUES")) {
    out.environment = detail::read_unit(reader);
  } else {
    refuse_settings_without_queues(reader);
  }
  if (reader.refusal()) return Error{Errc::invalid, std::string(kLead) + *reader.refusal()};
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

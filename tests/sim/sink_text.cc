#include "sink_text.h"

#include <fmt/ranges.h>

#include <array>
#include <map>

namespace queen::sim {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

constexpr const char* kSecret = "hush-hush";
constexpr std::int64_t kMsUsOf = 1000;

struct Mistake {
  const char* name;
  const char* value;
};
constexpr std::array kMistakes = {
    Mistake{"QUEEN_S3_ENDPOINT", "bucket:9000"},
    Mistake{"QUEEN_S3_ENDPOINT", "http://bucket/path"},
    Mistake{"QUEEN_S3_ENDPOINT", "http://bucket:99999"},
    Mistake{"QUEEN_S3_BUCKET", "a/b"},
    Mistake{"QUEEN_S3_BUCKET", " "},
    Mistake{"QUEEN_S3_PREFIX", "/"},
    Mistake{"QUEEN_S3_PREFIX", "a/../b"},
    Mistake{"QUEEN_S3_QUEUES", "q0,*"},
    Mistake{"QUEEN_S3_QUEUES", ","},
    Mistake{"QUEEN_S3_FORMAT", "csv"},
    Mistake{"QUEEN_S3_SSE", "rot13"},
    Mistake{"QUEEN_S3_PATH_STYLE", "perhaps"},
    Mistake{"QUEEN_S3_TARGET_MB", "0"},
    Mistake{"QUEEN_S3_MAX_WINDOW_MS", "soon"},
    Mistake{"QUEEN_S3_SINK", "two words"},
    Mistake{"QUEEN_S3_CRASH_AT", "lunch"},
    Mistake{"QUEEN_S3_PARTITIONS", "p0"},
    Mistake{"QUEEN_S3_LEASE_TTL_MS", "1"},
};

std::string_view word_of(sink::Align align) {
  return align == sink::Align::hour ? "Hour" : align == sink::Align::day ? "daily" : "off";
}

std::string_view word_of(s3::Sse sse) {
  return sse == s3::Sse::aes256 ? "AES256" : sse == s3::Sse::aws_kms ? "aws:kms" : "";
}

Variables variables_of(const sink::SinkSettings& wanted) {
  Variables out;
  const auto& node = wanted.node;
  out["QUEEN_S3_FETCH_CONCURRENCY"] = std::to_string(node.fetch_concurrency);
  out["QUEEN_S3_DISCOVERY_INTERVAL_MS"] = std::to_string(node.discovery_interval_us / kMsUsOf);
  out["QUEEN_S3_SAFE_GUARD_MS"] = std::to_string(node.safe_guard_us / kMsUsOf);
  out["QUEEN_S3_LEASE_TTL_MS"] = fmt::format(" {} ", node.lease_ttl_us / kMsUsOf);
  out["QUEEN_S3_CHECKPOINT_EVERY"] = std::to_string(node.checkpoint_every);
  out["QUEEN_S3_SHUTDOWN_GRACE_MS"] = std::to_string(node.shutdown_grace_us / kMsUsOf);
  out["HOSTNAME"] = "sim";
  const auto& unit = *wanted.environment;
  out["QUEEN_S3_QUEUES"] = unit.all_queues ? "*" : fmt::format("{}", fmt::join(unit.queues, " , "));
  out["QUEEN_S3_ENDPOINT"] = unit.endpoint + "/";
  out["QUEEN_S3_REGION"] = unit.region;
  out["QUEEN_S3_BUCKET"] = unit.bucket;
  out["QUEEN_S3_ACCESS_KEY"] = unit.access_key;
  out["QUEEN_S3_SECRET_KEY"] = unit.secret_key;
  out["QUEEN_S3_PREFIX"] = "/" + unit.prefix + "/";
  out["QUEEN_S3_PATH_STYLE"] = unit.path_style ? "yes" : "";
  out["QUEEN_S3_SSE"] = word_of(unit.sse);
  out["QUEEN_S3_SSE_KMS_KEY_ID"] = unit.sse_kms_key_id;
  out["QUEEN_S3_FORMAT"] = lake::name_of(unit.kind.format);
  const bool parquet = unit.kind.format == lake::Format::parquet;
  out[parquet ? "QUEEN_S3_PARQUET_CODEC" : "QUEEN_S3_COMPRESSION"] = lake::name_of(unit.kind.codec);
  out["QUEEN_S3_LAYOUT"] = unit.layout == sink::Layout::merged ? "merged" : "per-partition";
  out["QUEEN_S3_ALIGN"] = word_of(unit.align);
  out["QUEEN_S3_START"] = unit.start == sink::StartFrom::earliest ? "earliest" : "now";
  out["QUEEN_S3_MAX_WINDOW_MS"] = std::to_string(unit.max_window_us / kMsUsOf);
  out["QUEEN_S3_SINK"] = unit.sink;
  return out;
}

Result<sink::SinkSettings> read(const Variables& variables) {
  return sink::read_settings(
      [&variables](std::string_view name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      {.node_id = 1, .cores = 2, .os_host_name = "elsewhere", .random_bits = 1});
}

bool same(const sink::UnitSettings& one, const sink::UnitSettings& other) {
  return one.all_queues == other.all_queues && one.queues == other.queues && one.endpoint == other.endpoint &&
         one.region == other.region && one.bucket == other.bucket && one.access_key == other.access_key &&
         one.secret_key == other.secret_key && one.prefix == other.prefix &&
         one.path_style == other.path_style && one.sse == other.sse &&
         one.sse_kms_key_id == other.sse_kms_key_id && one.kind.format == other.kind.format &&
         one.kind.codec == other.kind.codec && one.layout == other.layout && one.align == other.align &&
         one.start == other.start && one.max_window_us == other.max_window_us && one.sink == other.sink;
}

bool same(const sink::NodeSettings& one, const sink::NodeSettings& other) {
  return one.fetch_concurrency == other.fetch_concurrency &&
         one.discovery_interval_us == other.discovery_interval_us &&
         one.safe_guard_us == other.safe_guard_us && one.lease_ttl_us == other.lease_ttl_us &&
         one.checkpoint_every == other.checkpoint_every && one.shutdown_grace_us == other.shutdown_grace_us &&
         one.instance == other.instance;
}

void expect_refused(Story& story, Variables variables, const Mistake& mistake) {
  variables[mistake.name] = mistake.value;
  const auto settings = read(variables);
  const bool told = !settings && settings.error().what.find(mistake.name) != std::string::npos &&
                    settings.error().what.find(kSecret) == std::string::npos;
  if (!told)
    story.violate("mistakes in settings are refused", "{}={}: {}", mistake.name, mistake.value,
                  settings ? "taken" : settings.error().what);
}

}  // namespace

sink::SinkSettings through_variables(Story& story, const sink::SinkSettings& wanted, std::uint64_t mistake) {
  sink::SinkSettings asked = wanted;
  asked.environment->secret_key = kSecret;
  const Variables variables = variables_of(asked);
  auto settings = read(variables);
  if (!settings || !settings->environment || !same(*settings->environment, *asked.environment) ||
      !same(settings->node, asked.node)) {
    story.violate("settings are as written", "{}",
                  settings ? sink::start_line(*settings->environment, settings->node, "t", "0")
                           : settings.error().what);
    return wanted;
  }
  if (sink::start_line(*settings->environment, settings->node, "t", "0").find(kSecret) != std::string::npos)
    story.violate("settings are as written", "the start line holds the secret key");
  if (mistake != 0) expect_refused(story, variables, kMistakes[mistake % kMistakes.size()]);
  settings->environment->target_bytes = wanted.environment->target_bytes;
  settings->node.memory_bytes = wanted.node.memory_bytes;
  return *settings;
}

}  // namespace queen::sim

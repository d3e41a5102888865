#include "cli/lake_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sink/settings.h"

namespace queen::cli {
namespace {

constexpr std::string_view kScope = "QUEEN_S3_EMBEDDED=true: ";  // what the node's sentences begin with

// The variables that say where a lake is. Those that only steer a sink are not looked at.
constexpr std::array<std::string_view, 5> kFromEnvironmentToo = {
    "QUEEN_S3_SECRET_KEY", "QUEEN_S3_PATH_STYLE", "QUEEN_S3_PREFIX", "QUEEN_S3_SINK", "QUEEN_S3_ALIGN"};

std::string option_of(const LakeOptions& options, std::string_view name) {
  if (name == "QUEEN_S3_ENDPOINT") return options.endpoint;
  if (name == "QUEEN_S3_REGION") return options.region;
  if (name == "QUEEN_S3_BUCKET") return options.bucket;
  if (name == "QUEEN_S3_PREFIX") return options.prefix;
  if (name == "QUEEN_S3_ACCESS_KEY") return options.access_key;
  if (name == "QUEEN_S3_SINK") return options.sink;
  if (name == "QUEEN_S3_ALIGN") return options.align;
  if (name == "QUEEN_S3_PATH_STYLE") return options.path_style ? "true" : "";
  return "";
}

bool is_needed(std::string_view name) {
  constexpr std::array<std::string_view, 4> kRequired = {"QUEEN_S3_ENDPOINT", "QUEEN_S3_REGION",
                                                         "QUEEN_S3_BUCKET", "QUEEN_S3_ACCESS_KEY"};
  return std::ranges::find(kRequired, name) != kRequired.end() ||
         std::ranges::find(kFromEnvironmentToo, name) != kFromEnvironmentToo.end();
}

}  // namespace

Result<LakeSettings> lake_settings(const LakeOptions& options, const LakeEnvironment& environment) {
  const sink::Lookup lookup = [&](std::string_view name) -> std::optional<std::string> {
    if (name == "QUEEN_S3_QUEUES") return "*";  // the queue is an argument, which may hold a comma
    if (auto option = option_of(options, name); !option.empty()) return option;
    if (is_needed(name)) return environment(name);
    return std::nullopt;
  };
  auto read = sink::read_settings(lookup, {});
  if (!read) {
    Error error = std::move(read).error();
    if (error.what.starts_with(kScope)) error.what.erase(0, kScope.size());
    return error;
  }
  const sink::UnitSettings& unit = *read->environment;
  LakeSettings out;
  out.client = sink::client_settings(unit, read->node);
  out.client.ca_file = environment("SSL_CERT_FILE").value_or("");
  out.client.user_agent = "queenctl";
  out.path = {unit.prefix, options.tenant, options.queue};
  out.sink = unit.sink;
  const auto align = lookup("QUEEN_S3_ALIGN");
  if (align && align->find_first_not_of(' ') != std::string::npos) out.align = unit.align;
  return out;
}

}  // namespace queen::cli

#include <fmt/format.h>

#include <algorithm>

#include "sink/settings.h"

namespace queen::sink {
namespace {

std::string queues_text(const UnitSettings& unit) {
  if (unit.all_queues) return "*";
  std::string out;
  for (const std::string& name : unit.queues) out += (out.empty() ? "" : ",") + name;
  return out;
}

std::string sse_text(const UnitSettings& unit) {
  if (unit.sse == s3::Sse::off) return "off";
  if (unit.sse == s3::Sse::aes256) return "AES256";
  const std::string& id = unit.sse_kms_key_id;
  if (id.empty()) return "aws:kms";
  return fmt::format("aws:kms(…{})",
                     std::string_view(id).substr(id.size() - std::min<std::size_t>(4, id.size())));
}

}  // namespace

std::string start_line(const UnitSettings& unit, const NodeSettings& node, std::string_view tenant,
                       std::string_view version) {
  constexpr std::uint64_t kMiB = 1ULL << 20;
  std::string out = fmt::format(
      "queen-s3 {} tenant={} sink={} instance={}{} queues={} partitions=discovery s3={} bucket={} prefix={} "
      "region={} "
      "addressing={} sse={}",
      version, tenant, unit.sink, node.instance, node.instance_generated ? "(generated)" : "",
      queues_text(unit), unit.endpoint, unit.bucket, unit.prefix, unit.region,
      unit.path_style ? "path-style" : "virtual-host", sse_text(unit));
  out += fmt::format(" format={} compression={} layout={} align={} target_mb={} max_window_ms={} start={}",
                     lake::name_of(unit.kind.format), lake::name_of(unit.kind.codec), name_of(unit.layout),
                     name_of(unit.align), unit.target_bytes / kMiB, unit.max_window_us / 1000,
                     unit.start == StartFrom::latest ? "latest" : "earliest");
  out += fmt::format(
      " checkpoint_every={} memory_mb={} fetch_concurrency={} discovery_interval_ms={} safe_guard_ms={} "
      "lease_ttl_ms={} multipart_threshold_mb={} crash_at={}",
      node.checkpoint_every, node.memory_bytes / kMiB, node.fetch_concurrency,
      node.discovery_interval_us / 1000, node.safe_guard_us / 1000, node.lease_ttl_us / 1000,
      node.multipart_threshold_bytes / kMiB, name_of(node.crash_at));
  return out;
}

}  // namespace queen::sink

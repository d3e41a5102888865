#include "sink/object_builder.h"

#include <algorithm>

#include "base/invariant.h"
#include "s3/digests.h"

namespace queen::sink {
namespace {

Status push_all(lake::RecordWriter& writer, const PlannedPartition& partition) {
  for (const BufferedRecord& record : partition.records) {
    auto status = writer.push({partition.name, record.offset, record.transaction_id, record.ts,
                               record.payload_kind, record.payload});
    if (!status) return status;
  }
  return {};
}

void widen(Manifest& manifest, std::int64_t ts) {
  manifest.min_ts = std::min(manifest.min_ts.value_or(ts), ts);
  manifest.max_ts = std::max(manifest.max_ts.value_or(ts), ts);
}

}  // namespace

std::uint64_t weight_of(std::string_view partition, const BufferedRecord& record) {
  constexpr std::uint64_t kPerRecord = 64;
  constexpr std::uint64_t kNull = 4;
  const std::uint64_t payload =
      record.payload_kind == lake::Payload::null ? kNull : static_cast<std::uint64_t>(record.payload.size());
  return kPerRecord + record.transaction_id.size() + partition.size() + payload;
}

std::size_t object_count(const WindowPlan& plan, Layout layout) {
  return layout == Layout::merged ? 1 : plan.partitions.size();
}

Result<BuiltObject> build_object(const WindowPlan& plan, std::size_t index, const ObjectFrame& frame) {
  const auto& [format, path, align, product_version] = frame;
  INVARIANT(index < object_count(plan, format.layout), "object {} of {}", index,
            object_count(plan, format.layout));
  const auto writer = lake::make_writer(format.kind, {path.queue, path.tenant, product_version});
  const bool merged = format.layout == Layout::merged;
  const std::size_t first = merged ? 0 : index;
  const std::size_t end = merged ? plan.partitions.size() : index + 1;
  for (std::size_t i = first; i < end; ++i)
    if (auto status = push_all(*writer, plan.partitions[i]); !status) return std::move(status).error();
  const std::uint64_t records = writer->records();
  auto bytes = writer->finish();
  if (!bytes) return std::move(bytes).error();

  BuiltObject object;
  if (!merged) {
    const PlannedPartition& only = plan.partitions[index];
    object.entry.run = PartitionRun{only.name, only.records.front().offset, only.records.back().offset};
  }
  object.entry.key = data_key(path, align, plan.bounds, lake::extension(format.kind),
                              object.entry.run ? &*object.entry.run : nullptr);
  object.entry.bytes = bytes->size();
  object.entry.records = records;
  object.entry.sha256 = s3::sha256_hex(*bytes);
  object.content_type = std::string(lake::content_type(format.kind));
  object.body = std::make_shared<const Bytes>(*std::move(bytes));
  return object;
}

Manifest make_manifest(const WindowPlan& plan, std::vector<ManifestObject> objects,
                       const WindowFormat& format, std::string sink, const LakePath& path, std::string writer,
                       std::int64_t committed_at_us) {
  Manifest manifest;
  manifest.sink = std::move(sink);
  manifest.tenant = path.tenant;
  manifest.queue = path.queue;
  manifest.bounds = plan.bounds;
  manifest.format = std::string(lake::name_of(format.kind.format));
  manifest.compression = std::string(lake::name_of(format.kind.codec));
  manifest.layout = std::string(name_of(format.layout));
  manifest.objects = std::move(objects);
  for (const ManifestObject& object : manifest.objects) {
    manifest.records += object.records;
    manifest.bytes += object.bytes;
  }
  manifest.partitions = plan.partitions.size();
  for (const PlannedPartition& partition : plan.partitions)
    for (const BufferedRecord& record : partition.records) widen(manifest, record.ts);
  manifest.lost = plan.lost;
  manifest.writer = std::move(writer);
  manifest.committed_at_us = committed_at_us;
  return manifest;
}

}  // namespace queen::sink

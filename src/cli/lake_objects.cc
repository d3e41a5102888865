#include "cli/lake_objects.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "s3/digests.h"

namespace queen::cli {
namespace {

// An object may be larger than its manifest says and still be worth reading, to tell what is in it; not
// without limit.
std::uint64_t read_limit(std::uint64_t bytes) {
  constexpr std::uint64_t kSlack = 1ULL << 20;
  if (bytes > kObjectBytesMax / 2) return kObjectBytesMax;
  return std::max(2 * bytes, bytes + kSlack);
}

std::string instant_or_none(std::optional<std::int64_t> us) {
  return us ? iso_micros(*us) : "none";
}

}  // namespace

std::optional<lake::Kind> kind_of(const sink::Manifest& manifest) {
  const auto format = lake::parse_format(manifest.format);
  const auto codec = lake::parse_codec(manifest.compression);
  if (!format || !codec || !lake::can_write({*format, *codec})) return std::nullopt;
  return lake::Kind{*format, *codec};
}

void LakeObjects::tell(const char* reason, const sink::Manifest& manifest, const std::string& key,
                       std::string what) {
  findings_.add({reason, manifest.bounds.k, key, std::nullopt, std::nullopt, std::move(what)});
}

void LakeObjects::tell(const char* reason, const sink::Manifest& manifest, const lake::ReadRecord& record,
                       std::string what) {
  findings_.add({reason, manifest.bounds.k, "", record.partition, record.offset, std::move(what)});
}

bool LakeObjects::right_key(const sink::Manifest& manifest, const sink::ManifestObject& object,
                            lake::Kind kind) const {
  const sink::PartitionRun* run = object.run ? &*object.run : nullptr;
  for (const sink::Align align : {sink::Align::hour, sink::Align::day, sink::Align::none}) {
    if (align_ && *align_ != align) continue;
    if (object.key == sink::data_key(bucket_.path(), align, manifest.bounds, lake::extension(kind), run))
      return true;
  }
  return false;
}

void LakeObjects::check_list(const sink::Manifest& manifest, lake::Kind kind) {
  const bool merged = manifest.layout == sink::name_of(sink::Layout::merged);
  if (!merged && manifest.layout != sink::name_of(sink::Layout::per_partition))
    tell("manifest", manifest, "", fmt::format("the layout {} is none", json_string(manifest.layout)));
  if (manifest.objects.empty() || (merged && manifest.objects.size() != 1))
    tell("manifest", manifest, "", fmt::format("it names {} objects", manifest.objects.size()));
  std::uint64_t records = 0, bytes = 0;
  for (const sink::ManifestObject& object : manifest.objects) {
    records += object.records;
    bytes += object.bytes;
    if (object.run.has_value() == merged || !right_key(manifest, object, kind))
      tell("key", manifest, object.key, "it is not the key of this window");
  }
  if (records != manifest.records || bytes != manifest.bytes)
    tell("sums", manifest, "",
         fmt::format("{} records and {} bytes, its objects {} and {}", manifest.records, manifest.bytes,
                     records, bytes));
}

Status LakeObjects::check(const sink::Manifest& manifest, const EachRecord& each) {
  const auto kind = kind_of(manifest);
  if (!kind) {
    tell("manifest", manifest, "",
         fmt::format("format {} with compression {} is none", json_string(manifest.format),
                     json_string(manifest.compression)));
    return {};
  }
  check_list(manifest, *kind);
  Totals totals;
  for (const sink::ManifestObject& object : manifest.objects)
    if (auto done = check_object(manifest, object, totals, each); !done) return done;
  if (totals.whole) check_totals(manifest, totals);
  return {};
}

Status LakeObjects::check_object(const sink::Manifest& manifest, const sink::ManifestObject& object,
                                 Totals& totals, const EachRecord& each) {
  const auto bytes = bucket_.get(object.key, read_limit(object.bytes));
  totals.whole = totals.whole && bytes && *bytes;
  if (!bytes && bytes.error().code != Errc::corrupt) return bytes.error();
  if (!bytes) {
    tell("bytes", manifest, object.key, bytes.error().what);
    return {};
  }
  if (!*bytes) {
    tell("object", manifest, object.key, "it is not in the bucket");
    return {};
  }
  if ((*bytes)->size() != object.bytes)
    tell("bytes", manifest, object.key,
         fmt::format("{} bytes, its manifest says {}", (*bytes)->size(), object.bytes));
  else if (s3::sha256_hex(**bytes) != object.sha256)
    tell("bytes", manifest, object.key, "its sha256 is not the one of its manifest");
  return read(manifest, object, **bytes, totals, each);
}

Status LakeObjects::read(const sink::Manifest& manifest, const sink::ManifestObject& object, BytesView bytes,
                         Totals& totals, const EachRecord& each) {
  const std::uint64_t before = totals.records;
  auto reader = lake::open_object(object.key, bytes);
  if (!reader) {
    totals.whole = false;
    tell("object", manifest, object.key, reader.error().what);
    return {};
  }
  for (;;) {
    const auto record = (*reader)->next();
    if (!record) {
      totals.whole = false;
      tell("object", manifest, object.key, record.error().what);
      return {};
    }
    if (!*record) break;
    check_record(manifest, object, **record, totals);
    if (auto done = each(**record); !done) return done;
  }
  if (totals.records - before != object.records)
    tell("count", manifest, object.key,
         fmt::format("{} records, its manifest says {}", totals.records - before, object.records));
  return {};
}

void LakeObjects::check_record(const sink::Manifest& manifest, const sink::ManifestObject& object,
                               const lake::ReadRecord& record, Totals& totals) {
  if (record.ts < manifest.bounds.t_start || record.ts >= manifest.bounds.t_end)
    tell("ts", manifest, record, fmt::format("stamped {}, outside its window", iso_micros(record.ts)));
  if (const auto& before = totals.before; before) {
    const int names = before->partition.compare(record.partition);
    const bool made_again = record.ts > before->ts;
    if (names > 0 || (names == 0 && record.offset < before->offset && !made_again))
      tell("order", manifest, record, "it stands behind a record that comes after it");
  }
  if (object.run && (record.partition != object.run->partition || record.offset > object.run->last_offset ||
                     record.offset < object.run->first_offset))
    tell("key", manifest, record, "it does not belong into the object that holds it");
  totals.partitions.insert(record.partition);
  totals.min_ts = std::min(totals.min_ts.value_or(record.ts), record.ts);
  totals.max_ts = std::max(totals.max_ts.value_or(record.ts), record.ts);
  totals.before = record;
  totals.before->payload.reset();
  ++totals.records;
}

void LakeObjects::check_totals(const sink::Manifest& manifest, const Totals& totals) {
  if (totals.partitions.size() == manifest.partitions && totals.min_ts == manifest.min_ts &&
      totals.max_ts == manifest.max_ts)
    return;
  tell("summary", manifest, "",
       fmt::format("{} partitions stamped {} to {}, its manifest says {}, {} and {}",
                   totals.partitions.size(), instant_or_none(totals.min_ts), instant_or_none(totals.max_ts),
                   manifest.partitions, instant_or_none(manifest.min_ts), instant_or_none(manifest.max_ts)));
}

}  // namespace queen::cli

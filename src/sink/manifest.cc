#include "sink/manifest.h"

#include <fmt/format.h>

#include "base/text.h"
#include "sink/detail/json_fields.h"

namespace queen::sink {
namespace {

constexpr std::string_view kWhat = "the manifest";

void append_object(std::string& out, const ManifestObject& object) {
  out += fmt::format(R"({{"key":{},"bytes":{},"records":{},"sha256":{})", json_string(object.key),
                     object.bytes, object.records, json_string(object.sha256));
  if (object.run)
    out += fmt::format(R"(,"partition":{},"firstOffset":{},"lastOffset":{})",
                       json_string(object.run->partition), object.run->first_offset, object.run->last_offset);
  out += '}';
}

template <class T, class Append>
void append_list(std::string& out, const std::vector<T>& items, const Append& append) {
  out += '[';
  bool first = true;
  for (const T& item : items) {
    if (!first) out += ',';
    first = false;
    append(out, item);
  }
  out += ']';
}

Result<ManifestObject> parse_object(simdjson::dom::element element) {
  detail::JsonFields fields("an object of the manifest", element);
  ManifestObject object;
  object.key = fields.text("key");
  object.bytes = fields.count("bytes");
  object.records = fields.count("records");
  object.sha256 = fields.text("sha256");
  if (fields.has("partition"))
    object.run =
        PartitionRun{fields.text("partition"), fields.count("firstOffset"), fields.count("lastOffset")};
  if (auto status = fields.status(); !status) return std::move(status).error();
  return object;
}

Result<LostRange> parse_lost(simdjson::dom::element element) {
  detail::JsonFields fields("a lost range of the manifest", element);
  LostRange range{fields.text("partition"), fields.count("from"), fields.count("to")};
  if (range.to < range.from) fields.fail("ends before it begins");
  if (auto status = fields.status(); !status) return std::move(status).error();
  return range;
}

template <class T, class Parse>
void read_list(detail::JsonFields& fields, std::string_view field, std::vector<T>& into, const Parse& parse) {
  const auto list = fields.array(field);
  if (!list) return;
  for (const simdjson::dom::element element : *list) {
    auto item = parse(element);
    if (!item) return fields.fail("is wrong: " + item.error().what);
    into.push_back(*std::move(item));
  }
}

}  // namespace

std::uint64_t count_of(const std::vector<LostRange>& ranges) {
  std::uint64_t sum = 0;
  for (const LostRange& range : ranges) sum += range.count();
  return sum;
}

std::string encode(const Manifest& manifest) {
  std::string out = fmt::format(
      R"({{"sink":{},"tenant":{},"queue":{},"k":{},"tStart":{},"tEnd":{},"format":{},"compression":{},"layout":{})",
      json_string(manifest.sink), json_string(manifest.tenant), json_string(manifest.queue),
      manifest.bounds.k, manifest.bounds.t_start, manifest.bounds.t_end, json_string(manifest.format),
      json_string(manifest.compression), json_string(manifest.layout));
  out += R"(,"objects":)";
  append_list(out, manifest.objects, append_object);
  out += fmt::format(R"(,"records":{},"bytes":{},"partitions":{})", manifest.records, manifest.bytes,
                     manifest.partitions);
  if (manifest.min_ts) out += fmt::format(R"(,"minTs":{})", *manifest.min_ts);
  if (manifest.max_ts) out += fmt::format(R"(,"maxTs":{})", *manifest.max_ts);
  out += R"(,"lost":)";
  append_list(out, manifest.lost, [](std::string& to, const LostRange& range) {
    to += fmt::format(R"({{"partition":{},"from":{},"to":{}}})", json_string(range.partition), range.from,
                      range.to);
  });
  const std::int64_t whole_ms = manifest.committed_at_us / 1000 * 1000;
  out +=
      fmt::format(R"(,"writer":{},"committedAt":"{}"}})", json_string(manifest.writer), iso_micros(whole_ms));
  return out;
}

Result<Manifest> parse_manifest(std::string_view json) {
  simdjson::dom::parser parser;
  auto document = detail::parse_json(parser, json, kWhat);
  if (!document) return std::move(document).error();
  detail::JsonFields fields(std::string(kWhat), *document);
  Manifest manifest;
  manifest.sink = fields.text("sink");
  if (fields.has("tenant")) manifest.tenant = fields.text("tenant");
  manifest.queue = fields.text("queue");
  manifest.bounds = {fields.count("k"), fields.integer("tStart"), fields.integer("tEnd")};
  manifest.format = fields.text("format");
  manifest.compression = fields.text("compression");
  manifest.layout = fields.text("layout");
  read_list(fields, "objects", manifest.objects, parse_object);
  manifest.records = fields.count("records");
  manifest.bytes = fields.count("bytes");
  manifest.partitions = fields.count("partitions");
  if (fields.has("minTs")) manifest.min_ts = fields.integer("minTs");
  if (fields.has("maxTs")) manifest.max_ts = fields.integer("maxTs");
  if (fields.has("lost")) read_list(fields, "lost", manifest.lost, parse_lost);
  manifest.writer = fields.text("writer");
  const auto committed_at = parse_iso_micros_strict(fields.text("committedAt"));
  if (!committed_at) fields.fail("has a committedAt that is no UTC time");
  manifest.committed_at_us = committed_at.value_or(0);
  if (auto status = fields.status(); !status) return std::move(status).error();
  return manifest;
}

bool matches(const Manifest& manifest, const Intent& intent, std::string_view sink, const LakePath& path) {
  const bool same_window = manifest.bounds == intent.bounds;
  const bool same_format = manifest.format == intent.format && manifest.compression == intent.compression &&
                           manifest.layout == intent.layout && manifest.writer == intent.writer;
  const bool same_owner =
      manifest.sink == sink && manifest.tenant == path.tenant && manifest.queue == path.queue;
  return same_window && same_format && same_owner;
}

}  // namespace queen::sink

// What the lake can write: names, extensions, the writer string, and which writer makes it.
#include <fmt/format.h>

#include <utility>

#include "base/invariant.h"
#include "lake/detail/writers.h"
#include "lake/record_writer.h"

namespace queen::lake {
namespace {

constexpr Kind kKinds[] = {{Format::jsonl, Codec::zstd},
                           {Format::jsonl, Codec::gzip},
                           {Format::jsonl, Codec::none},
                           {Format::parquet, Codec::zstd},
                           {Format::parquet, Codec::snappy}};

}  // namespace

std::string_view name_of(Format format) {
  return format == Format::jsonl ? "jsonl" : "parquet";
}

std::string_view name_of(Codec codec) {
  switch (codec) {
    case Codec::zstd:
      return "zstd";
    case Codec::gzip:
      return "gzip";
    case Codec::snappy:
      return "snappy";
    case Codec::none:
      break;
  }
  return "none";
}

std::optional<Format> parse_format(std::string_view name) {
  for (const Format format : {Format::jsonl, Format::parquet})
    if (name == name_of(format)) return format;
  return std::nullopt;
}

std::optional<Codec> parse_codec(std::string_view name) {
  for (const Codec codec : {Codec::zstd, Codec::gzip, Codec::none, Codec::snappy})
    if (name == name_of(codec)) return codec;
  return std::nullopt;
}

bool can_write(Kind kind) {
  for (const Kind& known : kKinds)
    if (known.format == kind.format && known.codec == kind.codec) return true;
  return false;
}

std::string_view extension(Kind kind) {
  if (kind.format == Format::parquet) return "parquet";
  if (kind.codec == Codec::zstd) return "jsonl.zst";
  if (kind.codec == Codec::gzip) return "jsonl.gz";
  return "jsonl";
}

std::string_view content_type(Kind kind) {
  return kind.format == Format::parquet ? "application/vnd.apache.parquet" : "application/x-ndjson";
}

std::string writer_string(Kind kind, std::string_view product_version) {
  if (kind.codec == Codec::none)
    return fmt::format("queen-s3/{} {}/{}", product_version, name_of(kind.format), kWriterGeneration);
  return fmt::format("queen-s3/{} {}+{}/{}", product_version, name_of(kind.format), name_of(kind.codec),
                     kWriterGeneration);
}

std::unique_ptr<RecordWriter> make_writer(Kind kind, Origin origin) {
  INVARIANT(can_write(kind), "no writer for {} with {}", name_of(kind.format), name_of(kind.codec));
  if (kind.format == Format::parquet) return make_parquet_writer(kind.codec, std::move(origin));
  return make_jsonl_writer(kind.codec);
}

}  // namespace queen::lake

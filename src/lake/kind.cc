// Names, extensions and the writer string of what the lake can write.
#include <fmt/format.h>

#include "lake/record_writer.h"

namespace queen::lake {

std::string_view name_of(Format) {
  return "jsonl";
}

std::string_view name_of(Codec codec) {
  switch (codec) {
    case Codec::zstd:
      return "zstd";
    case Codec::gzip:
      return "gzip";
    case Codec::none:
      break;
  }
  return "none";
}

std::optional<Format> parse_format(std::string_view name) {
  if (name == "jsonl") return Format::jsonl;
  return std::nullopt;
}

std::optional<Codec> parse_codec(std::string_view name) {
  for (const Codec codec : {Codec::zstd, Codec::gzip, Codec::none})
    if (name == name_of(codec)) return codec;
  return std::nullopt;
}

std::string_view extension(Kind kind) {
  switch (kind.codec) {
    case Codec::zstd:
      return "jsonl.zst";
    case Codec::gzip:
      return "jsonl.gz";
    case Codec::none:
      break;
  }
  return "jsonl";
}

std::string_view content_type(Kind) {
  return "application/x-ndjson";
}

std::string writer_string(Kind kind, std::string_view product_version) {
  if (kind.codec == Codec::none)
    return fmt::format("queen-s3/{} {}/{}", product_version, name_of(kind.format), kWriterGeneration);
  return fmt::format("queen-s3/{} {}+{}/{}", product_version, name_of(kind.format), name_of(kind.codec),
                     kWriterGeneration);
}

}  // namespace queen::lake

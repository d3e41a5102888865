#include "lake/record_reader.h"

#include <fmt/format.h>

#include "lake/detail/readers.h"

namespace queen::lake {
namespace {

struct Ending {
  std::string_view text;
  Kind kind;  // of Parquet any codec: it is in the file
};
constexpr Ending kEndings[] = {{".jsonl.zst", {Format::jsonl, Codec::zstd}},
                               {".jsonl.gz", {Format::jsonl, Codec::gzip}},
                               {".jsonl", {Format::jsonl, Codec::none}},
                               {".parquet", {Format::parquet, Codec::zstd}}};

std::optional<Kind> kind_of_key(std::string_view key) {
  for (const Ending& ending : kEndings)
    if (key.ends_with(ending.text)) return ending.kind;
  return std::nullopt;
}

}  // namespace

std::optional<Format> format_of_key(std::string_view key) {
  const auto kind = kind_of_key(key);
  return kind ? std::optional(kind->format) : std::nullopt;
}

Result<std::unique_ptr<RecordReader>> open_object(std::string_view key, BytesView object) {
  const auto kind = kind_of_key(key);
  if (!kind) return Error{Errc::invalid, fmt::format("{} has no extension of a lake object", key)};
  return kind->format == Format::parquet ? open_parquet(object) : open_jsonl(kind->codec, object);
}

}  // namespace queen::lake

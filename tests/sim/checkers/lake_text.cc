#include "lake_text.h"

#include <fmt/format.h>
#include <simdjson.h>
#include <zlib.h>
#include <zstd.h>

#include <array>

#include "base/text.h"
#include "lake/record_reader.h"

namespace queen::sim {
namespace {

constexpr std::size_t kChunkBytes = 64 << 10;

Error damaged(std::string_view key, std::string_view why) {
  return {Errc::corrupt, fmt::format("{}: {}", key, why)};
}

Result<Bytes> unzstd(std::string_view key, BytesView object) {
  const auto size = ZSTD_getFrameContentSize(object.data(), object.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN)
    return damaged(key, "no zstd frame that says its size");
  if (ZSTD_findFrameCompressedSize(object.data(), object.size()) != object.size())
    return damaged(key, "not one whole zstd frame");
  Bytes out(size, '\0');
  const std::size_t got = ZSTD_decompress(out.data(), out.size(), object.data(), object.size());
  if (ZSTD_isError(got)) return damaged(key, ZSTD_getErrorName(got));
  return out;
}

Result<Bytes> gunzip(std::string_view key, BytesView object) {
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16;
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) return damaged(key, "zlib does not start");
  Bytes in(object);
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  Bytes out;
  std::array<char, kChunkBytes> chunk;
  int state = Z_OK;
  while (state == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = kChunkBytes;
    state = inflate(&stream, Z_NO_FLUSH);
    out.append(chunk.data(), kChunkBytes - stream.avail_out);
  }
  const bool whole = state == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  if (!whole) return damaged(key, "not one whole gzip member");
  return out;
}

Result<Bytes> plain(std::string_view key, BytesView object) {
  if (key.ends_with(".jsonl.zst")) return unzstd(key, object);
  if (key.ends_with(".jsonl.gz")) return gunzip(key, object);
  if (key.ends_with(".jsonl")) return Bytes(object);
  return Error{Errc::invalid, fmt::format("{}: an extension that is none of JSONL", key)};
}

Result<LakeLine> parse(std::string_view key, std::string_view text, simdjson::dom::parser& parser) {
  simdjson::dom::element json;
  std::string_view partition, stamp;
  LakeLine line;
  line.text = std::string(text);
  const bool sound = parser.parse(text.data(), text.size()).get(json) == simdjson::SUCCESS &&
                     json["partition"].get(partition) == simdjson::SUCCESS &&
                     json["offset"].get(line.offset) == simdjson::SUCCESS &&
                     json["ts"].get(stamp) == simdjson::SUCCESS;
  const auto us = sound ? parse_iso_micros_strict(stamp) : std::nullopt;
  if (!us) return damaged(key, fmt::format("a line that is no record: {}", text));
  line.partition = std::string(partition);
  line.ts = *us;
  return line;
}

}  // namespace

namespace {

// As the same records would stand in JSONL.
Result<std::vector<LakeLine>> rows_of(std::string_view key, BytesView object) {
  auto reader = lake::open_object(key, object);
  if (!reader) return std::move(reader).error();
  std::vector<LakeLine> lines;
  for (;;) {
    auto next = (*reader)->next();
    if (!next) return std::move(next).error();
    if (!next->has_value()) return lines;
    const lake::ReadRecord& record = **next;
    lines.push_back(
        {fmt::format(R"({{"partition":{},"offset":{},"transactionId":{},"ts":"{}","payload":{}}})",
                     json_string(record.partition), record.offset, json_string(record.transaction_id),
                     iso_micros(record.ts), record.payload.value_or("null")),
         record.partition, record.offset, record.ts});
  }
}

}  // namespace

Result<std::vector<LakeLine>> lines_of(std::string_view key, BytesView object) {
  if (key.ends_with(".parquet")) return rows_of(key, object);
  const auto text = plain(key, object);
  if (!text) return text.error();
  simdjson::dom::parser parser;
  std::vector<LakeLine> lines;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = text->find('\n', at);
    if (end == Bytes::npos) return damaged(key, "the last line has no end");
    auto line = parse(key, std::string_view(*text).substr(at, end - at), parser);
    if (!line) return std::move(line).error();
    lines.push_back(std::move(*line));
    at = end + 1;
  }
  return lines;
}

}  // namespace queen::sim

// What the lake's tests share: sample records, the codecs undone, golden files.
#pragma once

#include <zlib.h>
#include <zstd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/text.h"
#include "lake/record_writer.h"
#include "source_dir.h"

namespace queen::lake {

inline constexpr std::int64_t kStamp = 1'794'042'290'991'204;  // 2026-11-07T09:04:50.991204Z

inline std::vector<Record> sample_records() {
  return {
      {"bike-7", 911, "trip-44.a", kStamp, Payload::json, R"({"km":3.10})"},
      {"bike-7", 912, "trip-44.b", kStamp, Payload::json,
       "{\r\n  \"km\": 123456789012345678901234567890,\n  \"t\": \"a\\nb\"\n}"},
      {"caff\xC3\xA8 \"1\"", 0, "t\\\x01\x7F/", kStamp + 1, Payload::null, ""},
      {"caff\xC3\xA8 \"1\"", 1, "sealed", kStamp + 1, Payload::raw_bytes, "a\xFF\"b\n"},
  };
}

inline std::string sample_text() {
  return "{\"partition\":\"bike-7\",\"offset\":911,\"transactionId\":\"trip-44.a\",\"ts\":\"2026-11-07T09:04:"
         "50.991204Z\","
         "\"payload\":{\"km\":3.10}}\n"
         "{\"partition\":\"bike-7\",\"offset\":912,\"transactionId\":\"trip-44.b\",\"ts\":\"2026-11-07T09:04:"
         "50.991204Z\","
         "\"payload\":{    \"km\": 123456789012345678901234567890,   \"t\": \"a\\nb\" }}\n"
         "{\"partition\":\"caff\xC3\xA8 \\\"1\\\"\",\"offset\":0,\"transactionId\":\"t\\\\\\u0001\x7F/\","
         "\"ts\":\"2026-11-07T09:04:50.991205Z\",\"payload\":null}\n"
         "{\"partition\":\"caff\xC3\xA8 \\\"1\\\"\",\"offset\":1,\"transactionId\":\"sealed\","
         "\"ts\":\"2026-11-07T09:04:50.991205Z\",\"payload\":\"a\xEF\xBF\xBD\\\"b\\n\"}\n";
}

inline constexpr Kind kKinds[] = {{Format::jsonl, Codec::zstd},
                                  {Format::jsonl, Codec::gzip},
                                  {Format::jsonl, Codec::none},
                                  {Format::parquet, Codec::zstd},
                                  {Format::parquet, Codec::snappy}};

inline Origin sample_origin() {
  return {"rides", "00000000-0000-0000-0000-000000000001", "1.2.3"};
}

inline Bytes filled(RecordWriter& writer, const std::vector<Record>& records) {
  for (const Record& record : records) {
    if (!writer.push(record)) return "push was refused";
  }
  auto object = writer.finish();
  return object ? *object : "finish was refused";
}

inline Bytes object_of(Kind kind, const std::vector<Record>& records) {
  return filled(*make_writer(kind, sample_origin()), records);
}
inline Bytes object_of(Codec codec, const std::vector<Record>& records) {
  return object_of({Format::jsonl, codec}, records);
}

inline Bytes gunzip(const Bytes& object, std::size_t size_max) {
  Bytes text(size_max, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return "inflateInit2";
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(object.data()));
  stream.avail_in = static_cast<uInt>(object.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  const int code = inflate(&stream, Z_FINISH);
  text.resize(stream.total_out);
  const bool whole = code == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  return whole ? text : "not one whole gzip member";
}

inline Bytes unzstd(const Bytes& object, std::size_t size_max) {
  Bytes text(size_max, '\0');
  const std::size_t size = ZSTD_decompress(text.data(), text.size(), object.data(), object.size());
  if (ZSTD_isError(size)) return ZSTD_getErrorName(size);
  text.resize(size);
  return text;
}

inline Bytes decoded(Codec codec, const Bytes& object, std::size_t size_max = 1 << 20) {
  if (codec == Codec::zstd) return unzstd(object, size_max);
  if (codec == Codec::gzip) return gunzip(object, size_max);
  return object;
}

// A file of tests/golden/lake: hex digits, white space between them does not count.
inline Bytes golden(const std::string& name) {
  std::ifstream file(source_dir() + "/tests/golden/lake/" + name);
  std::string digits;
  for (std::istreambuf_iterator<char> at(file), end; at != end; ++at)
    if (*at != '\n' && *at != ' ') digits.push_back(*at);
  return hex_decode(digits).value_or("not hex");
}

}  // namespace queen::lake

// Records in, deterministic object bytes out (s3-sink.md 15; docs/formats/lake.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace queen::lake {

// Raised by whoever changes a byte that any writer produces; a golden-bytes test guards it (rulings, S3 sink
// 5).
inline constexpr int kWriterGeneration = 1;

enum class Format : std::uint8_t { jsonl, parquet };
enum class Codec : std::uint8_t { zstd, gzip, none, snappy };
std::string_view name_of(Format format);  // `jsonl`, `parquet`
std::string_view name_of(Codec codec);    // `zstd`, `gzip`, `none`, `snappy`
std::optional<Format> parse_format(std::string_view name);
std::optional<Codec> parse_codec(std::string_view name);

struct Kind {
  Format format = Format::jsonl;
  Codec codec = Codec::zstd;
};
// Whether there is a writer for it: JSONL with zstd, gzip, none; Parquet with zstd, snappy.
bool can_write(Kind kind);
std::string_view extension(Kind kind);     // `jsonl.zst`, `jsonl.gz`, `jsonl`, `parquet`
std::string_view content_type(Kind kind);  // `application/x-ndjson`, `application/vnd.apache.parquet`
// `queen-s3/<product version> jsonl+zstd/<generation>`; without codec `queen-s3/<product version>
// jsonl/<generation>`; Parquet as JSONL.
std::string writer_string(Kind kind, std::string_view product_version);

// How the payload of a record stands in the lake.
enum class Payload : std::uint8_t {
  json,      // one JSON document: written byte for byte, raw LF and CR as one blank each
  null,      // written `null`
  raw_bytes  // not JSON, or not decryptable here: written as a JSON string, invalid UTF-8 as U+FFFD
};

struct Record {  // views borrowed until push() returns
  std::string_view partition;
  std::uint64_t offset = 0;
  std::string_view transaction_id;
  std::int64_t ts = 0;  // µs
  Payload payload_kind = Payload::json;
  std::string_view payload;
};

// Builds one object. Single use. Not thread-safe.
class RecordWriter {
 public:
  virtual ~RecordWriter() = default;
  // Order: (partition bytes, offset) strictly ascending; offsets may restart only where `ts` is greater than
  // the record before (a partition made again). Errors: invalid (disorder, or after finish()), naming
  // partition and offset; unavailable (the codec has no memory), after which the object is lost.
  virtual Status push(const Record& record) = 0;
  // The whole object. Zero records give a valid empty object. Errors: invalid on a second call,
  // unavailable as push().
  virtual Result<Bytes> finish() = 0;
  virtual std::uint64_t records() const = 0;
};

// What a Parquet file says about itself in its footer; JSONL says nothing. Copied by make_writer().
struct Origin {
  std::string queue, tenant;    // a file of zero records names neither
  std::string product_version;  // `created_by` (HD-24)
};
// `kind` is one that can_write().
std::unique_ptr<RecordWriter> make_writer(Kind kind, Origin origin);

}  // namespace queen::lake

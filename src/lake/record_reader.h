// Object bytes back into records: for whoever checks or shows a lake (docs/formats/lake.md). The bytes come
// from a bucket and are hostile: every length is checked, nothing is inflated past a limit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "lake/record_writer.h"

namespace queen::lake {

// One record as it stands in the object.
struct ReadRecord {
  std::string partition;
  std::uint64_t offset = 0;
  std::string transaction_id;
  std::int64_t ts = 0;                 // µs
  std::optional<std::string> payload;  // JSON text; nothing for null
};

// Reads one object from front to back. Not thread-safe. Memory: one decoded row group or one block of text.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  // The next record, nothing after the last one. Errors: corrupt (damaged, cut off, or not an object that our
  // writers make), which every later call repeats.
  virtual Result<std::optional<ReadRecord>> next() = 0;
};

// By the extension of a key: `jsonl.zst`, `jsonl.gz`, `jsonl`, `parquet` (whose codec is in the file).
std::optional<Format> format_of_key(std::string_view key);

// `object` is borrowed for the life of the reader; `key` says the format. Reads what our writers write, of
// any codec. Errors: invalid (an extension that is none of ours), corrupt (the footer).
Result<std::unique_ptr<RecordReader>> open_object(std::string_view key, BytesView object);

}  // namespace queen::lake

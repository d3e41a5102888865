// What a Parquet file says about itself: page headers and the footer, to and from bytes
// (docs/formats/lake.md, "Parquet"). The one place that knows Thrift is the .cc file: its headers are heavy,
// and it throws.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "lake/record_writer.h"

namespace queen::lake {

// In the order of the schema.
enum class Column : std::uint8_t { partition, offset, transaction_id, ts, payload };
inline constexpr std::size_t kColumns = 5;
inline constexpr std::array<Column, kColumns> kAllColumns = {
    Column::partition, Column::offset, Column::transaction_id, Column::ts, Column::payload};
std::string_view name_of(Column column);

// Numbers of the format.
enum class Encoding : std::int32_t { plain = 0, rle = 3, delta_binary_packed = 5, rle_dictionary = 8 };
enum class PageType : std::int32_t { data = 0, dictionary = 2 };

inline constexpr std::uint64_t kRowGroupRowsMax = 100'000;
inline constexpr std::uint64_t kRowGroupBytesMax = 512ULL << 20;
inline constexpr std::uint32_t kPageRowsMax = 20'000;
inline constexpr std::size_t kPageBytesMax = 1 << 20;  // of values; one value above it has a page of its own
// No value of a record is larger: an entry of the log has at most 96 MiB, of which a byte that is no JSON
// becomes six.
inline constexpr std::size_t kValueBytesMax = 640 << 20;

struct PageFacts {
  PageType type = PageType::data;
  Encoding encoding = Encoding::plain;
  std::uint32_t values = 0;
  std::uint32_t plain_bytes = 0;   // before compression
  std::uint32_t stored_bytes = 0;  // as it stands in the file, without its header
};
void append_page_header(Bytes& to, const PageFacts& page);
// Reads a header off the front of `bytes` and gives its size. Errors: corrupt.
Result<std::pair<PageFacts, std::size_t>> read_page_header(BytesView bytes);

// The bounds of a chunk's values as PLAIN bytes; absent when there is none (all null, or HD-23: a maximum
// that cannot be raised).
struct Bound {
  std::optional<std::string> value;
  bool exact = true;  // false: truncated, so it is a bound and no value
};
struct ChunkFacts {
  std::uint64_t values = 0;  // nulls included
  std::uint64_t nulls = 0;
  std::uint64_t plain_bytes = 0;            // pages before compression, with their headers
  std::uint64_t stored_bytes = 0;           // pages as they stand, with their headers
  std::uint64_t at = 0;                     // of the first page in the file
  std::uint64_t dictionary_page_bytes = 0;  // with its header; 0: the chunk has none
  std::uint32_t dictionary_data_pages = 0;  // whose values are indices into the dictionary
  std::uint32_t other_data_pages = 0;
  Bound min, max;
};
struct RowGroupFacts {
  std::uint64_t rows = 0;
  std::array<ChunkFacts, kColumns> chunks;
};
struct FileFacts {
  Codec codec = Codec::zstd;  // zstd or snappy, in every column
  Origin origin;
  std::vector<RowGroupFacts> row_groups;
};

// The footer, without its length and the magic around it.
Bytes encode_footer(const FileFacts& file);

// The part of a footer that is needed to read the records.
struct ChunkPlace {
  std::uint64_t at = 0;
  std::uint64_t stored_bytes = 0;
};
struct RowGroupPlace {
  std::uint64_t rows = 0;
  std::array<ChunkPlace, kColumns> chunks;
};
struct FilePlan {
  Codec codec = Codec::zstd;
  std::vector<RowGroupPlace> row_groups;
};
// Takes a footer of ours only: our schema, 1 to kRowGroupRowsMax rows in each group, one codec, every chunk
// inside the first `pages_end` bytes of the file. Errors: corrupt. Memory: a small multiple of the footer's
// size.
Result<FilePlan> decode_footer(BytesView footer, std::uint64_t pages_end);

}  // namespace queen::lake

// The columns of an open row group: values in, pages out (docs/formats/lake.md, "Parquet"). Each column
// closes its pages by its own values. finish() ends the row group for its column; the next one begins empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "lake/detail/bounds.h"
#include "lake/detail/chunk_pages.h"
#include "lake/detail/rle_hybrid.h"

namespace queen::lake {

// DELTA_BINARY_PACKED.
class Int64Column {
 public:
  explicit Int64Column(PageCompressor& compressor) : pages_(compressor) {}
  void push(std::int64_t value);
  Result<ChunkFacts> finish(Bytes& object);

 private:
  void close_page();

  ChunkPages pages_;
  std::vector<std::int64_t> page_;
  Bytes packed_;
  Int64Bounds bounds_;
};

enum class Nulls : bool { never, allowed };

// PLAIN. A value is copied once, to where its page is compressed from.
class TextColumn {
 public:
  TextColumn(PageCompressor& compressor, Nulls nulls);
  void push(BytesView value);
  void push_null();
  Result<ChunkFacts> finish(Bytes& object);

 private:
  void make_room(std::size_t value_bytes);
  void add_level(bool present);
  void close_page();
  // The levels, written in front of the values; gives where they begin.
  std::size_t write_levels();

  const std::size_t level_room_;  // in front of the values, as much as the levels can need
  ChunkPages pages_;
  Bytes page_;    // room for the levels, then the values
  Bytes levels_;  // one bit a row, 1 for a value; kept only where nulls are allowed
  std::uint32_t rows_ = 0, nulls_in_page_ = 0;
  std::uint64_t nulls_ = 0;
  TextBounds bounds_;
};

// Of names that come in runs, each name in one run of its row group: a dictionary needs no look-up then. When
// the dictionary page is full the rest of the chunk is PLAIN.
class NameColumn {
 public:
  explicit NameColumn(PageCompressor& compressor) : pages_(compressor) {}
  void push(BytesView name);
  Result<ChunkFacts> finish(Bytes& object);

 private:
  bool in_dictionary(BytesView name);
  void push_plain(BytesView name);
  void close_page();

  ChunkPages pages_;
  Bytes dictionary_;  // PLAIN
  std::uint32_t names_ = 0;
  std::optional<std::string> last_;
  bool full_ = false;  // from here on PLAIN
  std::uint32_t rows_ = 0;
  std::vector<Run> runs_;  // of the open page, while it is indices
  Bytes page_;             // of the open page, while it is PLAIN
  TextBounds bounds_;
};

}  // namespace queen::lake

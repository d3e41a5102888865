// The pages of one column chunk while its row group is open: each is compressed as soon as it is full, so
// that what waits for the end of the row group is compressed.
#pragma once

#include <optional>

#include "base/bytes.h"
#include "base/result.h"
#include "lake/detail/page_codec.h"
#include "lake/detail/parquet_meta.h"

namespace queen::lake {

class ChunkPages {
 public:
  // `compressor` is borrowed for life; the columns of a file share it.
  explicit ChunkPages(PageCompressor& compressor) : compressor_(compressor) {}

  // Adds a data page of `values` rows whose bytes before compression are `plain`, borrowed until return. What
  // fails is kept for finish().
  void add_data(Encoding encoding, std::uint32_t values, BytesView plain);
  // Appends the chunk to `object`, in front of its data pages the dictionary page of `dictionary_values`
  // entries where there are any, and gives its facts but the bounds and nulls. The next chunk may begin.
  // Errors: unavailable.
  Result<ChunkFacts> finish(Bytes& object, BytesView dictionary, std::uint32_t dictionary_values);

 private:
  // Appends header and page; what it adds to the chunk's sizes it adds to `facts_`.
  void append(Bytes& to, PageFacts page, BytesView plain);

  PageCompressor& compressor_;
  Bytes pages_;
  ChunkFacts facts_;
  std::optional<Error> failed_;
};

}  // namespace queen::lake

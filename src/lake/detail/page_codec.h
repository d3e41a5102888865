// Compresses the pages of Parquet files and back.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "lake/detail/zstd_parameters.h"
#include "lake/record_writer.h"

namespace queen::lake {

// Not thread-safe. Keeps its memory from page to page: what the largest page needs.
class PageCompressor {
 public:
  // `codec` is zstd or snappy.
  explicit PageCompressor(Codec codec) : codec_(codec) {}
  // The page, good until the next call. Errors: unavailable (no memory).
  Result<BytesView> compress(BytesView plain);

 private:
  Result<std::size_t> compress_zstd(BytesView plain);

  const Codec codec_;
  ZstdContext zstd_{nullptr, ZSTD_freeCCtx};
  Bytes scratch_;
};

// Exactly `plain_bytes` bytes, which the caller has found reasonable. Errors: corrupt.
Result<Bytes> decompress_page(Codec codec, BytesView stored, std::size_t plain_bytes);

}  // namespace queen::lake

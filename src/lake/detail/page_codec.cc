#include "lake/detail/page_codec.h"

#include <fmt/format.h>
#include <snappy.h>

#include <algorithm>

namespace queen::lake {

Result<BytesView> PageCompressor::compress(BytesView plain) {
  const std::size_t room =
      codec_ == Codec::zstd ? ZSTD_compressBound(plain.size()) : snappy::MaxCompressedLength(plain.size());
  if (scratch_.size() < room) scratch_.resize(room);
  std::size_t size = 0;
  if (codec_ == Codec::zstd) {
    const auto compressed = compress_zstd(plain);
    if (!compressed) return compressed.error();
    size = *compressed;
  } else {
    snappy::RawCompress(plain.data(), plain.size(), scratch_.data(), &size);
  }
  return BytesView(scratch_).substr(0, size);
}

Result<std::size_t> PageCompressor::compress_zstd(BytesView plain) {
  if (!zstd_) {
    auto made = make_zstd_context();
    if (!made) return std::move(made).error();
    zstd_ = *std::move(made);
  }
  const std::size_t code =
      ZSTD_compress2(zstd_.get(), scratch_.data(), scratch_.size(), plain.data(), plain.size());
  if (ZSTD_isError(code))
    return Error{Errc::unavailable,
                 fmt::format("zstd could not compress a page: {}", ZSTD_getErrorName(code))};
  return code;
}

Result<Bytes> decompress_page(Codec codec, BytesView stored, std::size_t plain_bytes) {
  const auto damaged = [&] {
    return Error{Errc::corrupt, fmt::format("{} bytes are no {} page of {} bytes", stored.size(),
                                            name_of(codec), plain_bytes)};
  };
  Bytes plain;
  if (codec == Codec::snappy) {
    std::size_t size = 0;
    if (!snappy::GetUncompressedLength(stored.data(), stored.size(), &size) || size != plain_bytes)
      return damaged();
    plain.resize(size);
    if (!snappy::RawUncompress(stored.data(), stored.size(), plain.data())) return damaged();
    return plain;
  }
  // One frame that says its size: nothing is allocated for a page that lies about it.
  if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != plain_bytes) return damaged();
  if (ZSTD_findFrameCompressedSize(stored.data(), stored.size()) != stored.size()) return damaged();
  plain.resize(plain_bytes);
  const std::size_t code = ZSTD_decompress(plain.data(), plain.size(), stored.data(), stored.size());
  if (code != plain_bytes) return damaged();
  return plain;
}

}  // namespace queen::lake

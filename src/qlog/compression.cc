// The zstd form of a payload section: docs/formats/qlog.md "Compression".
#include <fmt/format.h>
#include <zstd.h>

#include <memory>

#include "base/invariant.h"
#include "qlog/record.h"

namespace queen::qlog {
namespace {

ZSTD_CCtx* context_of(void* held) {
  return static_cast<ZSTD_CCtx*>(held);
}

Result<std::uint64_t> content_size(BytesView stored) {
  const auto size = ZSTD_getFrameContentSize(stored.data(), stored.size());
  if (size == ZSTD_CONTENTSIZE_ERROR) return Error{Errc::corrupt, "payload is not a zstd frame"};
  if (size == ZSTD_CONTENTSIZE_UNKNOWN) return Error{Errc::corrupt, "zstd frame without a content size"};
  if (size > kRecordBytesMax)
    return Error{Errc::corrupt, fmt::format("zstd content size {} is above {}", size, kRecordBytesMax)};
  return std::uint64_t{size};
}

// One for each thread that reads: a context takes longer to make than a payload to unpack.
ZSTD_DCtx* decompressor() {
  using Context = std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)>;
  static thread_local const Context context(ZSTD_createDCtx(), &ZSTD_freeDCtx);
  INVARIANT(context != nullptr, "no memory for a zstd context");
  return context.get();
}

}  // namespace

PayloadCompressor::PayloadCompressor() : context_(ZSTD_createCCtx()) {
  INVARIANT(context_ != nullptr, "no memory for a zstd context");
}

PayloadCompressor::~PayloadCompressor() {
  ZSTD_freeCCtx(context_of(context_));
}

std::optional<Bytes> PayloadCompressor::compress(BytesView raw, int level) {
  if (level == 0 || raw.size() < kCompressFromBytes) return std::nullopt;
  // Room for the largest form worth keeping, no more: zstd gives up as soon as it does not fit.
  Bytes stored(raw.size() / 10 * 9 + raw.size() % 10 * 9 / 10, '\0');
  const std::size_t size =
      ZSTD_compressCCtx(context_of(context_), stored.data(), stored.size(), raw.data(), raw.size(), level);
  if (ZSTD_isError(size) != 0) return std::nullopt;
  stored.resize(size);
  return stored;
}

std::optional<Bytes> compress_payload(BytesView raw, int level) {
  if (level == 0 || raw.size() < kCompressFromBytes) return std::nullopt;
  return PayloadCompressor().compress(raw, level);
}

Result<std::uint64_t> raw_payload_bytes(const Record& record) {
  if (!record.compressed) return std::uint64_t{record.payload().size()};
  return content_size(record.payload());
}

Result<Bytes> decompress_payload(BytesView stored) {
  const auto size = content_size(stored);
  if (!size) return size.error();
  if (ZSTD_findFrameCompressedSize(stored.data(), stored.size()) != stored.size())
    return Error{Errc::corrupt, "payload is not exactly one zstd frame"};
  Bytes raw(*size, '\0');
  const std::size_t got =
      ZSTD_decompressDCtx(decompressor(), raw.data(), raw.size(), stored.data(), stored.size());
  if (ZSTD_isError(got) != 0 || got != *size) return Error{Errc::corrupt, "zstd frame is damaged"};
  return raw;
}

Result<Bytes> decompress_foreign(BytesView compressed, std::uint64_t bytes_max) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), &ZSTD_freeDCtx);
  INVARIANT(context != nullptr, "no memory for a zstd context");
  if (compressed.empty()) return Error{Errc::corrupt, "no zstd frame"};
  Bytes raw;
  Bytes piece(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer in{compressed.data(), compressed.size(), 0};
  std::size_t wants = 1;  // 0: at the end of a frame
  bool filled = false;    // the last piece was full, and more of it may come without input
  while (in.pos < in.size || filled) {
    ZSTD_outBuffer out{piece.data(), piece.size(), 0};
    wants = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(wants) != 0) return Error{Errc::corrupt, "the zstd frame is damaged"};
    if (raw.size() + out.pos > bytes_max)
      return Error{Errc::full, fmt::format("more than {} bytes decompressed", bytes_max)};
    raw.append(piece, 0, out.pos);
    filled = out.pos == out.size && wants != 0;
  }
  if (wants != 0) return Error{Errc::corrupt, "the zstd frame ends early"};
  return raw;
}

}  // namespace queen::qlog

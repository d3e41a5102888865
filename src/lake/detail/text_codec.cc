#include "lake/detail/text_codec.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "lake/detail/zstd_parameters.h"

namespace queen::lake {
namespace {

constexpr std::size_t kOutputStepBytes = 1 << 20;
constexpr std::size_t kZlibInputBytesMax = 1 << 30;  // its counters have 32 bits

std::uint64_t size_of(const std::deque<Bytes>& pieces) {
  std::uint64_t size = 0;
  for (const Bytes& piece : pieces) size += piece.size();
  return size;
}

Error codec_failed(std::string_view codec, std::string_view why) {
  return {Errc::unavailable, fmt::format("{} could not compress an object: {}", codec, why)};
}

// Feeds one piece; `last` also ends the frame.
Status feed_zstd(ZSTD_CCtx* context, const Bytes& piece, bool last, Bytes& out) {
  ZSTD_inBuffer in{piece.data(), piece.size(), 0};
  for (;;) {
    const std::size_t before = out.size();
    out.resize(before + kOutputStepBytes);
    ZSTD_outBuffer to{out.data() + before, kOutputStepBytes, 0};
    const std::size_t left = ZSTD_compressStream2(context, &to, &in, last ? ZSTD_e_end : ZSTD_e_continue);
    out.resize(before + to.pos);
    if (ZSTD_isError(left)) return codec_failed("zstd", ZSTD_getErrorName(left));
    if (last ? left == 0 : in.pos == in.size) return {};
  }
}

Result<Bytes> encode_zstd(std::deque<Bytes> pieces) {
  const auto context = make_zstd_context();
  if (!context) return context.error();
  const std::uint64_t text_bytes = size_of(pieces);
  const std::size_t pledged = ZSTD_CCtx_setPledgedSrcSize(context->get(), text_bytes);
  if (ZSTD_isError(pledged)) return codec_failed("zstd", ZSTD_getErrorName(pledged));
  Bytes out;
  out.reserve(text_bytes / 4 + kOutputStepBytes);
  if (pieces.empty()) pieces.emplace_back();
  while (!pieces.empty()) {
    auto fed = feed_zstd(context->get(), pieces.front(), pieces.size() == 1, out);
    if (!fed) return std::move(fed).error();
    pieces.pop_front();
  }
  return out;
}

class Deflater {
 public:
  Deflater() = default;
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  ~Deflater() {
    if (open_) deflateEnd(&stream_);
  }

  Status open() {
    constexpr int kLevel = 6;
    constexpr int kWindowBitsGzip = 15 + 16;
    constexpr int kMemoryLevel = 8;
    const int code =
        deflateInit2(&stream_, kLevel, Z_DEFLATED, kWindowBitsGzip, kMemoryLevel, Z_DEFAULT_STRATEGY);
    if (code != Z_OK) return codec_failed("gzip", zError(code));
    open_ = true;
    // No time, no name, no comment, and 255 (unknown) where zlib would name the system it was built on.
    header_.time = 0;
    header_.os = 255;
    deflateSetHeader(&stream_, &header_);
    return {};
  }

  Status feed(BytesView in, int flush, Bytes& out) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    for (;;) {
      const std::size_t before = out.size();
      out.resize(before + kOutputStepBytes);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + before);
      stream_.avail_out = static_cast<uInt>(kOutputStepBytes);
      const int code = deflate(&stream_, flush);
      out.resize(before + kOutputStepBytes - stream_.avail_out);
      if (code == Z_STREAM_END) return {};
      if (code != Z_OK && code != Z_BUF_ERROR) return codec_failed("gzip", zError(code));
      if (flush == Z_NO_FLUSH && stream_.avail_out != 0) return {};
    }
  }

 private:
  z_stream stream_{};
  gz_header header_{};
  bool open_ = false;
};

Result<Bytes> encode_gzip(std::deque<Bytes> pieces) {
  Deflater deflater;
  if (auto ready = deflater.open(); !ready) return std::move(ready).error();
  Bytes out;
  out.reserve(size_of(pieces) / 4 + kOutputStepBytes);
  for (; !pieces.empty(); pieces.pop_front()) {
    BytesView rest = pieces.front();
    while (!rest.empty()) {
      const BytesView step = rest.substr(0, kZlibInputBytesMax);
      auto fed = deflater.feed(step, Z_NO_FLUSH, out);
      if (!fed) return std::move(fed).error();
      rest.remove_prefix(step.size());
    }
  }
  auto ended = deflater.feed({}, Z_FINISH, out);
  if (!ended) return std::move(ended).error();
  return out;
}

Bytes join(std::deque<Bytes> pieces) {
  if (pieces.empty()) return {};
  if (pieces.size() == 1) return std::move(pieces.front());
  Bytes out;
  out.reserve(size_of(pieces));
  for (; !pieces.empty(); pieces.pop_front()) out += pieces.front();
  return out;
}

}  // namespace

Result<Bytes> encode_text(Codec codec, std::deque<Bytes> pieces) {
  switch (codec) {
    case Codec::zstd:
      return encode_zstd(std::move(pieces));
    case Codec::gzip:
      return encode_gzip(std::move(pieces));
    case Codec::none:
    case Codec::snappy:  // never a text's, see can_write()
      break;
  }
  return join(std::move(pieces));
}

}  // namespace queen::lake

#include "lake/detail/text_codec.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <deque>
#include <limits>
#include <utility>

#include "base/invariant.h"
#include "lake/detail/zstd_parameters.h"

namespace queen::lake {
namespace {

// What a codec may write in one call. It can move a byte: near its end a frame is compressed straight into
// this room when that is large enough.
constexpr std::size_t kOutputStepBytes = 1 << 20;
// Room for the object of a long text, so that it seldom moves: what is not written to costs no memory.
constexpr std::size_t kObjectReserveBytes = 32 << 20;
constexpr std::size_t kZlibInputBytesMax = 1 << 30;  // its counters have 32 bits

Error codec_failed(std::string_view codec, std::string_view why) {
  return {Errc::unavailable, fmt::format("{} could not compress an object: {}", codec, why)};
}

// The header of a frame carries the size of the whole text (HD-11), which nobody knows when the first piece
// goes through. A text of one piece is announced to the library. The frame of a longer one is begun without a
// size and gets the header that the library would have written once the size is known (RFC 8878, 3.1.1.1):
// the blocks are the same, because above the window no parameter depends on the size.
class ZstdEncoder final : public TextEncoder {
 public:
  Status add(Bytes& piece) override {
    if (!context_) {
      out_.reserve(kObjectReserveBytes);
      out_.assign(kSize4Bytes, '\0');  // the header grows by so much
      if (auto opened = open(); !opened) return opened;
    }
    return feed(piece, ZSTD_e_continue);
  }

  Result<Bytes> finish(Bytes last) override {
    const bool whole = !context_;
    if (whole) {
      if (auto opened = open(); !opened) return std::move(opened).error();
      const std::size_t code = ZSTD_CCtx_setPledgedSrcSize(context_.get(), last.size());
      if (ZSTD_isError(code)) return codec_failed("zstd", ZSTD_getErrorName(code));
    }
    if (auto fed = feed(last, ZSTD_e_end); !fed) return std::move(fed).error();
    context_.reset();
    if (!whole) write_header();
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kSize4Bytes = 4;
  static constexpr std::size_t kMagicBytes = 4;
  static constexpr char kChecksumOnly =
      0x04;  // descriptor: a content checksum, no size, a window byte follows
  static constexpr char kWindow = (21 - 10) << 3;
  static constexpr char kSizeOf4 = static_cast<char>(2 << 6), kSizeOf8 = static_cast<char>(3 << 6);
  static_assert(kPieceBytes > (1U << 21));  // above the window

  Status open() {
    auto made = make_zstd_context();
    if (!made) return std::move(made).error();
    context_ = *std::move(made);
    step_.resize(kOutputStepBytes);
    return {};
  }

  Status feed(Bytes& piece, ZSTD_EndDirective how) {
    ZSTD_inBuffer in{piece.data(), piece.size(), 0};
    for (bool done = false; !done;) {
      ZSTD_outBuffer to{step_.data(), step_.size(), 0};
      const std::size_t left = ZSTD_compressStream2(context_.get(), &to, &in, how);
      if (ZSTD_isError(left)) return codec_failed("zstd", ZSTD_getErrorName(left));
      out_.append(step_.data(), to.pos);
      done = how == ZSTD_e_end ? left == 0 : in.pos == in.size;
    }
    text_bytes_ += piece.size();
    piece.clear();
    return {};
  }

  void write_header() {
    // 0xFFFFFFFF itself would fit in four bytes; the library takes eight for it.
    const bool small = text_bytes_ < std::numeric_limits<std::uint32_t>::max();
    Bytes header = out_.substr(kSize4Bytes, kMagicBytes + 2);
    INVARIANT(header[kMagicBytes] == kChecksumOnly && header[kMagicBytes + 1] == kWindow,
              "a zstd frame begins with descriptor {:#x} and window {:#x}", header[kMagicBytes],
              header[kMagicBytes + 1]);
    header[kMagicBytes] = static_cast<char>(kChecksumOnly | (small ? kSizeOf4 : kSizeOf8));
    if (small) {
      append_le(header, static_cast<std::uint32_t>(text_bytes_));
    } else {
      append_le(header, text_bytes_);
    }
    out_.replace(0, kSize4Bytes + kMagicBytes + 2, header);
  }

  ZstdContext context_{nullptr, ZSTD_freeCCtx};
  Bytes step_;
  Bytes out_;
  std::uint64_t text_bytes_ = 0;
};

class GzipEncoder final : public TextEncoder {
 public:
  GzipEncoder() = default;
  GzipEncoder(const GzipEncoder&) = delete;
  GzipEncoder& operator=(const GzipEncoder&) = delete;
  ~GzipEncoder() override {
    if (open_) deflateEnd(&stream_);
  }

  Status add(Bytes& piece) override {
    if (auto ready = open(); !ready) return ready;
    BytesView rest = piece;
    while (!rest.empty()) {
      const BytesView part = rest.substr(0, kZlibInputBytesMax);
      if (auto fed = feed(part, Z_NO_FLUSH); !fed) return fed;
      rest.remove_prefix(part.size());
    }
    piece.clear();
    return {};
  }

  Result<Bytes> finish(Bytes last) override {
    if (auto added = add(last); !added) return std::move(added).error();
    if (auto ended = feed({}, Z_FINISH); !ended) return std::move(ended).error();
    return std::move(out_);
  }

 private:
  Status open() {
    constexpr int kLevel = 6;
    constexpr int kWindowBitsGzip = 15 + 16;
    constexpr int kMemoryLevel = 8;
    if (open_) return {};
    const int code =
        deflateInit2(&stream_, kLevel, Z_DEFLATED, kWindowBitsGzip, kMemoryLevel, Z_DEFAULT_STRATEGY);
    if (code != Z_OK) return codec_failed("gzip", zError(code));
    open_ = true;
    // No time, no name, no comment, and 255 (unknown) where zlib would name the system it was built on.
    header_.time = 0;
    header_.os = 255;
    deflateSetHeader(&stream_, &header_);
    step_.resize(kOutputStepBytes);
    return {};
  }

  Status feed(BytesView in, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    for (;;) {
      stream_.next_out = reinterpret_cast<Bytef*>(step_.data());
      stream_.avail_out = static_cast<uInt>(step_.size());
      const int code = deflate(&stream_, flush);
      out_.append(step_.data(), step_.size() - stream_.avail_out);
      if (code == Z_STREAM_END) return {};
      if (code != Z_OK && code != Z_BUF_ERROR) return codec_failed("gzip", zError(code));
      if (flush == Z_NO_FLUSH && stream_.avail_out != 0) return {};
    }
  }

  z_stream stream_{};
  gz_header header_{};
  bool open_ = false;
  Bytes step_;
  Bytes out_;
};

// The text itself. It is joined at the end, each piece freed as it goes: a string that grew by doubling would
// be there twice.
class PlainEncoder final : public TextEncoder {
 public:
  Status add(Bytes& piece) override {
    size_ += piece.size();
    pieces_.push_back(std::exchange(piece, {}));
    return {};
  }

  Result<Bytes> finish(Bytes last) override {
    if (pieces_.empty()) return last;
    Bytes out;
    out.reserve(size_ + last.size());
    for (; !pieces_.empty(); pieces_.pop_front()) out += pieces_.front();
    out += last;
    return out;
  }

 private:
  std::deque<Bytes> pieces_;
  std::size_t size_ = 0;
};

}  // namespace

std::unique_ptr<TextEncoder> make_text_encoder(Codec codec) {
  switch (codec) {
    case Codec::zstd:
      return std::make_unique<ZstdEncoder>();
    case Codec::gzip:
      return std::make_unique<GzipEncoder>();
    case Codec::none:
    case Codec::snappy:  // never a text's, see can_write()
      break;
  }
  return std::make_unique<PlainEncoder>();
}

}  // namespace queen::lake

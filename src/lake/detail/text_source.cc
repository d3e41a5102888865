#include "lake/detail/text_source.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <utility>

namespace queen::lake {
namespace {

Error damaged(std::string_view codec, std::string_view why) {
  return {Errc::corrupt, fmt::format("the object is not one whole {} text: {}", codec, why)};
}

class PlainSource final : public TextSource {
 public:
  explicit PlainSource(BytesView rest) : rest_(rest) {}

  Result<bool> read(Bytes& to) override {
    const BytesView block = rest_.substr(0, kTextBlockBytes);
    to += block;
    rest_.remove_prefix(block.size());
    return !block.empty();
  }

 private:
  BytesView rest_;
};

class ZstdSource final : public TextSource {
 public:
  explicit ZstdSource(BytesView object) : in_{object.data(), object.size(), 0} {}

  Status open() {
    constexpr int kWindowLogMax = 21;  // what our writers set
    if (!context_) return Error{Errc::unavailable, "zstd could not read an object: no memory"};
    const std::size_t code = ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kWindowLogMax);
    if (ZSTD_isError(code)) return Error{Errc::unavailable, ZSTD_getErrorName(code)};
    return {};
  }

  Result<bool> read(Bytes& to) override {
    if (ended_) return false;
    const std::size_t before = to.size();
    to.resize(before + kTextBlockBytes);
    ZSTD_outBuffer out{to.data() + before, kTextBlockBytes, 0};
    std::size_t hint = 1;
    while (hint != 0 && out.pos < out.size) {
      const std::size_t was_in = in_.pos;
      const std::size_t was_out = out.pos;
      hint = ZSTD_decompressStream(context_.get(), &out, &in_);
      if (ZSTD_isError(hint)) return damaged("zstd", ZSTD_getErrorName(hint));
      if (hint != 0 && in_.pos == was_in && out.pos == was_out) return damaged("zstd", "it is cut off");
    }
    to.resize(before + out.pos);
    ended_ = hint == 0;
    if (ended_ && in_.pos != in_.size) return damaged("zstd", "bytes follow its frame");
    return true;
  }

 private:
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context_{ZSTD_createDCtx(), ZSTD_freeDCtx};
  ZSTD_inBuffer in_;
  bool ended_ = false;
};

class GzipSource final : public TextSource {
 public:
  explicit GzipSource(BytesView object) : rest_(object) {}
  ~GzipSource() override {
    if (open_) inflateEnd(&stream_);
  }

  Status open() {
    constexpr int kWindowBitsGzip = 15 + 16;
    if (const int code = inflateInit2(&stream_, kWindowBitsGzip); code != Z_OK)
      return Error{Errc::unavailable, fmt::format("gzip could not read an object: {}", zError(code))};
    open_ = true;
    return {};
  }

  Result<bool> read(Bytes& to) override {
    if (ended_) return false;
    const std::size_t before = to.size();
    to.resize(before + kTextBlockBytes);
    stream_.next_out = reinterpret_cast<Bytef*>(to.data() + before);
    stream_.avail_out = static_cast<uInt>(kTextBlockBytes);
    while (!ended_ && stream_.avail_out > 0) {
      feed();
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_BUF_ERROR) return damaged("gzip", "it is cut off");
      if (code != Z_OK && code != Z_STREAM_END) return damaged("gzip", zError(code));
      ended_ = code == Z_STREAM_END;
    }
    to.resize(before + kTextBlockBytes - stream_.avail_out);
    if (ended_ && (stream_.avail_in > 0 || !rest_.empty())) return damaged("gzip", "bytes follow its member");
    return true;
  }

 private:
  // zlib's counters have 32 bits.
  void feed() {
    if (stream_.avail_in > 0) return;
    constexpr std::size_t kStepBytes = 1 << 30;
    const BytesView step = rest_.substr(0, kStepBytes);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(step.data()));
    stream_.avail_in = static_cast<uInt>(step.size());
    rest_.remove_prefix(step.size());
  }

  z_stream stream_{};
  BytesView rest_;
  bool open_ = false;
  bool ended_ = false;
};

template <class Source>
Result<std::unique_ptr<TextSource>> opened(BytesView object) {
  auto source = std::make_unique<Source>(object);
  if (auto ready = source->open(); !ready) return std::move(ready).error();
  return std::unique_ptr<TextSource>(std::move(source));
}

}  // namespace

Result<std::unique_ptr<TextSource>> make_text_source(Codec codec, BytesView object) {
  if (codec == Codec::zstd) return opened<ZstdSource>(object);
  if (codec == Codec::gzip) return opened<GzipSource>(object);
  return std::unique_ptr<TextSource>(std::make_unique<PlainSource>(object));
}

}  // namespace queen::lake

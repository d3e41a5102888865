// What a message record must hold beyond its checksum.
#include <fmt/format.h>

#include "base/hash.h"
#include "qlog/verify.h"

namespace queen::qlog {

Status check_content(const Record& record) {
  BytesView payload = record.payload();
  Result<Bytes> raw;
  if (record.compressed) {
    raw = decompress_payload(payload);
    if (!raw) return raw.error();
    payload = *raw;
  }
  const auto frames = decode_frames(payload, record.count);
  if (!frames) return frames.error();
  for (std::size_t i = 0; i < frames->size(); ++i) {
    const MessageFrame& frame = (*frames)[i];
    if (xxh3_128(frame.transaction_id).view() != record.hashes().substr(i * 16, 16))
      return Error{Errc::corrupt,
                   fmt::format("hash {} of {} is not that of its transaction id", i, record.count)};
    // An encrypted payload is compressed before it is encrypted: only its owner can look.
    if (!frame.payload_zstd || frame.encrypted) continue;
    if (const auto text = decompress_payload(frame.payload); !text)
      return Error{Errc::corrupt, fmt::format("payload {} of {}: {}", i, record.count, text.error().what)};
  }
  return {};
}

}  // namespace queen::qlog

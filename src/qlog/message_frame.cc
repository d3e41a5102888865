// docs/formats/qlog.md "Message frame".
#include <fmt/format.h>

#include <algorithm>

#include "base/invariant.h"
#include "qlog/record.h"

namespace queen::qlog {
namespace {

constexpr std::uint8_t kEncrypted = 1, kZstd = 2, kTrace = 4, kSubject = 8, kNull = 16;
constexpr std::uint8_t kKnown = kEncrypted | kZstd | kTrace | kSubject | kNull;
constexpr std::size_t kTextMax = 0xFFFF;
constexpr std::size_t kFrameBytesMin = 4 + 1 + 16 + 2;

std::uint8_t flags_of(const MessageFrame& frame) {
  return static_cast<std::uint8_t>((frame.encrypted ? kEncrypted : 0) | (frame.payload_zstd ? kZstd : 0) |
                                   (frame.trace_id ? kTrace : 0) | (frame.producer_sub ? kSubject : 0) |
                                   (frame.null_payload ? kNull : 0));
}

Uuid uuid_of(ByteReader& reader) {
  return {reader.array<16>()};
}

bool decode_frame(BytesView bytes, MessageFrame& frame) {
  ByteReader reader(bytes);
  const auto flags = reader.le<std::uint8_t>();
  frame.encrypted = (flags & kEncrypted) != 0;
  frame.payload_zstd = (flags & kZstd) != 0;
  frame.null_payload = (flags & kNull) != 0;
  frame.message_id = uuid_of(reader);
  frame.transaction_id = reader.sized16();
  if ((flags & kTrace) != 0) frame.trace_id = uuid_of(reader);
  if ((flags & kSubject) != 0) frame.producer_sub = reader.sized16();
  frame.payload = reader.rest();
  return reader.ok() && (flags & ~kKnown) == 0 && (!frame.null_payload || frame.payload.empty());
}

}  // namespace

void append_frame(Bytes& to, const MessageFrame& frame) {
  INVARIANT(frame.transaction_id.size() <= kTextMax, "transactionId of {} bytes",
            frame.transaction_id.size());
  INVARIANT(!frame.producer_sub || frame.producer_sub->size() <= kTextMax, "producer subject of {} bytes",
            frame.producer_sub->size());
  INVARIANT(!frame.null_payload || frame.payload.empty(), "null payload with {} bytes", frame.payload.size());
  const std::size_t at = to.size();
  append_le(to, std::uint32_t{0});
  append_le(to, flags_of(frame));
  to.append(frame.message_id.view());
  append_sized16(to, frame.transaction_id);
  if (frame.trace_id) to.append(frame.trace_id->view());
  if (frame.producer_sub) append_sized16(to, *frame.producer_sub);
  to.append(frame.payload);
  store_le(to.data() + at, static_cast<std::uint32_t>(to.size() - at - sizeof(std::uint32_t)));
}

Result<std::vector<MessageFrame>> decode_frames(BytesView payload, std::uint32_t count) {
  std::vector<MessageFrame> frames;
  // A hostile count must not decide how much is allocated: the bytes that are there do.
  frames.reserve(std::min<std::size_t>(count, payload.size() / kFrameBytesMin));
  ByteReader reader(payload);
  for (std::uint32_t i = 0; i < count; ++i) {
    const BytesView bytes = reader.sized32();
    MessageFrame frame;
    if (!reader.ok() || !decode_frame(bytes, frame))
      return Error{Errc::corrupt, fmt::format("message frame {} of {} is damaged", i, count)};
    frames.push_back(frame);
  }
  if (!reader.done())
    return Error{Errc::corrupt, fmt::format("{} bytes behind {} message frames", reader.left(), count)};
  return frames;
}

}  // namespace queen::qlog

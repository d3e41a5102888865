// Numbers in as few bytes as they need: 7 bits a byte from the lowest, the top bit says that more follow.
// Signed ones are folded first (0, -1, 1, -2 …). Each number has one spelling: the last byte is not zero
// unless it is the only one.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace queen::store::detail {

inline constexpr std::size_t kVarintBytesMax = 10;

inline void append_varint(Bytes& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}
inline std::uint64_t take_varint(ByteReader& from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kVarintBytesMax; ++i) {
    const auto byte = from.le<std::uint8_t>();
    if (i + 1 == kVarintBytesMax && byte > 1) break;
    value |= std::uint64_t{byte & 0x7FU} << (7 * i);
    if ((byte & 0x80) != 0) continue;
    if (byte == 0 && i != 0) break;
    return value;
  }
  from.fail();
  return 0;
}

inline std::uint64_t fold(std::int64_t value) {
  return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}
inline std::int64_t unfold(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1 ^ (~(value & 1) + 1));
}

// `value` as its distance from a number that stands before it. Any two numbers have one.
inline void append_distance(Bytes& to, std::int64_t value, std::int64_t from) {
  append_varint(to, fold(static_cast<std::int64_t>(static_cast<std::uint64_t>(value) -
                                                   static_cast<std::uint64_t>(from))));
}
inline std::int64_t take_distance(ByteReader& reader, std::int64_t from) {
  const std::int64_t distance = unfold(take_varint(reader));
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(from) + static_cast<std::uint64_t>(distance));
}

inline void append_short(Bytes& to, BytesView value) {
  append_varint(to, value.size());
  to.append(value);
}
inline BytesView take_short(ByteReader& reader) {
  return reader.take(take_varint(reader));
}

}  // namespace queen::store::detail

// Variable-length integers of Parquet's encodings: 7 bits a byte, the low ones first.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace queen::lake {

inline void append_varint(Bytes& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

// Numbers of either sign as small numbers: 0, -1, 1, -2, ...
inline std::uint64_t zigzag(std::uint64_t two_complement) {
  return (two_complement << 1) ^ (0 - (two_complement >> 63));
}
inline std::uint64_t unzigzag(std::uint64_t value) {
  return (value >> 1) ^ (0 - (value & 1));
}

// More than 64 bits fail the reader.
inline std::uint64_t read_varint(ByteReader& from) {
  constexpr unsigned kShiftMax = 63;
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift <= kShiftMax; shift += 7) {
    const auto byte = from.le<std::uint8_t>();
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  from.fail();
  return 0;
}

}  // namespace queen::lake

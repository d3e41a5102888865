#include "lake/detail/bit_packing.h"

namespace queen::lake {
namespace {

__extension__ using Uint128 = unsigned __int128;  // up to 7 bits wait while 64 more come

std::uint64_t mask(unsigned width) {
  return width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
}

}  // namespace

void append_packed(Bytes& to, std::span<const std::uint64_t> values, unsigned width) {
  Uint128 waiting = 0;
  unsigned bits = 0;
  for (const std::uint64_t value : values) {
    waiting |= Uint128{value} << bits;
    for (bits += width; bits >= 8; bits -= 8) {
      to.push_back(static_cast<char>(static_cast<std::uint8_t>(waiting)));
      waiting >>= 8;
    }
  }
}

void unpack(BytesView packed, unsigned width, std::span<std::uint64_t> values) {
  Uint128 waiting = 0;
  unsigned bits = 0;
  std::size_t at = 0;
  for (std::uint64_t& value : values) {
    for (; bits < width; bits += 8) waiting |= Uint128{static_cast<unsigned char>(packed[at++])} << bits;
    value = static_cast<std::uint64_t>(waiting) & mask(width);
    waiting >>= width;
    bits -= width;
  }
}

}  // namespace queen::lake

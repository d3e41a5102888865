// Integers of equal width packed into bytes, low bits first, as Parquet's encodings have them.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace queen::lake {

// `values` is a multiple of 8 long, each below 2^width; width 0 to 64. Appends values.size() * width / 8
// bytes.
void append_packed(Bytes& to, std::span<const std::uint64_t> values, unsigned width);
// The inverse: `packed` has values.size() * width / 8 bytes.
void unpack(BytesView packed, unsigned width, std::span<std::uint64_t> values);

}  // namespace queen::lake

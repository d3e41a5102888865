// What the paged lists of dead letters and traces share.
#pragma once

#include <cstddef>

namespace queen::broker {

// Which part of a list is asked for.
struct PageRange {
  std::size_t limit = 100;
  std::size_t offset = 0;
};
// A page ends with the row whose text brings it above this, so that an answer stays within memory.
inline constexpr std::size_t kPageBytesMax = 64ULL << 20;

}  // namespace queen::broker

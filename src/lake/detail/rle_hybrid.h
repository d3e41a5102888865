// Parquet's hybrid of runs and packed groups of 8, for indices into a dictionary and for levels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace queen::lake {

struct Run {
  std::uint32_t value = 0;
  std::uint32_t count = 0;
};

// Bits that a value takes, at least 1.
unsigned width_of(std::uint32_t value_max);

// A stretch of 8 or more equal values is a run, what stands between runs is packed in groups of 8; a run
// gives of its own to fill the group before it, and the last group is filled with zeros.
void append_hybrid(Bytes& to, std::span<const Run> runs, unsigned width);

// Exactly `count` values of `width` (1 to 32) bits, and no byte left over. Errors: corrupt. Allocates for
// `count`.
Result<std::vector<std::uint32_t>> read_hybrid(BytesView bytes, unsigned width, std::uint32_t count);

}  // namespace queen::lake

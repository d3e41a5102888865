// DELTA_BINARY_PACKED of 64-bit integers: blocks of 128 deltas in 4 miniblocks of 32, each packed in as many
// bits as its largest delta needs above the least of the block (docs/formats/lake.md, "Parquet").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace queen::lake {

// `values` has at least one. The last miniblock is padded with zero deltas to its full size; the widths of
// miniblocks that are not used are 0 (HD-21).
void append_delta_binary(Bytes& to, std::span<const std::int64_t> values);

// Exactly `count` values, and no byte left over. Errors: corrupt. Allocates for `count` values.
Result<std::vector<std::int64_t>> read_delta_binary(BytesView bytes, std::uint32_t count);

}  // namespace queen::lake

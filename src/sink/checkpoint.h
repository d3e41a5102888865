// Read positions after a window, so that the next owner need not read from the start (s3-sink.md 11). Losing
// one costs a longer read and nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"

namespace queen::sink {

inline constexpr std::uint64_t kCheckpointBytesMax = 512ULL
                                                     << 20;  // inflated; above it a checkpoint is refused
inline constexpr std::string_view kCheckpointContentType = "application/zstd";

struct CheckpointPosition {
  std::string partition;
  std::uint64_t offset = 0;  // where the next window starts in it
  std::optional<Uuid> id;    // of the incarnation it was read under; nothing = unknown
  bool operator==(const CheckpointPosition&) const = default;
};
struct Checkpoint {
  std::uint64_t k = 0;
  std::int64_t t_end = 0;  // µs
  std::vector<CheckpointPosition> positions;
  bool operator==(const Checkpoint&) const = default;
};

// One zstd frame of level 3; positions are sorted by name, so the bytes do not depend on their order here.
Bytes encode_checkpoint(Checkpoint checkpoint);
// Errors: corrupt (frame, JSON, a field, or larger than `bytes_max` inflated).
Result<Checkpoint> decode_checkpoint(BytesView object, std::uint64_t bytes_max = kCheckpointBytesMax);

}  // namespace queen::sink

// `queenctl lake ls` and `queenctl lake cat`: the windows and the records of a stretch of time.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/lake_bucket.h"

namespace queen::cli {

// µs, `to` exclusive; without bounds everything.
struct LakeStretch {
  std::int64_t from = std::numeric_limits<std::int64_t>::min();
  std::int64_t to = std::numeric_limits<std::int64_t>::max();
  bool has(std::int64_t us) const { return us >= from && us < to; }
};
// One line without its line feed. False stops.
using LakeLine = std::function<bool(const std::string& line)>;

enum class LakeText : std::uint8_t { plain, json };

// The windows that hold a moment of the stretch, in order, one line each. Errors of both: unavailable;
// not_found (no window at all); corrupt (a manifest or an object that is not right, or a window that is
// missing between two).
Status list_windows(LakeBucket& bucket, const LakeStretch& stretch, LakeText text, const LakeLine& line);

// The records of the stretch in the order of the windows, as the JSON lines of docs/formats/lake.md. An
// object is printed only once its sha256 is the one of its manifest. Holds one object at a time.
Status print_records(LakeBucket& bucket, const LakeStretch& stretch,
                     const std::optional<std::string>& partition, const LakeLine& line);

}  // namespace queen::cli

// The lines of an object, for the lake's oracle: of JSONL in any codec, and of Parquet as if it were JSONL.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace queen::sim {

// One line, and the fields that say which record it is.
struct LakeLine {
  std::string text;  // without its line end
  std::string partition;
  std::uint64_t offset = 0;
  std::int64_t ts = 0;  // µs
};

// By the extension of `key`. Errors: invalid (an extension that is none of ours), corrupt (damaged, cut off,
// bytes behind the end, a line that is no record).
Result<std::vector<LakeLine>> lines_of(std::string_view key, BytesView object);

}  // namespace queen::sim

// Reads of one queue's copy in a bucket, one at a time: each call waits for its answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "s3/object_store.h"
#include "sink/layout.h"
#include "sink/manifest.h"

namespace queen::cli {

// An object above this is not read: the sink closes windows long before.
inline constexpr std::uint64_t kObjectBytesMax = 6ULL << 30;

// Errors of every call: unavailable (the bucket cannot be read), with the client's sentence. Blocks.
class LakeBucket {
 public:
  // `store` outlives it; its outcomes must not come from the calling thread's own executor.
  LakeBucket(s3::ObjectStore& store, sink::LakePath path) : store_(store), path_(std::move(path)) {}

  const sink::LakePath& path() const { return path_; }
  // Nothing: no such key. More errors: corrupt (larger than `bytes_max`).
  Result<std::optional<Bytes>> get(const std::string& key, std::uint64_t bytes_max);
  // Nothing: no such window. More errors: corrupt (it cannot be parsed).
  Result<std::optional<sink::Manifest>> manifest(std::uint64_t k);
  // The lowest window above `k` that a listing shows: what lies behind a hole.
  Result<std::optional<std::uint64_t>> window_above(std::uint64_t k);
  // One page of the data objects' keys, in key order.
  Result<s3::Listing> data_keys(const std::string& start_after);

 private:
  s3::ObjectStore& store_;
  const sink::LakePath path_;
};

// The number in the name of a data object, `…/w-<k>-…`; nothing for any other key.
std::optional<std::uint64_t> window_of_key(std::string_view key);

}  // namespace queen::cli

// The manifest of one window: the last object of a window, and the proof of a finished upload
// (s3-sink.md 10.4, 16; docs/formats/bucket.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sink/documents.h"
#include "sink/layout.h"

namespace queen::sink {

// Records that retention removed before they were read; both ends inclusive (s3-sink.md 12).
struct LostRange {
  std::string partition;
  std::uint64_t from = 0, to = 0;
  std::uint64_t count() const { return to - from + 1; }
  bool operator==(const LostRange&) const = default;
};
std::uint64_t count_of(const std::vector<LostRange>& ranges);

struct ManifestObject {
  std::string key;
  std::uint64_t bytes = 0, records = 0;
  std::string sha256;               // of the object's bytes, lower-case hex
  std::optional<PartitionRun> run;  // layout per-partition only
  bool operator==(const ManifestObject&) const = default;
};

struct Manifest {
  std::string sink, tenant, queue;
  WindowBounds bounds;
  std::string format, compression, layout;
  std::vector<ManifestObject> objects;
  std::uint64_t records = 0, bytes = 0;        // sums over `objects`
  std::uint64_t partitions = 0;                // distinct ones with a record
  std::optional<std::int64_t> min_ts, max_ts;  // µs; nothing without a record
  std::vector<LostRange> lost;
  std::string writer;
  std::int64_t committed_at_us = 0;  // wall clock of the writing node, cut to whole ms when written
  bool operator==(const Manifest&) const = default;
};

// Compact JSON in the field order of the format page.
std::string encode(const Manifest& manifest);
// Unknown fields are ignored; `tenant` and `lost` may be absent. Errors: corrupt, naming the field.
Result<Manifest> parse_manifest(std::string_view json);

// Whether `manifest` is the finished upload of `intent` by this very sink, tenant and queue.
bool matches(const Manifest& manifest, const Intent& intent, std::string_view sink, const LakePath& path);

}  // namespace queen::sink

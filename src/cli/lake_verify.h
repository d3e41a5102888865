// `queenctl lake verify`: whether a bucket holds every committed record of a queue once, and nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/broker_log.h"
#include "cli/lake_bucket.h"
#include "cli/lake_findings.h"
#include "sink/layout.h"

namespace queen::cli {

struct LakeVerifyWhat {
  std::string sink;                  // the name in the manifests and of the commit pointer
  std::optional<sink::Align> align;  // nothing: not known, every alignment is right
  BrokerLog* log = nullptr;          // to compare with; may be null
};

struct LakeReport {
  sink::LakePath path;
  LakeFindings findings;
  std::uint64_t windows = 0, objects = 0, records = 0, bytes = 0, lost = 0;
  std::optional<std::int64_t> begin, end;  // of all windows, µs
  bool with_broker = false;
  std::uint64_t compared = 0;           // records that the broker's log still has
  std::uint64_t windows_committed = 0;  // the commit pointer's k; 0 without a broker

  std::string as_text() const;
  std::string as_json() const;
};

// Reads manifests and objects by key, window 1, 2, 3 …; with a broker up to its commit pointer, otherwise up
// to the last one. Holds one object at a time and a position for each partition. Errors: unavailable (bucket
// or broker cannot be read), not_found (no such queue at the broker, or nothing in the bucket), corrupt (an
// answer of the broker).
Result<LakeReport> verify_lake(LakeBucket& bucket, const LakeVerifyWhat& what);

}  // namespace queen::cli

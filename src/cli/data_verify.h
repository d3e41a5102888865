// `queenctl data verify`: every check of a data directory, changing nothing (storage.md 13-15).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/finding.h"
#include "base/log.h"
#include "disk/disk.h"
#include "qlog/verify.h"
#include "store/verify.h"

namespace queen::cli {

inline constexpr std::size_t kFindingsMax = 100'000;  // kept; the rest is counted

struct VerifyReport {
  std::string directory;
  std::vector<Finding> findings;
  std::uint64_t left_out = 0;  // findings above kFindingsMax
  bool damaged = false;
  bool would_boot = true;
  store::StoreFacts store;
  qlog::LogFacts logs;

  std::string as_text() const;
  std::string as_json() const;
};

// `log` gets a progress line every 5 s. Errors: not_found, busy, unavailable (it cannot be read).
Result<VerifyReport> verify_directory(disk::Disk& disk, const std::string& directory, Clock& clock, Logger log);

}  // namespace queen::cli

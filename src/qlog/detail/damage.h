// Damage that reads meet (CR-5) and gaps they skip (RD-6): told once per file and interval, counted always.
#pragma once

#include <atomic>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "qlog/detail/lru.h"

namespace queen::qlog::detail {

// Thread-safe.
class DamageReports {
 public:
  // Without a clock each file is told of once.
  DamageReports(Logger& log, Clock* clock) : log_(log), clock_(clock) {}

  // The ERROR line names log, file and position.
  void record(const FileKey& file, std::uint64_t position, std::string_view what);
  // Offsets that a read was asked for and no file has.
  void gap(LogId log, Pid pid, std::uint64_t from_offset, std::uint64_t next_offset);

  std::uint64_t records() const { return records_.load(); }
  std::uint64_t gaps() const { return gaps_.load(); }

 private:
  bool due(const FileKey& about);

  Logger& log_;
  Clock* clock_;
  std::atomic<std::uint64_t> records_{0}, gaps_{0};
  std::mutex mutex_;                                             // guards told_
  std::unordered_map<FileKey, std::int64_t, FileKeyHash> told_;  // when, by the monotonic clock
};

}  // namespace queen::qlog::detail

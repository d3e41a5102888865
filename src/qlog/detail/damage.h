// Damage that reads meet (CR-5) and gaps they skip (RD-6): told once per file and interval, counted always.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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

  // By a read. The ERROR line names log, file and position.
  void record(const FileKey& file, std::uint64_t position, std::string_view what);
  // By the scrub: the same.
  void scrubbed(const FileKey& file, std::uint64_t position, std::string_view what);
  // All of the file verifies (again), or it is gone.
  void good(const FileKey& file);
  // Files in which damage was met, at most 1,024; also one that went while a read of it was on its way.
  struct Damaged {
    FileKey file;
    std::uint64_t position = 0;
    std::string what;
  };
  std::vector<Damaged> files() const;

  // Offsets that a read was asked for and no file has.
  void gap(LogId log, Pid pid, std::uint64_t from_offset, std::uint64_t next_offset);

  std::uint64_t records() const { return records_.load(); }
  std::uint64_t gaps() const { return gaps_.load(); }

 private:
  bool due(const FileKey& about);
  void note(const FileKey& file, std::uint64_t position, std::string_view what);

  Logger& log_;
  Clock* clock_;
  std::atomic<std::uint64_t> records_{0}, gaps_{0};
  mutable std::mutex mutex_;  // guards everything below
  std::vector<Damaged> files_;
  std::unordered_map<FileKey, std::int64_t, FileKeyHash> told_;  // when, by the monotonic clock
};

}  // namespace queen::qlog::detail

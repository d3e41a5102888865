// Re-reading what was written once and is never looked at again: storage.md CR-6, QL-27.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace queen::qlog {

// A log file with a record that does not verify.
struct DamagedFile {
  LogId log;
  std::uint32_t file_id = 0;
  std::string path;
  std::uint64_t position = 0;  // of the first damaged record that was met
  std::string what;
};

struct ScrubStep {
  std::uint64_t bytes = 0;  // read
  std::uint32_t files = 0;  // finished, good or damaged
  bool round_done = false;  // every file that was sealed when the round began has been read
};

// Calls from one thread.
class LogScrub {
 public:
  virtual ~LogScrub() = default;
  // Reads on where the last step ended, about `bytes_max` (at least one record), oldest file first, and
  // verifies every record. An index file that is not what the records say is made again. Damage is one ERROR
  // line and in QueueLogs::damaged_files(). After the end of a round the next step begins another. What it
  // read leaves the page cache. Blocks on the disk; a file that cannot be read is tried again in the next
  // round.
  virtual ScrubStep step(std::uint64_t bytes_max) = 0;
};

}  // namespace queen::qlog

// Which synced bytes of a log leave the page cache: storage.md GC-11.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "disk/disk.h"

namespace queen::qlog::detail {

// Of one log; one thread at a time. Bytes count over all files of the log since it was opened, so the
// distance from the tail does not begin again with each file.
class DropBehind {
 public:
  // A range to be dropped: of which file, and where.
  struct Range {
    std::uint32_t file_id = 0;
    std::uint64_t offset = 0, bytes = 0;
  };

  // Bytes up to `end` of `file_id` are synced now. `distance` stay behind the tail.
  void synced(std::uint32_t file_id, std::uint64_t end);
  // The next range that is further than `distance` behind; each byte once. 0 bytes: none.
  Range take(std::uint64_t distance);

 private:
  struct Part {
    std::uint32_t file_id = 0;
    std::uint64_t dropped = 0;  // up to here
    std::uint64_t synced = 0;
  };
  std::deque<Part> parts_;  // oldest first
  std::uint64_t kept_ = 0;  // bytes synced and not dropped, in all parts
};

}  // namespace queen::qlog::detail

// The files that keep figures, in a directory of their own (docs/formats/metrics.md). Nothing in them is
// needed to boot or to serve: they are not synced, and what cannot be read or written is left out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "broker/figure_rows.h"
#include "disk/disk.h"

namespace queen::broker {

// Calls that change anything from one thread at a time, and not beside reads: the caller's lock.
class FigureFiles {
 public:
  enum class Kind : std::uint8_t { node, queue };
  struct Limits {
    std::int64_t node_hours, queue_hours;
    std::uint64_t queue_rows_max;
  };
  FigureFiles(disk::Disk& disk, std::string directory, Limits limits, const Logger& log)
      : disk_(disk), directory_(std::move(directory)), limits_(limits), log_(log) {}

  // Finds the files of earlier runs and counts their rows. Blocks.
  void open();
  // `records` are `rows` records whose periods began at `from_us`. What does not get to the disk is lost;
  // false then.
  bool append(Kind kind, std::int64_t from_us, BytesView records, std::uint64_t rows);
  // Removes the files that are too old at `now_us`, and the oldest ones of too many rows.
  void prune(std::int64_t now_us);
  // Rows of the files that may have some of the range.
  void read(Kind kind, std::int64_t from_us, std::int64_t to_us, const FigureVisitor& visitor) const;
  // End of the newest node row that open() found; 0 = none.
  std::int64_t newest_us() const { return newest_us_; }

 private:
  struct Part {
    Kind kind = Kind::node;
    std::int64_t hour_us = 0;  // rows of this hour
    std::uint32_t serial = 0;  // of several with the same hour
    std::uint64_t rows = 0, bytes = 0;
    std::string path;
  };
  struct Writer {
    std::unique_ptr<disk::File> file;  // none: the next rows begin a file
    std::size_t part = 0;              // index into parts_ while there is a file
  };
  Status write(Kind kind, std::int64_t hour_us, BytesView records, std::uint64_t rows);
  Status begin_file(Kind kind, std::int64_t hour_us);
  void remove(std::size_t part);
  Writer& writer(Kind kind) { return writers_[static_cast<std::size_t>(kind)]; }

  disk::Disk& disk_;
  const std::string directory_;
  const Limits limits_;
  Logger log_;
  std::vector<Part> parts_;
  Writer writers_[2];
  bool failing_ = false;  // the last write failed, and was told
  std::int64_t newest_us_ = 0;
};

}  // namespace queen::broker

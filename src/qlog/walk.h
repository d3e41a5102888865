// All records of the logs, in file order, with the places that hold none: for `queenctl data dump`. Changes
// nothing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "disk/disk.h"
#include "qlog/queue_logs.h"
#include "qlog/verify.h"

namespace queen::qlog {

class RecordWalker {
 public:
  virtual ~RecordWalker() = default;
  // Before the records of a file; `error` when its header is damaged.
  virtual void file(const std::string& path, const FileHeader& header, const std::optional<Error>& error) = 0;
  virtual void record(const RecordPlace& place, const Record& record, std::size_t bytes) = 0;
  // `bytes` from `place` on hold no record.
  virtual void damaged(const RecordPlace& place, std::uint64_t bytes) = 0;
};

// Of the logs given, or of all when none is. Errors: not_found, unavailable.
Status walk_logs(disk::Disk& disk, const std::string& directory, const std::vector<LogId>& logs,
                 RecordWalker& walker);

// The layout that `directory` was made with. Errors: corrupt (BR-9), unavailable.
Result<Layout> layout_of(disk::Disk& disk, const std::string& directory);

}  // namespace queen::qlog

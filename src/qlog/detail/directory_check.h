// The directories over one log's sealed files, against the files themselves: for a verification without a
// node. storage.md RD-9, RD-10.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "qlog/detail/directory_file.h"
#include "qlog/detail/inspect.h"

namespace queen::qlog::detail {

// One log at a time: open(), file() for each sealed file, finish(). Tells the judge; changes nothing.
class DirectoryCheck {
 public:
  DirectoryCheck(disk::Disk& disk, std::string root, Judge& judge)
      : disk_(disk), root_(std::move(root)), judge_(judge) {}

  // Verifies every byte of the log's directory files, and keeps those that a node would use. Errors:
  // unavailable.
  Status open(LogId log);
  // What a sealed file was found to hold.
  struct Contents {
    std::uint32_t file_id = 0;
    std::span<const IndexRecord> records;  // by (pid, base_offset)
    bool all = true;  // nothing of it was unreadable, and no rewrite took anything out of it
  };
  void file(const Contents& contents);
  void finish(const LogImage& image);

 private:
  struct Used {
    std::shared_ptr<const SealedDirectory> directory;
    std::map<std::uint32_t, std::uint64_t> rows_of;  // by file
  };

  Status look_at(LogId log, std::uint32_t first, std::uint32_t last);
  void not_usable(const std::string& path, BytesView bytes, const Error& why);
  void compare(const Used& used, const Contents& contents);
  void tell_missing(const LogImage& image) const;
  void differs(const Used& used, std::uint64_t row, std::string_view how);
  std::string path_of(const SealedDirectory& directory) const;

  disk::Disk& disk_;
  const std::string root_;
  Judge& judge_;
  LogId log_;
  std::vector<Used> used_;           // ascending, apart
  std::set<std::uint32_t> omitted_;  // sealed files that the directory over them does not list
};

}  // namespace queen::qlog::detail

// A directory over sealed files: which of them holds an offset of a partition, in one search.
// docs/formats/qlog.md "Directory file"; storage.md RD-9.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "disk/disk.h"
#include "disk/mapped_reads.h"
#include "qlog/detail/index_file.h"

namespace queen::qlog::detail {

inline constexpr std::size_t kDirectoryHeaderBytes = 56;
inline constexpr std::size_t kDirectoryRowBytes = 36;

// What one file holds of one partition; rewrites of the file only take records away.
struct DirectoryRow {
  std::uint64_t pid = 0;
  std::uint64_t first_offset = 0;
  std::uint64_t end = 0;  // exclusive, of its last record
  std::int64_t last_stamp = 0;
  std::uint32_t file_id = 0;
  bool operator==(const DirectoryRow&) const = default;
};

struct DirectoryHeader {
  LogId log;
  std::vector<std::uint32_t>
      files;  // ascending: every file sealed from the first to the last when it was made
  std::uint64_t rows = 0;
};

void append_row(Bytes& to, const DirectoryRow& row);
// The bytes before the rows, with the checksum of the file list and the rows.
Bytes encode_directory_header(const DirectoryHeader& header, std::uint64_t content_check);
Bytes encode_directory_files(const std::vector<std::uint32_t>& files);

// Verifies everything that the bytes alone can show. Errors: corrupt. Allocates no more than the bytes hold.
Result<DirectoryHeader> verify_directory_file(BytesView bytes);

// Immutable; any thread.
class SealedDirectory {
 public:
  // Errors: corrupt, also when it is of another log or its name says other files.
  static Result<std::shared_ptr<const SealedDirectory>> over(std::unique_ptr<disk::Mapping> mapping,
                                                             LogId log, std::uint32_t first,
                                                             std::uint32_t last);

  const std::vector<std::uint32_t>& files() const { return header_.files; }
  std::uint32_t first() const { return header_.files.front(); }
  std::uint32_t last() const { return header_.files.back(); }
  std::uint64_t rows() const { return header_.rows; }
  bool covers(std::uint32_t file_id) const { return file_id >= first() && file_id <= last(); }

  struct Found {
    std::uint64_t place = 0;  // of the first row whose file may hold what is looked for
    bool ends = false;        // nothing older can
  };
  Found find(const IndexQuery& query) const;
  DirectoryRow at(std::uint64_t place) const;
  // After a walk over all rows, as SealedIndex::let_go().
  void let_go() const { mapping_->let_go(); }
  // The row at `place` when there is one and it is of `pid`.
  std::optional<DirectoryRow> at(std::uint64_t place, std::uint64_t pid) const;

 private:
  DirectoryRow row_at(BytesView bytes, std::uint64_t place) const;

  std::unique_ptr<disk::Mapping> mapping_;
  DirectoryHeader header_;
};
using SealedDirectories = std::vector<std::shared_ptr<const SealedDirectory>>;  // ascending, disjoint

}  // namespace queen::qlog::detail

// Walks a record file in bounded chunks.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "disk/disk.h"
#include "qlog/detail/index_file.h"
#include "qlog/record.h"

namespace queen::qlog::detail {

// Buffers one chunk, or one record where that is longer; never allocates beyond the file's own size.
class FileScanner {
 public:
  // `file` outlives the scanner; `size` is its real size.
  FileScanner(disk::File& file, std::uint64_t size, std::uint64_t position = kFileHeaderBytes)
      : file_(file), size_(size), position_(position) {}

  // The record at position(), borrowed until the next call; after a whole record the position moves behind
  // it. Errors: unavailable.
  Result<ScanResult> next();
  std::uint64_t position() const { return position_; }
  // Goes on there, behind damage.
  void go_to(std::uint64_t position) { position_ = position; }

 private:
  Result<BytesView> bytes_at(std::uint64_t position, std::uint64_t size);

  disk::File& file_;
  const std::uint64_t size_;
  std::uint64_t position_;
  Bytes buffer_;
  std::uint64_t buffer_at_ = 0;
};

// The first byte at or behind `from` that is not zero.
Result<std::optional<std::uint64_t>> first_non_zero(disk::File& file, std::uint64_t size, std::uint64_t from);

struct GoodRecord {
  std::uint64_t position = 0;
  std::uint64_t seq = 0;
};
// The first record that verifies at any byte from `from` on and whose seq is 1..seq_max.
Result<std::optional<GoodRecord>> find_good_record(disk::File& file, std::uint64_t size, std::uint64_t from,
                                                   std::uint64_t seq_max);

IndexRecord index_record_of(const Record& record, std::uint64_t position, std::size_t bytes);

// A valid index that describes exactly that file (QL-21). Errors: corrupt, not_found, unavailable.
Result<IndexFile> read_index_file(disk::Disk& disk, const std::string& path, std::uint32_t file_id,
                                  std::uint64_t file_bytes);
// Made from the records. Errors: corrupt (the position of the first bad one), unavailable.
Result<IndexFile> index_by_scan(disk::File& file, std::uint32_t file_id, std::uint64_t file_bytes);

}  // namespace queen::qlog::detail

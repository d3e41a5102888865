// The index of a record file: where each message record is. docs/formats/qlog.md "Index file".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace queen::qlog::detail {

inline constexpr std::size_t kIndexHeaderBytes = 48;
inline constexpr std::size_t kIndexRecordBytes = 48;

struct IndexRecord {
  std::uint64_t pid = 0;
  std::uint64_t base_offset = 0;
  std::uint64_t end = 0;  // exclusive
  std::int64_t created_at = 0;
  std::uint64_t position = 0;  // of the record in its file
  std::uint32_t count = 0;
  std::uint32_t length = 0;  // of the whole record
  bool operator==(const IndexRecord&) const = default;
};

struct IndexFile {
  std::uint64_t file_id = 0;
  std::uint64_t file_bytes = 0;
  std::vector<IndexRecord> records;  // by (pid, base_offset)

  // The records of `pid`.
  std::span<const IndexRecord> of(std::uint64_t pid) const;
};

// `index.records` must be sorted.
Bytes encode_index_file(const IndexFile& index);
// Verifies everything that the bytes alone can show: both checksums, exact length, strict order, each record
// inside the file. Errors: corrupt. Allocates no more than the bytes given hold.
Result<IndexFile> decode_index_file(BytesView bytes);

void sort_records(std::vector<IndexRecord>& records);

// Index of the file being written: per partition in offset order, as the records come.
class ActiveIndex {
 public:
  void add(const IndexRecord& record) {
    by_pid_[record.pid].push_back(record);
    ++records_;
  }
  std::span<const IndexRecord> of(std::uint64_t pid) const {
    const auto found = by_pid_.find(pid);
    return found == by_pid_.end() ? std::span<const IndexRecord>{} : std::span(found->second);
  }
  // All records, sorted.
  std::vector<IndexRecord> sorted() const;

 private:
  std::unordered_map<std::uint64_t, std::vector<IndexRecord>> by_pid_;
  std::size_t records_ = 0;
};

}  // namespace queen::qlog::detail

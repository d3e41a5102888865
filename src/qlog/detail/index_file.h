// The index of a record file: where each message record is. docs/formats/qlog.md "Index file".
#pragma once

#include <cstdint>
#include <limits>
#include <string>
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

// What a reader looks for: the first records of `pid` whose end is above `offset` and whose stamp is at or
// after `since_us`. Within a partition both only grow, so every index is searched by halving.
struct IndexQuery {
  std::uint64_t pid = 0;
  std::uint64_t offset = 0;
  std::int64_t since_us = std::numeric_limits<std::int64_t>::min();

  bool satisfied_by(std::uint64_t end, std::int64_t created_at) const {
    return end > offset && created_at >= since_us;
  }
};
// What one file says to it.
struct IndexAnswer {
  std::vector<IndexRecord> records;  // in offset order
  bool ends = false;                 // no older file can hold anything nearer
  std::size_t next = 0;              // of a sealed file: the place behind the last record
};

struct IndexFile {
  std::uint64_t file_id = 0;
  std::uint64_t file_bytes = 0;
  std::vector<IndexRecord> records;  // by (pid, base_offset)
};
struct IndexHeader {
  std::uint64_t file_id = 0;
  std::uint64_t file_bytes = 0;
  std::size_t count = 0;
};

// Records given in order become the bytes of an index file.
class IndexEncoder {
 public:
  explicit IndexEncoder(std::size_t count) { bytes_.reserve(kIndexHeaderBytes + count * kIndexRecordBytes); }
  void add(const IndexRecord& record);
  Bytes finish(std::uint64_t file_id, std::uint64_t file_bytes) &&;

 private:
  Bytes bytes_ = Bytes(kIndexHeaderBytes, '\0');
};
// `index.records` must be sorted.
Bytes encode_index_file(const IndexFile& index);

// Verifies everything that the bytes alone can show: both checksums, exact length, strict order, each record
// inside the file. Errors: corrupt. Allocates nothing.
Result<IndexHeader> verify_index_file(BytesView bytes);
// Record `i` of verified bytes.
IndexRecord index_record_at(BytesView bytes, std::size_t i);
// The same as verify, with the records. Allocates no more than the bytes given hold.
Result<IndexFile> decode_index_file(BytesView bytes);

void sort_records(std::vector<IndexRecord>& records);

}  // namespace queen::qlog::detail

// Index of the file being written, in RAM: about 65 bytes for a partition with one record.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "qlog/detail/index_file.h"

namespace queen::qlog::detail {

// Records lie in the order they came, in chunks that never move; a table finds the newest of each partition,
// from where links lead back. Besides the link to the record before, each has one that jumps further (to
// where the record before jumps from, or from there on), so that any place in a partition is reached in O(log
// records) steps. One writer at a time, readers beside nobody: the log's lock.
class ActiveIndex {
 public:
  // More would not be addressed; a file rolls long before.
  static constexpr std::size_t kRecordsMax = std::size_t{1} << 31;

  // O(1); once in a while the table doubles.
  void add(const IndexRecord& record);
  IndexAnswer find(const IndexQuery& query, std::size_t records_max) const;
  std::size_t size() const { return size_; }
  // The bytes of the index file that describes the sealed file.
  Bytes encode(std::uint64_t file_id, std::uint64_t file_bytes) const;
  // Of the heap, what is reserved included.
  std::size_t memory_bytes() const;

 private:
  struct Node {
    std::uint64_t pid, base_offset, position;
    std::int64_t created_at;
    std::uint32_t count, length;
    std::uint32_t before, jump;  // places; its own for the first of a partition
    std::uint32_t depth;         // records of the partition before this one
    std::uint64_t end() const { return base_offset + count; }
  };
  static_assert(sizeof(Node) == 56);

  static IndexRecord record_of(const Node& node);
  Node& at(std::size_t place) const;
  Node& push();
  // Where the newest record of `pid` is noted, or would be.
  std::size_t slot_of(std::uint64_t pid) const;
  void grow_table();
  const Node& at_depth(const Node& from, std::uint32_t depth) const;

  std::vector<std::unique_ptr<Node[]>> chunks_;
  std::size_t size_ = 0;
  std::vector<std::uint32_t> table_;  // open addressing: place + 1, 0 = free; a power of two
  std::size_t pids_ = 0;
};

}  // namespace queen::qlog::detail

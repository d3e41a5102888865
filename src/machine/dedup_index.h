// Which transaction ids a partition has seen within the dedup window: a cache in front of the `txns` rows,
// which decide (storage.md 21). One flat table per partition, 8 bytes a slot: 32 bits of the hash, 32 bits of
// offset. A match is checked against the row's full 16 bytes before it counts, so the table may hold stale
// slots but never lacks one.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "store/rows.h"
#include "store/view.h"

namespace queen::machine {

// One thread: the planner's.
class DedupIndex {
 public:
  // Tables beyond `bytes_max` in total are dropped, least recently used first; the one in use stays whatever
  // its size.
  explicit DedupIndex(std::size_t bytes_max = 256ULL << 20) : bytes_max_(bytes_max) {}

  // For each 16-byte hash the offset of the earliest message of the partition with that hash stamped at or
  // after `since_us`, or nothing. `offsets` is resized to the hashes. `view` must show every planned append.
  void find(const store::View& view, Pid pid, const store::PartitionRow& partition, BytesView hashes,
            std::int64_t since_us, std::vector<std::optional<std::uint64_t>>& offsets);
  // Messages were planned at `base_offset`. Every append must be told, so that no table misses one.
  void appended(Pid pid, std::uint64_t base_offset, BytesView hashes);
  // The partition is gone.
  void forget(Pid pid);
  // What was planned will not be applied: forgets everything.
  void clear();

  std::size_t bytes() const { return bytes_; }
  std::size_t tables() const { return tables_.size(); }

 private:
  struct Slot {
    std::uint32_t print = 0;
    std::uint32_t ordinal = 0;  // offset - base + 1; 0 = free
  };
  struct Table {
    std::vector<Slot> slots;  // a power of two, at most 3/4 used
    std::size_t used = 0;
    std::uint64_t base = 0;      // offset that ordinal 1 stands for
    std::int64_t covers_us = 0;  // every message stamped at or after this is in
    std::list<Pid>::iterator age;
  };
  struct Query;

  Table& table_of(const Query& query);
  void build(Table& table, const Query& query);
  void rebuild_when_full(Table& table, const Query& query, std::size_t coming);
  void insert(Table& table, std::uint32_t print, std::uint64_t offset);
  std::optional<std::uint64_t> probe(const Table& table, const Query& query, const char* hash) const;
  void resize(Table& table, std::size_t slots);
  void evict(Pid keep);
  void drop(Pid pid);

  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::uint64_t, Table> tables_;
  std::list<Pid> ages_;  // most recently used first
};

}  // namespace queen::machine

// One table of the store: rows in byte order of their keys, in blocks; and the keys that changed since the
// last cut.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "store/detail/block.h"
#include "store/view.h"

namespace queen::store::detail {

// Keys in one allocation, in the order they came, possibly more than once.
class KeyList {
 public:
  void add(BytesView key);
  // Sorted, each once. Borrowed from the list.
  std::vector<BytesView> sorted() const;
  std::size_t size() const { return ends_.size(); }

 private:
  Bytes bytes_;
  std::vector<std::size_t> ends_;
};

class Table {
 public:
  struct Found {
    BytesView value;  // borrowed until the table changes
    std::uint64_t checksum = 0;
  };
  std::optional<Found> find(BytesView key) const;
  // Dirty::yes notes the key for the next cut.
  void put(BytesView key, BytesView value, std::uint64_t checksum, Dirty dirty);
  bool erase(BytesView key);
  void scan(BytesView prefix, BytesView from, const View::Visit& visit) const;
  std::optional<View::Row> last_at_or_below(BytesView prefix, BytesView to) const;
  std::size_t rows() const { return rows_; }

  // Visits the keys that changed since the call before, in order, each once, with the row as it is now (null
  // when it is gone). The rows are clean afterwards. Costs O(changed rows).
  using VisitChange = std::function<void(BytesView key, const Found* row)>;
  void drain_dirty(const VisitChange& visit);
  // Upper bound of what drain_dirty will visit.
  std::size_t dirty() const { return dirty_.size(); }
  // Notes `key` as changed, whether its row exists or not.
  void mark_dirty(BytesView key);
  // Bytes allocated for rows, without the allocator's own overhead.
  std::size_t block_bytes() const;
  std::size_t blocks() const { return blocks_.size(); }

 private:
  // Keyed by a lower bound of the block's keys; the first bound is always empty, so that every key has a
  // block.
  using Blocks = std::map<Bytes, Block, std::less<>>;
  Blocks::iterator block_of(BytesView key);
  Blocks::iterator insert(Blocks::iterator at, std::size_t index, BytesView key, BytesView value,
                          std::uint64_t checksum);
  Blocks::const_iterator block_of(BytesView key) const;
  void note_dirty(Block& block, BytesView key);
  void split(Blocks::iterator at);
  void shrink(Blocks::iterator at);

  Blocks blocks_ = make_blocks();
  std::size_t rows_ = 0;
  KeyList dirty_;

  static Blocks make_blocks();
};

}  // namespace queen::store::detail

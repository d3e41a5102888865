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
#include "store/detail/block_index.h"
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

enum class Dirty : bool { no, yes };

// Rows change in rounds. A cut ends the round: its changes are then taken out piece by piece, while the next
// round goes on. A row that changes again before it was taken out leaves its value of the round before aside.
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
  // As scan, with the checksum of each row.
  using VisitRow = std::function<bool(BytesView key, const Found& row)>;
  void scan_rows(BytesView prefix, BytesView from, const VisitRow& visit) const;
  std::optional<View::Row> last_at_or_below(BytesView prefix, BytesView to) const;
  std::size_t rows() const { return rows_; }

  // Rows in ascending order, all above those that are there. Not noted for a cut. Costs no search.
  struct NewRow {
    BytesView key;
    BytesView value;
    std::uint64_t checksum = 0;
  };
  void append(const NewRow& row);

  // Ends the round: gives the keys that changed in it. The round before must have been taken out whole.
  KeyList end_round();
  // The row of `key` as it was when the last round ended; nothing when it was gone. Once for each key of
  // that round. The value is borrowed until the table changes or the next call.
  std::optional<Found> take_changed(BytesView key);
  // Changes of this round so far, an upper bound.
  std::size_t dirty() const { return dirty_.size(); }
  // Notes `key` as changed in this round, whether its row exists or not.
  void mark_dirty(BytesView key);

  // Bytes allocated for rows, without the allocator's own overhead.
  std::size_t block_bytes() const;
  std::size_t blocks() const { return blocks_.size(); }

 private:
  using Place = BlockIndex::Place;
  struct Old {
    Bytes value;
    std::uint64_t checksum = 0;
  };
  // The block that has room for a new row of this key. May split, and make blocks.
  Place make_place(Place at, BytesView key, BytesView value);
  Place block_before(Place at, BytesView key);
  Place block_behind(Place at, BytesView key);
  // Gives the right half.
  Place split(Place at, std::size_t index);
  void note_change(Block& block, std::size_t index, BytesView key);
  void shrink(Place at);

  BlockIndex blocks_;
  std::size_t rows_ = 0;
  Mark round_ = Mark::odd;
  KeyList dirty_;                            // of this round
  std::map<Bytes, Old, std::less<>> aside_;  // of the round before, changed since
  Old taken_;
};

}  // namespace queen::store::detail

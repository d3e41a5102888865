// A run of rows in key order, in one allocation: the leaf of a table. Keys are stored without the prefix that
// all keys of the block share. A row costs 12 or 13 bytes beside its key's rest and its value, 8 of them its
// checksum; a value above kInlineValueBytesMax lies in an allocation of its own.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace queen::store::detail {

inline constexpr std::size_t kInlineValueBytesMax = 512;
// A block that would come above this is split. With the allocator's own bytes that is one page.
inline constexpr std::size_t kBlockBytes = 4080;

// Whether a row has changed, and in which of two rounds of changes (see Table).
enum class Mark : std::uint8_t { clean = 0, odd = 1, even = 2 };

class Block {
 public:
  Block() = default;
  ~Block();
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;

  std::size_t count() const { return count_; }
  // What the rows need, without holes and room to grow.
  std::size_t bytes() const { return used_ - holes_ + slot_bytes(count_); }
  std::size_t allocated_bytes() const { return capacity_; }
  bool crowded() const { return bytes() > kBlockBytes && count() > 1; }
  // Upper bound of bytes() once a row of this key and value was inserted.
  std::size_t bytes_with(BytesView key, BytesView value) const;
  // Upper bound of bytes() if the block shared no more than its first `prefix_bytes` bytes of key.
  std::size_t bytes_with_prefix(std::size_t prefix_bytes) const;
  // Length of the start that `key` has in common with the shared prefix.
  std::size_t shared_with(BytesView key) const;
  std::size_t shared_with(const Block& other) const { return shared_with(other.prefix()); }

  // Whether `key` is above all rows.
  bool ends_below(BytesView key) const;
  struct Position {
    std::size_t index = 0;  // of the first row at or above the key
    bool exact = false;
  };
  Position find(BytesView key) const;
  // Rebuilds the key of a row in `into`.
  void key_at(std::size_t index, Bytes& into) const;
  // Borrowed until the block changes.
  BytesView value_at(std::size_t index) const;
  std::uint64_t checksum_at(std::size_t index) const;
  Mark mark_at(std::size_t index) const;
  void set_mark(std::size_t index, Mark mark);
  // Whether a row inserted at `index` would follow the one inserted before it: rows are arriving in order.
  bool ascends_at(std::size_t index) const { return index != 0 && index == inserted_ + std::size_t{1}; }

  // `index` is the position of `key`, which is not there yet. Nothing given may be borrowed from this block.
  void insert(std::size_t index, BytesView key, BytesView value, std::uint64_t checksum, Mark mark);
  // In place unless the value became longer. `value` may not be borrowed from this block.
  void replace(std::size_t index, BytesView value, std::uint64_t checksum);
  void erase(std::size_t index);

  // Moves the rows from `index` on into a new block. Both are then as small as they can be.
  Block split(std::size_t index);
  // Takes over all rows of `next`, which are above those of this block.
  void absorb(Block&& next);
  // Gives back room that the rows do not need.
  void fit();

 private:
  struct Header {
    std::uint64_t checksum = 0;
    std::uint16_t suffix_bytes = 0;
    std::uint16_t stored_bytes = 0;
    Mark mark = Mark::clean;
    bool external = false;
    std::size_t bytes() const;  // of the header itself
    std::size_t row_bytes() const { return bytes() + suffix_bytes + stored_bytes; }
  };
  static constexpr std::size_t slot_bytes(std::size_t rows) { return rows * sizeof(std::uint16_t); }
  static Header header_for(std::size_t suffix_bytes, BytesView value, std::uint64_t checksum, Mark mark);
  static Header parse(const char* row);
  static void write(char* row, const Header& header);

  BytesView prefix() const { return {data_, prefix_bytes_}; }
  // Slots lie at the end of the allocation, the first row's last, so that rows in order need no move.
  char* slot(std::size_t index) const { return data_ + capacity_ - slot_bytes(index + 1); }
  char* row(std::size_t index) const { return data_ + load_le<std::uint16_t>(slot(index)); }
  BytesView suffix_at(std::size_t index) const;
  void open_slot(std::size_t index);
  void close_slot(std::size_t index);
  // Writes a row's bytes behind the others; there must be room.
  char* append(const Header& header, BytesView lead, BytesView suffix);
  void make_room(std::size_t bytes);
  void rebuild(std::size_t capacity);
  void set_prefix(BytesView prefix);
  void begin(BytesView prefix, std::size_t capacity);
  std::size_t bytes_of(std::size_t from, std::size_t to, std::size_t prefix_bytes) const;
  // Puts the rows [from, to) of `other` behind those here, external values and all; the other block must
  // forget them.
  void append_moved(const Block& other, std::size_t from, std::size_t to);
  // The rows [from, to) under the longest prefix they share.
  Block part(std::size_t from, std::size_t to) const;
  void forget_all() { count_ = 0; }

  char* data_ = nullptr;
  std::uint16_t used_ = 0;      // prefix and rows, holes among them
  std::uint16_t holes_ = 0;     // bytes of used_ that no row takes any more
  std::uint16_t count_ = 0;     // rows
  std::uint16_t capacity_ = 0;  // bytes at data_
  std::uint16_t prefix_bytes_ = 0;
  std::uint16_t inserted_ = 0;  // position of the newest row
};

}  // namespace queen::store::detail

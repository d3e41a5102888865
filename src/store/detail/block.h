// A run of rows in key order, in one allocation: the leaf of a table. Keys are stored without the prefix that
// all keys of the block share. A row costs 14 bytes beside its key's rest and its value; a value above
// kInlineValueBytesMax lies in an allocation of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace queen::store::detail {

inline constexpr std::size_t kInlineValueBytesMax = 512;
// A block above this is split. The largest row is about 1 KiB, so offsets fit 16 bits with room.
inline constexpr std::size_t kBlockBytes = 4096;

enum class Dirty : bool { no, yes };

class Block {
 public:
  Block() = default;
  ~Block();
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;

  std::size_t count() const { return slots_.size(); }
  std::size_t bytes() const { return size_; }
  bool crowded() const { return size_ > kBlockBytes && count() > 1; }
  // Bytes this block would take if it shared no more than its first `prefix_bytes` bytes of key.
  std::size_t bytes_with_prefix(std::size_t prefix_bytes) const;
  // Length of the start that `key` has in common with the shared prefix.
  std::size_t shared_with(BytesView key) const;
  std::size_t shared_with(const Block& other) const { return shared_with(other.prefix_); }

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
  bool dirty_at(std::size_t index) const;
  void set_dirty(std::size_t index, Dirty dirty);

  // `index` is the position of `key`, which is not there yet.
  void insert(std::size_t index, BytesView key, BytesView value, std::uint64_t checksum);
  // Does not allocate when the size stays the same.
  void replace(std::size_t index, BytesView value, std::uint64_t checksum);
  void erase(std::size_t index);

  // Moves the rows from `index` on into a new block.
  Block split(std::size_t index);
  // Takes over all rows of `next`, which are above those of this block.
  void absorb(Block&& next);

 private:
  struct Header {
    std::uint64_t checksum = 0;
    std::uint16_t suffix_bytes = 0;
    std::uint16_t stored_bytes = 0;
    bool dirty = false;
    bool external = false;
  };
  Header header_at(std::size_t index) const;
  void write_header(std::size_t at, const Header& header);
  std::size_t row_bytes(std::size_t index) const;
  BytesView suffix_at(std::size_t index) const;
  char* stored_at(std::size_t index) const;
  char* external_at(std::size_t index) const;
  void free_external(std::size_t index);
  // Makes or removes room at `at` and moves the rows at and behind `first_slot`.
  void open_gap(std::size_t at, std::size_t bytes, std::size_t first_slot);
  void close_gap(std::size_t at, std::size_t bytes, std::size_t first_slot);
  void reserve(std::size_t bytes);
  void set_prefix(BytesView prefix);
  // Copies a row of another block, external value and all; the other block must forget it.
  void append_moved(const Block& from, std::size_t index, std::size_t key_skip, BytesView key_lead);
  void forget_all();

  char* data_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = 0;
  Bytes prefix_;
  std::vector<std::uint16_t> slots_;  // where each row begins in data_, in key order
};

}  // namespace queen::store::detail

// Bytes read and not yet parsed. Unlike Beast's flat_buffer, consume() leaves the write position where it is,
// so a read that is pending stays valid while earlier bytes are taken; only prepare() moves bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace queen::http::detail {

class ReadBuffer {
 public:
  std::string_view view() const { return {bytes_.get() + begin_, size()}; }
  std::size_t size() const { return end_ - begin_; }

  // Room for a read of at least `room_min` bytes, valid until the next prepare() or release(). Grows by
  // doubling, from `capacity_min`. No earlier room may still be in use.
  std::span<char> prepare(std::size_t room_min, std::size_t capacity_min) {
    const std::size_t size = this->size();
    if (capacity_ - size < room_min) {
      const std::size_t capacity = std::max({capacity_min, 2 * capacity_, size + room_min});
      // Not make_unique, which would clear it.
      std::unique_ptr<char[]> grown(new char[capacity]);
      if (size > 0) std::memcpy(grown.get(), bytes_.get() + begin_, size);
      bytes_ = std::move(grown);
      capacity_ = capacity;
    } else if (begin_ > 0 && size > 0) {
      std::memmove(bytes_.get(), bytes_.get() + begin_, size);
    }
    begin_ = 0;
    end_ = size;
    return {bytes_.get() + end_, capacity_ - end_};
  }
  void commit(std::size_t bytes) { end_ += bytes; }
  void consume(std::size_t bytes) { begin_ += bytes; }
  // Drops the bytes and the memory.
  void release() {
    bytes_.reset();
    capacity_ = begin_ = end_ = 0;
  }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace queen::http::detail

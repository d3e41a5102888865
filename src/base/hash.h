// XXH3 as the formats use it: seed 0 unless one is named; 128-bit hashes in canonical (big-endian) form.
// Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace queen {

std::uint64_t xxh3_64(std::string_view bytes, std::uint64_t seed = 0);

struct Hash128 {
  std::array<std::uint8_t, 16> canonical{};
  auto operator<=>(const Hash128&) const = default;
  // The first 8 bytes as a number, for hash tables.
  std::uint64_t prefix() const {
    std::uint64_t value = 0;
    std::memcpy(&value, canonical.data(), sizeof value);
    return value;
  }
  std::string_view view() const {
    return {reinterpret_cast<const char*>(canonical.data()), canonical.size()};
  }
};

Hash128 xxh3_128(std::string_view bytes);

// Same result as xxh3_64 over the pieces joined, without joining them.
class Xxh3Stream {
 public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(const Xxh3Stream&) = delete;
  Xxh3Stream& operator=(const Xxh3Stream&) = delete;
  void update(std::string_view bytes);
  std::uint64_t digest() const;

 private:
  void* state_;
};

}  // namespace queen

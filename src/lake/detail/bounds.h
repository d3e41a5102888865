// Least and greatest of a chunk's values for the footer, cut to 64 bytes (HD-23).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "lake/detail/parquet_meta.h"

namespace queen::lake {

inline constexpr std::size_t kBoundBytesMax = 64;

// Of UTF-8 texts in the order of their bytes. Keeps no more of a value than the bounds can show.
class TextBounds {
 public:
  void see(BytesView value);
  // Cut at a character; a prefix is never greater than the value.
  Bound min() const;
  // Cut at a character, of which the last one that can be raised is raised, and nothing stands behind it. A
  // character can be raised when its successor has as many bytes. Absent when none can.
  Bound max() const;

 private:
  // One byte more than a bound has tells a value that is cut from one that is whole.
  struct Prefix {
    std::array<char, kBoundBytesMax + 1> bytes;
    std::size_t size = 0;
    BytesView view() const { return {bytes.data(), size}; }
    void assign(BytesView value);
  };

  bool seen_ = false;
  Prefix min_, max_;
};

class Int64Bounds {
 public:
  void see(std::int64_t value);
  Bound min() const { return of(min_); }
  Bound max() const { return of(max_); }

 private:
  Bound of(std::int64_t value) const;

  bool seen_ = false;
  std::int64_t min_ = 0, max_ = 0;
};

}  // namespace queen::lake

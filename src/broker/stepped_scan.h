// Reads of many rows that never keep apply waiting: the store's gate is given back every so many rows.
#pragma once

#include <cstddef>

#include "store/store.h"

namespace queen::broker {

inline constexpr std::size_t kScanStepRows = 1024;  // looked at under one gate

// Visits the rows whose key starts with `prefix` and is at or above `from`, in key order, until
// `visit(key, value)` gives false. Not one moment of the store: a row that comes or goes meanwhile may be
// seen or not. Any thread that holds no gate; `visit` runs with it held.
template <class Visit>
void scan_in_steps(const store::Store& store, store::Keyspace keyspace, BytesView prefix, Bytes from,
                   const Visit& visit) {
  bool more = true;
  while (more) {
    more = false;
    std::size_t looked_at = 0;
    const auto gate = store.read_gate();
    store.scan(keyspace, prefix, from, [&](BytesView key, BytesView value) {
      if (looked_at++ >= kScanStepRows) {
        from = Bytes(key);
        more = true;
        return false;
      }
      return visit(key, value);
    });
  }
}

// The first key above everything that starts with `prefix`, which ends with a name.
inline Bytes after_name(Bytes prefix) {
  prefix.back() = '\1';  // a name ends with 00 00, and goes on with 00 FF or a byte above 00
  return prefix;
}

// Which part of a list is asked for.
struct PageRange {
  std::size_t limit = 100;
  std::size_t offset = 0;
};
// A page ends with the row whose text brings it above this, so that an answer stays within memory.
inline constexpr std::size_t kPageBytesMax = 64ULL << 20;

}  // namespace queen::broker

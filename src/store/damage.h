// Damaged rows: how they are found and named (CR-1, BR-5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "store/keyspace.h"

namespace queen::store {

// xxh3_64(value, seed = xxh3_64(key, seed = ks)) with ks = xxh3_64(keyspace name, seed = 0x517565656E4B5331):
// a value under another key or in another keyspace does not verify (CK-2).
std::uint64_t row_checksum(Keyspace keyspace, BytesView key, BytesView value);

// How refusals name a key: hex and printable form of at most its first 96 bytes.
std::string describe_key(BytesView key);
// corrupt: names keyspace, key and what failed.
Error row_damage(Keyspace keyspace, BytesView key, std::string_view what);

// Where a walk over all rows stands: behind `after` in `keyspace`; empty: before the first row.
struct RowPlace {
  Keyspace keyspace{};
  Bytes after;
};
// The place before all rows of the table behind `keyspace`; nothing when there is none.
std::optional<RowPlace> table_behind(Keyspace keyspace);
// What one step of a walk verified.
struct Verified {
  std::size_t rows = 0;
  std::optional<RowPlace> next;  // nothing: the walk is over
};

}  // namespace queen::store

// How a row lies in the LMDB file: its value with its checksum behind it (storage.md CK-2).
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "store/keyspace.h"

namespace queen::store::detail {

// What the file holds of a row, borrowed from its pages.
struct Stored {
  BytesView value;
  std::uint64_t checksum = 0;
};

// Splits it into value and checksum, and verifies it. Errors: corrupt, naming keyspace and key (BR-5).
Result<Stored> verified(Keyspace keyspace, BytesView key, BytesView stored);

// Rows of `meta` that describe the file and never come into RAM.
bool is_of_file(Keyspace keyspace, BytesView key);

// Keys of one table as they come: of a possible length, and ascending. Errors: corrupt (BR-5).
class KeyOrder {
 public:
  Status next(Keyspace keyspace, BytesView key);

 private:
  Bytes before_;
};

}  // namespace queen::store::detail

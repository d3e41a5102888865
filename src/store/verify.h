// Every check of the checkpoint file without a node, and without LMDB: the pages are read one by one, so that
// nothing is changed and damage of one page hides only what hangs below it. For `queenctl data`.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "base/bytes.h"
#include "base/finding.h"
#include "base/result.h"
#include "store/keyspace.h"

namespace queen::store {

struct StoredRow {
  Keyspace keyspace = Keyspace::meta;
  BytesView key, value;  // borrowed until return
  std::uint64_t checksum = 0;
};
struct StoreFacts {
  bool there = false;     // data.mdb exists and is not empty
  bool readable = false;  // its meta pages could be read
  bool written = false;   // at least one checkpoint was
  bool complete = false;  // no damage was found: every row was given
  std::uint64_t bytes = 0, transaction = 0;
  std::array<std::uint64_t, kKeyspaceCount> rows{};  // found, those that describe the file not counted
};

// Finds the damage of pages and trees (BR-8), of rows, their order and their counts (BR-5), of the format
// (BR-6), and rows that do not parse in their table (CK-3). Gives every row whose checksum and order are
// right to `good_row`, table by table in key order, the rows that describe the file included. Errors:
// unavailable.
Result<StoreFacts> verify_store_file(const std::string& directory, Findings& findings,
                                     const std::function<void(const StoredRow&)>& good_row);

}  // namespace queen::store

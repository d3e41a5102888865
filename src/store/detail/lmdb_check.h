// Looks over an LMDB file before LMDB maps it. LMDB trusts its pages: a file that was cut short ends the
// process with a bus error, a damaged page with a wild read, and a damaged list of free pages overwrites live
// ones at the next write. So every reachable page is read and its structure verified first; what the pages
// hold is verified by row checksums.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace queen::store::detail {

struct LmdbFacts {
  std::uint64_t page_bytes = 0;
  std::uint64_t last_page = 0;
  std::uint64_t transaction = 0;  // 0: nothing has been written since the file was made
};

// Who wants to see what the walk finds.
class LmdbVisitor {
 public:
  virtual ~LmdbVisitor() = default;
  // A row of a table as it lies there; all is borrowed until return. Rows of one table come in the order of
  // the file.
  virtual void row(BytesView table, BytesView key, BytesView stored) = 0;
  // Damage at `position` of the file. The error to stop with, or nothing to go on with the next page.
  virtual Status damaged(Error error, std::uint64_t position) = 0;
};

// Reads the file once, page by page, and changes nothing. Errors: corrupt, naming the path and the cause.
Result<LmdbFacts> check_lmdb_file(const std::string& path);
// The same, with a visitor that decides about damage. What lies below a damaged page is not seen. Errors:
// what the visitor stops with; corrupt for a file without a usable meta page.
Result<LmdbFacts> walk_lmdb_file(const std::string& path, LmdbVisitor& visitor);

}  // namespace queen::store::detail

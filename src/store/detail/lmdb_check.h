// Looks over an LMDB file before LMDB maps it. LMDB trusts its pages: a file that was cut short ends the
// process with a bus error, a damaged page with a wild read, and a damaged list of free pages overwrites live
// ones at the next write. So every reachable page is read and its structure verified first; what the pages
// hold is verified by row checksums.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace queen::store::detail {

struct LmdbFacts {
  std::uint64_t page_bytes = 0;
  std::uint64_t last_page = 0;
  std::uint64_t transaction = 0;  // 0: nothing has been written since the file was made
};

// Reads the file once, page by page, and changes nothing. Errors: corrupt, naming the path and the cause.
Result<LmdbFacts> check_lmdb_file(const std::string& path);

}  // namespace queen::store::detail

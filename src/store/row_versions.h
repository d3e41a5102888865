// Rows that another version of Queen wrote, found before anything is done with them.
#pragma once

#include <string>

#include "base/result.h"
#include "store/store.h"

namespace queen::store {

// Looks at the version byte of every row, and decodes one row of each version of a table. `path` is the file
// that they came from, for the text. Nobody changes the store meanwhile. Errors: corrupt, naming table, key,
// the version found and what to do.
Status check_row_versions(const Store& store, const std::string& path);

}  // namespace queen::store

// What must hold between the tables of the store (storage.md 9): each effect changes several of them in one
// step, so a difference is a row that was lost or a bug. For `queenctl data verify` and for tests of replay.
#pragma once

#include <string>

#include "base/finding.h"
#include "store/view.h"

namespace queen::machine {

// Gives each difference to `findings` with keyspace and key, `path` as the file. Rows that do not decode are
// passed over: that is told elsewhere (store/row_check.h). Rows of partitions that wait for their deletion
// (`garbage`) are not judged. Needs a read gate, or a view that nobody writes.
void check_state(const store::View& view, const std::string& path, Findings& findings);

}  // namespace queen::machine

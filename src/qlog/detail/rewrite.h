// A sealed file written anew with its live records only: storage.md RE-8.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "qlog/detail/log.h"

namespace queen::qlog::detail {

// A copy that lies beside the file it is to replace.
struct Rewrite {
  LogId log;
  SealedFile old, fresh;
  std::shared_ptr<disk::File> file;  // shared: the cache and readers keep it afterwards
  Bytes index;                       // its index file
};

// Copies `live` (in file order, not empty) byte for byte into `….compact`, synced on return. Every record is
// verified on its way. Errors: corrupt (a record is damaged), full, unavailable (also when `go_on` said no);
// no copy is left behind.
Result<Rewrite> copy_live(Shared& shared, LogId log, const SealedFile& file,
                          const std::vector<IndexRecord>& live, const std::function<bool()>& go_on);

// Forgets a copy that did not take its place.
void discard(Shared& shared, const Rewrite& rewrite);

// Sends readers of `log` to the copy, which is not yet under the name of the file: that comes next, for one
// that found a place in the new bytes must not open the name while it leads to the old. Whoever has the old
// file open keeps it. False: another has the log's turn, nothing was done.
bool show(Shared& shared, Log& log, const Rewrite& rewrite);

// After show(): the copy's index and then the copy take the names of the old ones, durably. Errors: full,
// unavailable; readers stay with the copy, and it is to be tried again.
Status take_name(Shared& shared, const Rewrite& rewrite);

}  // namespace queen::qlog::detail

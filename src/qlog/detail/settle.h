// What recovery changes on disk, once no log was refused. storage.md 4.7, 13 steps 7 and 10.
#pragma once

#include "qlog/detail/inspect.h"
#include "qlog/detail/log.h"

namespace queen::qlog::detail {

// Removes leftovers, cuts the active file before `cut`, writes missing indexes, and makes all of it durable
// together with everything that was read. Repeating it after a crash at any step ends in the same state.
// Errors: unavailable, full.
Result<LogState> settle_log(disk::Disk& disk, const std::string& root, LogImage image, std::uint64_t cut);

// Deletes a directory `q<id>.dead`.
Status sweep_dead(disk::Disk& disk, const std::string& directory);

}  // namespace queen::qlog::detail

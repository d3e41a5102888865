// `queenctl data verify` over a node that stands still: the program's own check of every byte, as an oracle
// beside the clients' books.
#pragma once

#include <optional>
#include <string_view>

#include "cli/data_verify.h"
#include "disk/ram_disk.h"
#include "store_home.h"
#include "story.h"

namespace queen::sim {

// What it finds in the node's directory of `disk` and its store at `home`. Nothing: there is no store yet.
std::optional<cli::VerifyReport> verify_offline(const disk::RamDisk& disk, const StoreHome& home,
                                                Clock& clock);
// No damage is in what a node made, whenever its power went, and the next boot takes it. `when` goes into the
// story.
void expect_sound(Story& story, const disk::RamDisk& disk, const StoreHome& home, Clock& clock,
                  std::string_view when);

}  // namespace queen::sim

// The checkpoint file on LMDB, with the size rule of its map as a parameter.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/checkpoint_file.h"

namespace queen::store::detail {

inline constexpr std::uint64_t kStoreFormat = 1;
// What to do about a file of another version of Queen.
inline constexpr std::string_view kOtherVersionRepair =
    "start the version of Queen that wrote it, or restore a backup that this one made; in a cluster, empty "
    "this node's directory and let it rejoin";

struct MapRule {
  std::uint64_t bytes = std::uint64_t{64} << 30;
  bool grows = true;  // to four times the used size when more than half of it is used
};

Result<std::unique_ptr<CheckpointFile>> open_lmdb(const std::string& directory, MapRule rule, Logger log);

}  // namespace queen::store::detail

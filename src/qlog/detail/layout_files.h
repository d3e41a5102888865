// The files LANES and SHARDS.
#pragma once

#include <optional>
#include <string>

#include "qlog/queue_logs.h"

namespace queen::qlog::detail {

struct LayoutOnDisk {
  std::optional<std::uint32_t> lanes, shards;  // nothing: the file does not exist
};
enum class HasLogs : bool { no, yes };

// Errors: corrupt (BR-9: a file that is no number or out of range, one that is missing although the directory
// has logs, or one that says something else than the checkpoint, `known`: a flipped bit makes a number of a
// number), unavailable.
Result<LayoutOnDisk> read_layout(disk::Disk& disk, const std::string& directory, HasLogs has_logs,
                                 const std::optional<Layout>& known);
// Durable on return.
Status write_layout(disk::Disk& disk, const std::string& directory, const Layout& layout);

}  // namespace queen::qlog::detail

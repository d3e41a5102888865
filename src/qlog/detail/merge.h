// The entry parts of all logs, put in order by index: which entries are complete, and where the logs are cut.
// storage.md 13 steps 5-9. Reads only.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "qlog/detail/inspect.h"

namespace queen::qlog::detail {

// Where the whole record of an entry that is to be replayed stands.
struct ReplayEntry {
  std::uint64_t index = 0;
  std::uint64_t position = 0;
  LogId log;
  std::uint32_t file_id = 0;
  std::uint32_t bytes = 0;
};

struct Merged {
  std::uint64_t cut = 0;  // the first index that is not kept
  std::uint64_t entries_cut = 0;
  std::vector<ReplayEntry> replay;
  std::map<LogId, std::uint64_t> tails;  // last entry to replay that has a part in the log
};

// Reads one record. Errors: corrupt, unavailable.
using ReadEntry = std::function<Result<RecoveredEntry>(const ReplayEntry&)>;

// The logs that the checkpoint speaks of must be there and reach as far as it says (BR-3, BR-10).
Status check_reach(const std::vector<LogImage>& images, const DurableState& durable,
                   const std::string& directory, Judge& judge);

// What all parts of one entry that were found must agree on (BR-4). `parts` is not empty.
Status check_parts(std::span<const EntryPart> parts, Judge& judge);

// Errors: corrupt (BR-2, BR-3, BR-4; a whole record that `appends_of` cannot read), unavailable.
Result<Merged> merge(const std::vector<LogImage>& images, const DurableState& durable,
                     const AppendsOf& appends_of, const ReadEntry& read_entry, Progress& progress,
                     Judge& judge);

}  // namespace queen::qlog::detail

// `queenctl data dump`: what lies in a data directory, one line per record and row.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "cli/row_text.h"
#include "disk/disk.h"
#include "store/keyspace.h"

namespace queen::cli {

struct DumpWhat {
  bool logs = true, store = true;
  std::vector<LogId> only_logs;  // empty: all
  std::uint64_t from_seq = 0;
  std::optional<store::Keyspace> keyspace;  // nothing: all
  bool json = false;
  Payloads payloads = Payloads::hidden;
};
using DumpLine = std::function<void(const std::string&)>;

// Damaged places are lines of their own, and reading goes on behind them. Changes nothing. Errors: not_found,
// busy, unavailable.
Status dump_directory(disk::Disk& disk, const std::string& directory, const DumpWhat& what,
                      const DumpLine& line);

// The logs of a queue, by the layout of the directory. Errors: not_found, corrupt (LANES or SHARDS).
Result<std::vector<LogId>> logs_of_queue(disk::Disk& disk, const std::string& directory,
                                         const std::string& tenant, const std::string& queue);

}  // namespace queen::cli

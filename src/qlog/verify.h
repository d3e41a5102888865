// Every check of the queue logs without a node: those of recovery, and what a boot does not read. Changes
// nothing, opens files to read only. For `queenctl data`; the log scrub uses check_content().
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/finding.h"
#include "base/log.h"
#include "disk/disk.h"
#include "qlog/queue_logs.h"
#include "qlog/record.h"

namespace queen::qlog {

// What a message record says beyond its checksum: the payload is one zstd frame where it says so (QL-9), it
// holds exactly `count` message frames (QL-15), and each hash is that of its frame's transaction id (QL-2).
// Errors: corrupt, saying which.
Status check_content(const Record& record);

// Where a record stands.
struct RecordPlace {
  LogId log;
  std::uint32_t file_id = 0;
  std::uint64_t position = 0;
};
std::string record_path(const std::string& directory, const RecordPlace& place);

// Takes the records whose checksum is right: file by file of a log, in file order. Called from one thread.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  virtual void message(const RecordPlace& place, const Record& record) = 0;
  // Whether the bytes of an entry are those of an entry. Errors: corrupt, saying what is wrong.
  virtual Status entry(const RecordPlace& place, const Record& record) = 0;
};

struct VerifyInput {
  disk::Disk& disk;
  std::string directory;  // .../qlog
  const DurableState& durable;
  const AppendsOf& appends_of;
  Clock& clock;  // of a progress line every 5 s
  Logger log;
  std::size_t parts_max = 1'000'000;  // entry parts kept at once; more cost another pass over the logs
};
struct LogFacts {
  std::optional<Layout> layout;  // nothing when its files are damaged or missing
  std::uint64_t logs = 0, files = 0, bytes = 0, message_records = 0, entries = 0;
  std::uint64_t last_index = 0;  // a boot would go on behind it
  std::uint64_t entries_to_replay = 0, entries_cut = 0;
};

// Finds all damage: layout files (BR-9), file headers (BR-11), every record of every file (BR-1, BR-2, CR-6),
// the order of seqs (BR-2), missing files and logs that end too early (BR-3, BR-10), parts of entries that
// contradict each other (BR-4), contents (check_content, RecordReader::entry), indexes that do not describe
// their file (QL-21), directories over sealed files that are damaged or do not describe them (RD-9, RD-10).
// Leftovers and what the next boot puts right are notes. Memory: the parts and message
// keys above the durable index, as a boot needs, and `parts_max` parts below it. Errors: unavailable.
Result<LogFacts> verify_logs(const VerifyInput& input, RecordReader& reader, Findings& findings);

}  // namespace queen::qlog

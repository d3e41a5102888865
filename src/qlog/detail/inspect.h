// Recovery's look at one log directory. Reads only: what has to change on disk is done in detail/settle.h,
// once no log was refused. storage.md 4.7, 13, 14.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "qlog/detail/index_file.h"
#include "qlog/detail/judge.h"
#include "qlog/queue_logs.h"

namespace queen::qlog::detail {

// Where an entry part above the durable index stands, and what the parts of one entry must agree on.
struct EntryPart {
  std::uint64_t seq = 0;
  LogId log;
  std::uint32_t file_id = 0;
  std::uint32_t bytes = 0;  // of the whole record
  std::uint64_t position = 0;
  bool whole = false;
  std::uint64_t copies = 0, term = 0;
  std::int64_t now_us = 0;
  std::uint64_t xxh3 = 0;         // of the entry's bytes
  std::uint32_t entry_bytes = 0;  // their number
};

struct MessageKey {
  std::uint64_t seq = 0, pid = 0, base_offset = 0;
  auto operator<=>(const MessageKey&) const = default;
};

struct FoundFile {
  std::uint32_t id = 0;
  std::uint64_t first_seq = 0;
  std::uint64_t bytes = 0;        // real size
  std::uint64_t highest_seq = 0;  // of the records seen; 0 when it was not scanned
  bool index_missing = false;     // sealed, and its index must be written again
  bool header_damaged = false;    // first_seq is a guess; only where a judge goes on
};

struct SeqStart {
  std::uint64_t seq = 0, position = 0;
};

struct LogImage {
  LogId id;
  std::vector<FoundFile> files;             // ascending; the last one is active
  std::vector<std::uint32_t> unlisted;      // below the highest id that the last checkpoint lists (RE-9)
  std::vector<std::string> leftovers;       // names to remove, unused newest files included
  std::uint64_t active_end = 0;             // where its good records end
  std::int64_t active_since_us = 0;         // clock of its first record; 0 = none
  std::vector<IndexRecord> active_records;  // in file order
  std::vector<SeqStart> active_starts;      // of each seq above the durable index
  std::vector<EntryPart> parts;             // above the durable index, ascending
  std::vector<MessageKey> messages;         // above the durable index
  std::uint64_t highest_seq = 0;
};

// Counts and reports progress, one line every 5 s. Thread-safe.
class Progress {
 public:
  Progress(Clock* clock, Logger log) : clock_(clock), log_(std::move(log)) {
    if (clock_ != nullptr) last_us_ = clock_->mono_us();
  }
  void scanned(std::uint64_t bytes) {
    bytes_ += bytes;
    tell("qlog_scan_progress");
  }
  void log_done() { ++logs_; }
  void entries(std::uint64_t count) {
    entries_ = count;
    tell("qlog_merge_progress");
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  void tell(const char* event);

  Clock* clock_;  // nullptr: no lines
  std::atomic<std::uint64_t> bytes_{0}, logs_{0}, entries_{0};
  std::mutex mutex_;  // guards what follows
  std::int64_t last_us_ = 0;
  Logger log_;
};

struct InspectContext {
  disk::Disk& disk;
  const Options& options;
  const DurableState& durable;
  Progress& progress;
  Judge& judge;
};

// The part that a good entry record or stub is.
EntryPart part_of(const ScanResult& found, LogId log, std::uint32_t file_id, std::uint64_t position);

// Errors: corrupt (BR-1, BR-2, BR-3, BR-10, BR-11), unavailable.
Result<LogImage> inspect_log(const InspectContext& context, LogId log);

}  // namespace queen::qlog::detail

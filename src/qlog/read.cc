// Reading messages and entries back: storage.md 20.
#include <fmt/format.h>

#include <algorithm>

#include "qlog/detail/queue_logs_impl.h"
#include "qlog/detail/record_read.h"

namespace queen::qlog::detail {
namespace {

// Positions taken from the index at a time: it is copied under the log's lock.
constexpr std::size_t kRunRecordsMax = 32;
// A read from the page cache takes microseconds, the fastest disk a multiple of that.
constexpr std::int64_t kSlowReadUs = 100;
constexpr std::uint64_t kFetchAheadBytesMax = 4ULL << 20;

// Gathers messages until a limit is met.
class Batch {
 public:
  Batch(Shared& shared, std::uint64_t from_offset, const ReadLimits& limits)
      : shared_(shared), from_(from_offset), limits_(limits) {}

  bool full() const { return full_ || messages_.messages.size() >= limits_.messages_max; }
  bool empty() const { return messages_.messages.empty(); }
  ReadBatch take() { return std::move(messages_); }

  // Errors: corrupt, unavailable; nothing of the record was added then.
  Status add(const FileKey& file, const IndexRecord& at) {
    if (at.base_offset >= limits_.end_offset) {
      full_ = true;
      return {};
    }
    auto read = read_record(shared_, file, at);
    if (!read) return std::move(read).error();
    BytesView payload = read->record.payload();
    std::shared_ptr<const Bytes> buffer = std::move(read->buffer);
    if (read->record.compressed) {
      auto raw = decompress_payload(payload);
      if (!raw) return damaged(file, at.position, raw.error().what);
      buffer = std::make_shared<const Bytes>(std::move(*raw));
      payload = *buffer;
    }
    const auto frames = decode_frames(payload, at.count);
    if (!frames) return damaged(file, at.position, frames.error().what);
    messages_.buffers.push_back(std::move(buffer));
    for (std::uint32_t i = 0; i < at.count && !full(); ++i) add_message(at, i, (*frames)[i]);
    return {};
  }

 private:
  void add_message(const IndexRecord& at, std::uint32_t i, const MessageFrame& frame) {
    const std::uint64_t offset = at.base_offset + i;
    if (offset < from_) return;
    const std::uint64_t cost = std::max<std::uint64_t>(frame.payload.size(), 1);
    const bool too_much =
        !empty() && cost > limits_.payload_bytes_max - std::min(bytes_, limits_.payload_bytes_max);
    if (offset >= limits_.end_offset || too_much) {
      full_ = true;
      return;
    }
    bytes_ += cost;
    messages_.messages.push_back({.offset = offset, .created_at = at.created_at, .frame = frame});
  }

  Shared& shared_;
  const std::uint64_t from_;
  const ReadLimits& limits_;
  ReadBatch messages_;
  std::uint64_t bytes_ = 0;
  bool full_ = false;
};

// One walk over the records of a partition.
class Walk {
 public:
  Walk(Shared& shared, Log& log, Pid pid, std::uint64_t from_offset, const ReadLimits& limits)
      : shared_(shared),
        log_(log),
        pid_(pid),
        next_(from_offset),
        limits_(limits),
        batch_(shared, from_offset, limits) {}

  Result<ReadBatch> run() {
    while (!batch_.full() && next_ < limits_.end_offset) {
      swaps_ = log_.swaps();
      auto run = log_.find_next(run_, {.pid = pid_.value, .offset = next_},
                                std::min<std::size_t>(limits_.messages_max, kRunRecordsMax));
      if (!run && log_.swaps() != swaps_) continue;
      if (!run && batch_.empty()) return std::move(run).error();
      if (!run || run->records.empty()) break;
      run_ = std::move(*run);
      if (slow_) fetch_ahead(0);
      auto done = read_run();
      // What failed may have gone to a file that was replaced meanwhile: it is looked for again.
      if (!done && log_.swaps() != swaps_) {
        run_ = {};
        continue;
      }
      if (done) continue;
      Error error = report(shared_, run_.file, run_.records[failed_], std::move(done).error());
      if (batch_.empty()) return error;
      break;
    }
    return batch_.take();
  }

 private:
  Status read_run() {
    for (std::size_t i = 0; i < run_.records.size() && !batch_.full(); ++i) {
      const IndexRecord& at = run_.records[i];
      if (at.base_offset > next_ && at.base_offset < limits_.end_offset)
        shared_.damage.gap(log_.id(), pid_, next_, at.base_offset);
      const std::int64_t before = now_us();
      failed_ = i;
      if (auto added = batch_.add(run_.file, at); !added) return added;
      next_ = at.end;
      if (slow_ || now_us() - before < kSlowReadUs) continue;
      slow_ = true;
      fetch_ahead(i + 1);
    }
    return {};
  }

  std::int64_t now_us() const {
    return shared_.options.clock == nullptr ? 0 : shared_.options.clock->mono_us();
  }

  // Asks for what this walk will read next, so that the reads overlap (RD-7).
  void fetch_ahead(std::size_t from) {
    const auto file = shared_.open_file(run_.file);
    if (!file) return;
    std::uint64_t left = std::min<std::uint64_t>(kFetchAheadBytesMax, limits_.payload_bytes_max);
    for (std::size_t i = from; i < run_.records.size() && left > 0; ++i) {
      const IndexRecord& at = run_.records[i];
      if (at.base_offset >= limits_.end_offset) return;
      (*file)->read_ahead(at.position, at.length);
      left -= std::min<std::uint64_t>(left, at.length);
    }
  }

  Shared& shared_;
  Log& log_;
  const Pid pid_;
  std::uint64_t next_;
  const ReadLimits& limits_;
  Batch batch_;
  RecordRun run_;
  std::size_t failed_ = 0;   // of run_: the record being read
  std::uint64_t swaps_ = 0;  // of the log, when run_ was looked for
  bool slow_ = false;
};

}  // namespace

Result<ReadBatch> read_messages(Shared& shared, Log& log, Pid pid, std::uint64_t from_offset,
                                const ReadLimits& limits) {
  return Walk(shared, log, pid, from_offset, limits).run();
}

Result<RecoveredEntry> read_entry_record(Shared& shared, const ReplayEntry& at) {
  const auto bytes = read_bytes(shared, {at.log, at.file_id}, at.position, at.bytes);
  if (!bytes) return bytes.error();
  const ScanResult found = scan_record(**bytes);
  const Record& record = found.record;
  if (found.outcome != Scan::record || record.kind != RecordKind::entry || record.seq != at.index)
    return damaged({at.log, at.file_id}, at.position,
                   fmt::format("the record of entry {} is damaged", at.index));
  return RecoveredEntry{
      .index = {record.seq}, .term = record.term(), .now_us = record.created_at, .entry = Bytes(record.body)};
}

Status QueueLogsImpl::replay(const std::function<Status(const RecoveredEntry&)>& apply) {
  for (const auto& at : recovered_.replay) {
    const auto entry = read_entry_record(*shared_, at);
    if (!entry) return entry.error();
    if (auto done = apply(*entry); !done) return done;
  }
  return {};
}

}  // namespace queen::qlog::detail

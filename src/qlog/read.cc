// Reading messages and entries back: storage.md 20.
#include <fmt/format.h>

#include <algorithm>

#include "qlog/detail/queue_logs_impl.h"
#include "qlog/detail/record_read.h"

namespace queen::qlog::detail {
namespace {

// Positions taken from the index at a time: it is copied under the log's lock.
constexpr std::size_t kRunRecordsMax = 32;

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

}  // namespace

Result<ReadBatch> read_messages(Shared& shared, Log& log, Pid pid, std::uint64_t from_offset,
                                const ReadLimits& limits) {
  Batch batch(shared, from_offset, limits);
  std::uint64_t next = from_offset;
  while (!batch.full() && next < limits.end_offset) {
    const auto run = log.find({.pid = pid.value, .offset = next},
                              std::min<std::size_t>(limits.messages_max, kRunRecordsMax));
    if (!run && batch.empty()) return run.error();
    if (!run || run->records.empty()) break;
    for (const auto& at : run->records) {
      if (batch.full()) break;
      auto added = batch.add(run->file, at);
      if (!added && batch.empty()) return std::move(added).error();
      if (!added) return batch.take();
      next = at.end;
    }
  }
  return batch.take();
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

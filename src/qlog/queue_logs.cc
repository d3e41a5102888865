// Writing groups and making them durable: storage.md 5.
#include <fmt/format.h>

#include <algorithm>

#include "base/invariant.h"
#include "qlog/detail/queue_logs_impl.h"

namespace queen::qlog::detail {
namespace {

// Buffers of usual groups are kept for the next one; one that grew beyond this is given back.
constexpr std::size_t kBufferKeptBytes = 4ULL << 20;

std::size_t record_bytes(const MessageToWrite& message) {
  return kRecordFixedBytes + message.hashes.size() + message.payload.size();
}

Error too_long(EntryIndex index, const char* what, std::size_t bytes) {
  return {Errc::invalid, fmt::format("entry {}: a {} record of {} bytes is above the limit of {}",
                                     index.value, what, bytes, kRecordBytesMax)};
}

}  // namespace

QueueLogsImpl::QueueLogsImpl(std::unique_ptr<Shared> shared, ParallelRunner& runner, Recovered recovered)
    : shared_(std::move(shared)),
      runner_(runner),
      recovered_(std::move(recovered)),
      last_index_(recovered_.report.last_index) {}

Error QueueLogsImpl::poison(Error cause) {
  if (poisoned_.exchange(true)) return cause;
  shared_->log.error("qlog_failed", {{"cause", cause.what}});
  return {Errc::unavailable, "queue log failed: " + cause.what, cause.sys_errno};
}

Status QueueLogsImpl::refuse_when_poisoned() const {
  if (!poisoned_) return {};
  return Error{Errc::unavailable, "the queue logs are closed or have failed and take no more writes"};
}

Log* QueueLogsImpl::find(LogId log) const {
  const std::shared_lock held(logs_mutex_);
  const auto found = recovered_.logs.find(log);
  return found == recovered_.logs.end() ? nullptr : found->second.get();
}

Result<Log*> QueueLogsImpl::find_or_create(LogId id, std::uint64_t first_seq) {
  if (Log* log = find(id)) return log;
  auto log = std::make_unique<Log>(*shared_, id, LogState{});
  if (auto done = log->create(first_seq); !done) return std::move(done).error();
  const std::unique_lock held(logs_mutex_);
  return recovered_.logs.emplace(id, std::move(log)).first->second.get();
}

Status QueueLogsImpl::check_group(std::span<const EntryToWrite> group) const {
  std::uint64_t index = last_index_;
  for (const auto& entry : group) {
    INVARIANT(entry.index.value == ++index, "entry {} written at index {}", entry.index.value, index);
    INVARIANT(!entry.touched.empty(), "entry {} touches no log", index);
    INVARIANT(std::ranges::adjacent_find(entry.touched, std::greater_equal{}) == entry.touched.end(),
              "entry {}: touched logs do not ascend", index);
    if (kRecordLengthMin + entry.entry.size() > kRecordBytesMax)
      return too_long(entry.index, "entry", entry.entry.size());
    for (const auto& message : entry.messages) {
      INVARIANT(std::ranges::binary_search(entry.touched, message.log),
                "entry {}: log {} is not among the touched", index, message.log.value);
      INVARIANT(message.hashes.size() == std::size_t{16} * message.count,
                "entry {}: {} bytes of hashes for {}", index, message.hashes.size(), message.count);
      if (record_bytes(message) - sizeof(std::uint32_t) > kRecordBytesMax)
        return too_long(entry.index, "message", record_bytes(message));
    }
  }
  return {};
}

QueueLogsImpl::Share& QueueLogsImpl::share_of(LogId log) {
  // Neighbours in a group mostly go to the same log.
  if (shares_used_ == 1) return shares_.front();
  return shares_[share_by_log_.find(log)->second];
}

// Finds, makes and rolls the logs of a group, before any of its bytes is written.
Status QueueLogsImpl::place(std::span<const EntryToWrite> group) {
  const std::uint64_t first_seq = group.front().index.value;
  shares_used_ = 0;
  share_by_log_.clear();
  for (const auto& entry : group) {
    for (const LogId id : entry.touched) {
      if (shares_used_ > 0 && shares_[shares_used_ - 1].log->id() == id) continue;
      if (!share_by_log_.emplace(id, shares_used_).second) continue;
      auto log = find_or_create(id, first_seq);
      if (!log) return std::move(log).error();
      if (shares_used_ == shares_.size()) shares_.emplace_back();
      Share& share = shares_[shares_used_++];
      share.log = *log;
      share.bytes.clear();
      share.index.clear();
      share.written = {};
    }
  }
  return roll_full_logs(first_seq);
}

Status QueueLogsImpl::roll_full_logs(std::uint64_t first_seq) {
  bool synced = false;
  for (Share& share : std::span(shares_).first(shares_used_)) {
    if (!share.log->must_roll()) continue;
    // A sealed file never holds an entry that recovery might cut, so every earlier group is synced in all of
    // its logs first. The writer does that itself: the thread that syncs may be this very one.
    if (!synced) {
      std::vector<Log*> all;
      for (const auto& [id, log] : recovered_.logs) all.push_back(log.get());
      if (auto done = sync_logs(std::move(all)); !done) return done;
    }
    synced = true;
    if (auto done = share.log->roll(first_seq); !done) return done;
  }
  return {};
}

void QueueLogsImpl::encode_message(const EntryToWrite& entry, const MessageToWrite& message) {
  Share& share = share_of(message.log);
  const Record record{.kind = RecordKind::message,
                      .compressed = message.compressed,
                      .seq = entry.index.value,
                      .pid = message.pid.value,
                      .base_offset = message.base_offset,
                      .count = message.count,
                      .created_at = message.created_at,
                      .body = {}};
  share.index.push_back({.pid = message.pid.value,
                         .base_offset = message.base_offset,
                         .end = message.base_offset + message.count,
                         .created_at = message.created_at,
                         .position = share.bytes.size(),
                         .count = message.count,
                         .length = static_cast<std::uint32_t>(record_bytes(message))});
  append_record(share.bytes, record, message.hashes, message.payload);
}

void QueueLogsImpl::encode(const EntryToWrite& entry) {
  for (const auto& message : entry.messages) encode_message(entry, message);
  Record record{.kind = RecordKind::entry,
                .compressed = false,
                .seq = entry.index.value,
                .pid = entry.touched.size(),
                .base_offset = entry.term,
                .count = 0,
                .created_at = entry.now_us,
                .body = {}};
  append_record(share_of(entry.touched.front()).bytes, record, entry.entry);
  if (entry.touched.size() == 1) return;
  const bool copies = shared_->options.entry_copies;
  if (!copies) record.kind = RecordKind::entry_stub;
  const Bytes stub = copies ? Bytes() : encode_stub_body(entry.entry);
  for (const LogId log : std::span(entry.touched).subspan(1))
    append_record(share_of(log).bytes, record, copies ? entry.entry : BytesView(stub));
}

Status QueueLogsImpl::write_shares() {
  const auto shares = std::span(shares_).first(shares_used_);
  // Descriptors first: running out of them must not leave half a group behind.
  for (Share& share : shares)
    if (auto done = share.log->open_to_write(); !done) return done;
  if (shares.size() == 1) {
    shares.front().written = shares.front().log->write(shares.front().bytes);
  } else {
    std::vector<UniqueFunction<void()>> pieces;
    pieces.reserve(shares.size());
    for (Share& share : shares)
      pieces.emplace_back([&share] { share.written = share.log->write(share.bytes); });
    runner_.run_all(std::move(pieces));
  }
  // A failure that ends the node wins over one that does not.
  Status worst;
  for (Share& share : shares)
    if (!share.written && (worst || worst.error().code == Errc::full)) worst = share.written;
  return worst;
}

// The volume was full somewhere: every log goes back to where it was.
Error QueueLogsImpl::undo(Error cause) {
  // Cutting back syncs: an error that belongs to the group before must meet its own sync, not this one.
  const std::lock_guard held(sync_mutex_);
  for (Share& share : std::span(shares_).first(shares_used_))
    if (auto done = share.log->cut_back(); !done) return poison(std::move(done).error());
  return cause;
}

void QueueLogsImpl::give_back_memory() {
  for (Share& share : std::span(shares_).first(shares_used_))
    if (share.bytes.capacity() > kBufferKeptBytes) Bytes().swap(share.bytes);
}

Result<WrittenGroup> QueueLogsImpl::write_group(std::span<const EntryToWrite> group) {
  if (auto done = refuse_when_poisoned(); !done) return std::move(done).error();
  INVARIANT(!group.empty(), "an empty group");
  if (auto done = check_group(group); !done) return std::move(done).error();
  if (auto done = place(group); !done) {
    if (done.error().code == Errc::full) return std::move(done).error();
    return poison(std::move(done).error());
  }
  for (const auto& entry : group) encode(entry);
  if (auto done = write_shares(); !done) {
    if (done.error().code != Errc::full) return poison(std::move(done).error());
    return undo(std::move(done).error());
  }
  reach_point(shared_->options.crash_points, CrashPoint::log_appended);
  WrittenGroup written;
  for (Share& share : std::span(shares_).first(shares_used_)) {
    share.log->publish(share.index);
    written.logs.push_back(share.log->id());
    written.bytes += share.bytes.size();
  }
  last_index_ = group.back().index.value;
  written.last_index = last_index_;
  for (Share& share : std::span(shares_).first(shares_used_)) share.log->precreate();
  give_back_memory();
  return written;
}

Status QueueLogsImpl::sync_logs(std::vector<Log*> logs) {
  const std::lock_guard held(sync_mutex_);
  if (auto done = refuse_when_poisoned(); !done) return done;
  std::erase_if(logs, [](const Log* log) { return !log->has_unsynced(); });
  std::vector<Status> results(logs.size());
  if (logs.size() == 1) {
    results[0] = logs[0]->sync();
  } else if (!logs.empty()) {
    std::vector<UniqueFunction<void()>> pieces;
    for (std::size_t i = 0; i < logs.size(); ++i)
      pieces.emplace_back([&result = results[i], log = logs[i]] { result = log->sync(); });
    runner_.run_all(std::move(pieces));
  }
  for (auto& result : results)
    if (!result) return poison(std::move(result).error());
  return {};
}

Status QueueLogsImpl::sync(const WrittenGroup& group) {
  std::vector<Log*> logs;
  for (const LogId id : group.logs)
    if (Log* log = find(id)) logs.push_back(log);
  if (auto done = sync_logs(std::move(logs)); !done) return done;
  reach_point(shared_->options.crash_points, CrashPoint::log_flushed);
  return {};
}

Result<ReadBatch> QueueLogsImpl::read(LogId log, Pid pid, std::uint64_t from_offset,
                                      const ReadLimits& limits) {
  Log* found = find(log);
  if (found == nullptr) return ReadBatch{};
  return read_messages(*shared_, *found, pid, from_offset, limits);
}

std::map<LogId, std::vector<std::uint32_t>> QueueLogsImpl::files() const {
  const std::shared_lock held(logs_mutex_);
  std::map<LogId, std::vector<std::uint32_t>> all;
  for (const auto& [id, log] : recovered_.logs) all.emplace(id, log->file_ids());
  return all;
}

std::uint64_t QueueLogsImpl::bytes_on_disk() const {
  const std::shared_lock held(logs_mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [id, log] : recovered_.logs) bytes += log->bytes_on_disk();
  return bytes;
}

Status QueueLogsImpl::close() {
  std::vector<Log*> all;
  for (const auto& [id, log] : recovered_.logs) all.push_back(log.get());
  if (auto done = sync_logs(all); !done) return done;
  for (Log* log : all)
    if (auto done = log->trim(); !done) return done;
  poisoned_ = true;
  return {};
}

}  // namespace queen::qlog::detail

// Writing groups and making them durable: storage.md 5.
#include <fmt/format.h>

#include <algorithm>

#include "base/invariant.h"
#include "base/planted_bugs.h"
#include "qlog/detail/queue_logs_impl.h"

namespace queen::qlog::detail {
namespace {

// Buffers of usual groups are kept for the next one; one that grew beyond this is given back.
constexpr std::size_t kBufferKeptBytes = 4ULL << 20;
// Logs written at a time, so that at most twice the cached files are open: of a group being written, one that
// waits for its sync and one that is synced.
constexpr std::size_t kSliceMin = 16, kSliceUncached = 128;

std::size_t slice_of(std::uint32_t fd_cache) {
  return fd_cache == 0 ? kSliceUncached : std::max<std::size_t>(fd_cache / 2, kSliceMin);
}

// The group was not written, and the next one may be.
bool may_go_on(const Error& error) {
  return error.code == Errc::full || error.code == Errc::busy;
}

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
      last_index_(recovered_.report.last_index),
      synced_index_(recovered_.report.last_index),
      changed_files_(std::move(recovered_.changed_files)) {}

Error QueueLogsImpl::poison(Error cause) {
  if (poisoned_.exchange(true)) return cause;
  shared_->log.error("qlog_failed", {{"cause", cause.what}});
  return {Errc::unavailable, "queue log failed: " + cause.what, cause.sys_errno};
}

Status QueueLogsImpl::refuse_when_poisoned() const {
  if (!poisoned_) return {};
  return Error{Errc::unavailable, "the queue logs are closed or have failed and take no more writes"};
}

std::shared_ptr<Log> QueueLogsImpl::find(LogId log) const {
  const std::shared_lock held(logs_mutex_);
  const auto found = recovered_.logs.find(log);
  return found == recovered_.logs.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Log>> QueueLogsImpl::all_logs() const {
  const std::shared_lock held(logs_mutex_);
  std::vector<std::shared_ptr<Log>> all;
  all.reserve(recovered_.logs.size());
  for (const auto& [id, log] : recovered_.logs) all.push_back(log);
  return all;
}

Status QueueLogsImpl::take_turn(Share& share, LogId id, const EntryToWrite& first) {
  share.log = find(id);
  if (share.log) {
    share.turn = std::unique_lock(share.log->turn());
    if (!share.log->gone()) {
      if (share.log->keep()) mark_changed(id);
      return {};
    }
    // Removed while this waited for its turn; its directory has another name by now (ID-4).
    share.turn.unlock();
  }
  share.log = std::make_shared<Log>(*shared_, id, LogState{});
  share.turn = std::unique_lock(share.log->turn());
  if (auto done = share.log->create(first.index.value, first.now_us); !done) return done;
  {
    const std::unique_lock held(logs_mutex_);
    recovered_.logs.insert_or_assign(id, share.log);
  }
  mark_changed(id);
  return {};
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
  shares_used_ = 0;
  share_by_log_.clear();
  for (const auto& entry : group) {
    for (const LogId id : entry.touched) {
      if (shares_used_ > 0 && shares_[shares_used_ - 1].log->id() == id) continue;
      if (!share_by_log_.emplace(id, shares_used_).second) continue;
      if (shares_used_ == shares_.size()) shares_.emplace_back();
      Share& share = shares_[shares_used_++];
      share.bytes.clear();
      share.index.clear();
      share.written = {};
      if (auto done = take_turn(share, id, group.front()); !done) return done;
    }
  }
  return roll_full_logs(group.front());
}

Status QueueLogsImpl::roll_full_logs(const EntryToWrite& first) {
  bool synced = false;
  for (Share& share : std::span(shares_).first(shares_used_)) {
    if (!share.log->must_roll()) continue;
    // A sealed file never holds an entry that recovery might cut, so every earlier group is synced in all of
    // its logs first. The writer does that itself: the thread that syncs may be this very one.
    if (!synced) {
      if (auto done = sync_logs(all_logs()); !done) return done;
    }
    synced = true;
    if (auto done = share.log->roll(first.index.value, first.now_us); !done) return done;
    mark_changed(share.log->id());
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
  Share& front = share_of(entry.touched.front());
  append_record(front.bytes, record, entry.entry);
  front.last_seq = record.seq;
  if (entry.touched.size() == 1) return;
  const bool copies = shared_->options.entry_copies;
  if (!copies) record.kind = RecordKind::entry_stub;
  const Bytes stub = copies ? Bytes() : encode_stub_body(entry.entry);
  for (const LogId log : std::span(entry.touched).subspan(1)) {
    Share& share = share_of(log);
    append_record(share.bytes, record, copies ? entry.entry : BytesView(stub));
    share.last_seq = record.seq;
  }
}

// A log keeps its file open from the write to the sync, so that an error in between is not lost. A group that
// touches more logs than may be open is therefore written and synced in slices (HD-28).
Status QueueLogsImpl::write_shares() {
  const auto shares = std::span(shares_).first(shares_used_);
  const std::size_t slice = slice_of(shared_->options.fd_cache);
  for (std::size_t at = 0; at < shares.size(); at += slice) {
    const auto now = shares.subspan(at, std::min(slice, shares.size() - at));
    if (auto done = write_slice(now); !done) return done;
    if (at + slice >= shares.size()) break;
    if (auto done = sync_early(now); !done) return done;
  }
  return {};
}

Status QueueLogsImpl::sync_early(std::span<Share> shares) {
  const std::lock_guard held(sync_mutex_);
  std::vector<UniqueFunction<void()>> pieces;
  pieces.reserve(shares.size());
  for (Share& share : shares) pieces.emplace_back([&share] { share.written = share.log->sync_written(); });
  runner_.run_all(std::move(pieces));
  for (Share& share : shares)
    if (!share.written) return share.written;
  return {};
}

Status QueueLogsImpl::write_slice(std::span<Share> shares) {
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

// The volume was full somewhere, or there were no descriptors: every log goes back to where it was.
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
  auto written = write_in_turn(group);
  for (Share& share : std::span(shares_).first(shares_used_)) {
    if (share.turn.owns_lock()) share.turn.unlock();
    share.log.reset();
  }
  return written;
}

Result<WrittenGroup> QueueLogsImpl::write_in_turn(std::span<const EntryToWrite> group) {
  if (auto done = place(group); !done) {
    if (may_go_on(done.error())) return std::move(done).error();
    return poison(std::move(done).error());
  }
  for (const auto& entry : group) encode(entry);
  if (auto done = write_shares(); !done) {
    if (!may_go_on(done.error())) return poison(std::move(done).error());
    return undo(std::move(done).error());
  }
  reach_point(shared_->options.crash_points, CrashPoint::log_appended);
  WrittenGroup written;
  for (Share& share : std::span(shares_).first(shares_used_)) {
    share.log->publish({.index = share.index, .last_seq = share.last_seq, .now_us = group.front().now_us});
    written.logs.push_back(share.log->id());
    written.bytes += share.bytes.size();
  }
  last_index_ = group.back().index.value;
  written.last_index = group.back().index.value;
  for (Share& share : std::span(shares_).first(shares_used_)) share.log->precreate();
  give_back_memory();
  return written;
}

Status QueueLogsImpl::sync_logs(std::vector<std::shared_ptr<Log>> logs) {
  const std::lock_guard held(sync_mutex_);
  if (auto done = refuse_when_poisoned(); !done) return done;
  std::erase_if(logs, [](const auto& log) { return !log->has_unsynced(); });
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
  std::vector<std::shared_ptr<Log>> logs;
  for (const LogId id : group.logs)
    if (auto log = find(id)) logs.push_back(std::move(log));
  if (planted(PlantedBug::qlog_skips_a_sync) && logs.size() > 1) logs.pop_back();
  if (auto done = sync_logs(std::move(logs)); !done) return done;
  synced_index_.store(group.last_index, std::memory_order_release);
  reach_point(shared_->options.crash_points, CrashPoint::log_flushed);
  return {};
}

Result<ReadBatch> QueueLogsImpl::read(LogId log, Pid pid, std::uint64_t from_offset,
                                      const ReadLimits& limits) {
  const auto found = find(log);
  if (found == nullptr) return ReadBatch{};
  return asking_again(*found, [&] { return read_messages(*shared_, *found, pid, from_offset, limits); });
}

std::map<LogId, std::vector<std::uint32_t>> QueueLogsImpl::files() const {
  const std::shared_lock held(logs_mutex_);
  std::map<LogId, std::vector<std::uint32_t>> all;
  for (const auto& [id, log] : recovered_.logs) all.emplace(id, log->listed_files());
  return all;
}

std::vector<LogId> QueueLogsImpl::log_ids() const {
  std::vector<LogId> ids;
  {
    const std::shared_lock held(logs_mutex_);
    ids.reserve(recovered_.logs.size());
    for (const auto& [id, log] : recovered_.logs) ids.push_back(id);
  }
  std::ranges::sort(ids);
  return ids;
}

void QueueLogsImpl::mark_changed(LogId log) {
  const std::lock_guard held(changed_mutex_);
  changed_files_.insert(log);
}

bool QueueLogsImpl::files_changed() const {
  const std::lock_guard held(changed_mutex_);
  return !changed_files_.empty();
}

std::vector<LogFiles> QueueLogsImpl::take_changed_files() {
  std::set<LogId> changed;
  {
    const std::lock_guard held(changed_mutex_);
    changed.swap(changed_files_);
  }
  std::vector<LogFiles> files;
  files.reserve(changed.size());
  for (const LogId id : changed) {
    const auto log = find(id);
    files.push_back({id, std::nullopt});
    if (log && !log->removal_planned()) files.back().ids = log->listed_files();
  }
  return files;
}

void QueueLogsImpl::remove(const Log& log) {
  std::shared_ptr<Log> held_until_unlocked;
  const std::unique_lock held(logs_mutex_);
  const auto found = recovered_.logs.find(log.id());
  if (found == recovered_.logs.end() || found->second.get() != &log) return;
  held_until_unlocked = std::move(found->second);
  recovered_.logs.erase(found);
}

std::uint64_t QueueLogsImpl::bytes_on_disk() const {
  const std::shared_lock held(logs_mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [id, log] : recovered_.logs) bytes += log->bytes_on_disk();
  return bytes;
}

Status QueueLogsImpl::close() {
  const auto all = all_logs();
  if (auto done = sync_logs(all); !done) return done;
  for (const auto& log : all)
    if (auto done = log->trim(); !done) return done;
  poisoned_ = true;
  return {};
}

}  // namespace queen::qlog::detail

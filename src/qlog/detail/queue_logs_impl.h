// QueueLogs over detail::Log.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "qlog/detail/log.h"
#include "qlog/detail/merge.h"
#include "qlog/queue_logs.h"

namespace queen::qlog::detail {

// Lock order: sync_mutex_, then logs_mutex_, then a log's own. Of these only sync_mutex_ is held across I/O.
class QueueLogsImpl final : public QueueLogs {
 public:
  struct Recovered {
    Layout layout;
    std::unordered_map<LogId, std::unique_ptr<Log>> logs;
    std::vector<ReplayEntry> replay;
    RecoveryReport report;
  };

  // `recovered.logs` use `shared`.
  QueueLogsImpl(std::unique_ptr<Shared> shared, ParallelRunner& runner, Recovered recovered);

  const RecoveryReport& recovery() const override { return recovered_.report; }
  Status replay(const std::function<Status(const RecoveredEntry&)>& apply) override;
  const Layout& layout() const override { return recovered_.layout; }
  Result<WrittenGroup> write_group(std::span<const EntryToWrite> group) override;
  Status sync(const WrittenGroup& group) override;
  Result<ReadBatch> read(LogId log, Pid pid, std::uint64_t from_offset, const ReadLimits& limits) override;
  Result<std::vector<AppendPlace>> locate(LogId log, Pid pid, std::uint64_t from_offset,
                                          std::size_t appends_max) override;
  Result<std::uint64_t> first_stamped_at_or_after(LogId log, Pid pid, std::uint64_t from_offset,
                                                  std::uint64_t end_offset, std::int64_t since_us) override;
  Result<std::optional<AppendHashes>> hashes_at(LogId log, Pid pid, std::uint64_t offset) override;
  std::map<LogId, std::vector<std::uint32_t>> files() const override;
  std::uint64_t bytes_on_disk() const override;
  Status close() override;

 private:
  // What a group brings to one log. Kept and used again by the next group.
  struct Share {
    Log* log = nullptr;
    Bytes bytes;
    std::vector<IndexRecord> index;  // positions from the start of `bytes`
    Status written;
  };

  Log* find(LogId log) const;
  Result<Log*> find_or_create(LogId log, std::uint64_t first_seq);
  Status check_group(std::span<const EntryToWrite> group) const;
  Status place(std::span<const EntryToWrite> group);
  Status roll_full_logs(std::uint64_t first_seq);
  Share& share_of(LogId log);
  void encode(const EntryToWrite& entry);
  void encode_message(const EntryToWrite& entry, const MessageToWrite& message);
  Status write_shares();
  Error undo(Error cause);
  void give_back_memory();
  Error poison(Error cause);
  Status refuse_when_poisoned() const;
  Status sync_logs(std::vector<Log*> logs);

  std::unique_ptr<Shared> shared_;
  ParallelRunner& runner_;
  Recovered recovered_;  // its logs are guarded by logs_mutex_; the rest does not change
  mutable std::shared_mutex logs_mutex_;

  // Of the writer alone.
  std::uint64_t last_index_;
  std::vector<Share> shares_;
  std::size_t shares_used_ = 0;
  std::unordered_map<LogId, std::size_t> share_by_log_;

  std::mutex
      sync_mutex_;  // one sync at a time: an error is reported to one caller only, and all must learn of it
  std::atomic<bool> poisoned_{false};
};

// One entry record from its log. Errors: corrupt, unavailable.
Result<RecoveredEntry> read_entry_record(Shared& shared, const ReplayEntry& at);

// Messages of one partition from one log: QueueLogs::read.
Result<ReadBatch> read_messages(Shared& shared, Log& log, Pid pid, std::uint64_t from_offset,
                                const ReadLimits& limits);

}  // namespace queen::qlog::detail

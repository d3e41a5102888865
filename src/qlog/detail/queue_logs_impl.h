// QueueLogs over detail::Log.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>

#include "qlog/detail/log.h"
#include "qlog/detail/merge.h"
#include "qlog/queue_logs.h"
#include "qlog/upkeep.h"

namespace queen::qlog::detail {

// Lock order: turns of logs, then sync_mutex_, then logs_mutex_, then a log's own, then changed_mutex_. Only
// turns and sync_mutex_ are held across I/O. The writer holds the turns of all logs of its group; everybody
// else takes one, by a try.
class QueueLogsImpl final : public QueueLogs {
 public:
  struct Recovered {
    Layout layout;
    // Shared: a log that is removed lives on until its last reader is done.
    std::unordered_map<LogId, std::shared_ptr<Log>> logs;
    std::set<LogId> changed_files;  // not as the checkpoint lists them
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
  bool exists(LogId log) const override { return find(log) != nullptr; }
  std::vector<LogFiles> take_changed_files() override;
  bool files_changed() const override;
  std::unique_ptr<LogUpkeep> make_upkeep(UpkeepHost& host, UpkeepSettings settings) override;
  std::unique_ptr<LogScrub> make_scrub() override;
  std::vector<DamagedFile> damaged_files() const override;
  std::uint64_t bytes_on_disk() const override;
  LogStats stats() const override;
  void stop_waiting() override { shared_->stop_waiting(); }
  Status close() override;

  // --- For upkeep ---
  Shared& shared() { return *shared_; }
  std::vector<LogId> log_ids() const;  // ascending
  std::shared_ptr<Log> find(LogId log) const;
  // The next checkpoint lists the files of `log` anew.
  void mark_changed(LogId log);
  // The index the next entry takes at the earliest, and the last one that is synced in all of its logs.
  std::uint64_t next_index() const { return last_index_.load(std::memory_order_acquire) + 1; }
  std::uint64_t synced_index() const { return synced_index_.load(std::memory_order_acquire); }
  bool poisoned() const { return poisoned_; }
  Error poison(Error cause);
  void remove(const Log& log);  // from the map; with its turn

 private:
  // What a group brings to one log. Kept and used again by the next group.
  struct Share {
    std::shared_ptr<Log> log;
    std::unique_lock<Turn> turn;  // of the log, while the group is placed and written
    Bytes bytes;
    std::vector<IndexRecord> index;  // positions from the start of `bytes`
    std::uint64_t last_seq = 0;
    Status written;
  };

  // The log with its turn, made when it is not there.
  Status take_turn(Share& share, LogId log, const EntryToWrite& first);
  Status check_group(std::span<const EntryToWrite> group) const;
  Status place(std::span<const EntryToWrite> group);
  Status roll_full_logs(const EntryToWrite& first);
  Result<WrittenGroup> write_in_turn(std::span<const EntryToWrite> group);
  Share& share_of(LogId log);
  void encode(const EntryToWrite& entry);
  void encode_message(const EntryToWrite& entry, const MessageToWrite& message);
  Status write_shares();
  Status write_slice(std::span<Share> shares);
  Status sync_early(std::span<Share> shares);
  Error undo(Error cause);
  void give_back_memory();
  Status refuse_when_poisoned() const;
  Status sync_logs(std::vector<std::shared_ptr<Log>> logs);
  std::vector<std::shared_ptr<Log>> all_logs() const;

  std::unique_ptr<Shared> shared_;
  ParallelRunner& runner_;
  Recovered recovered_;  // its logs are guarded by logs_mutex_; the rest does not change
  mutable std::shared_mutex logs_mutex_;

  std::atomic<std::uint64_t> last_index_;    // written; the writer changes it
  std::atomic<std::uint64_t> synced_index_;  // everything up to it is synced in all of its logs

  mutable std::mutex changed_mutex_;  // guards changed_files_
  std::set<LogId> changed_files_;

  // Of the writer alone.
  std::vector<Share> shares_;
  std::size_t shares_used_ = 0;
  std::unordered_map<LogId, std::size_t> share_by_log_;

  std::mutex
      sync_mutex_;  // one sync at a time: an error is reported to one caller only, and all must learn of it
  std::atomic<bool> poisoned_{false};
};

// Asks, and asks again when the question failed while a file of `log` was replaced or removed: it may have
// gone to a file that readers are no longer sent to.
template <class Ask>
auto asking_again(const Log& log, const Ask& ask) {
  for (;;) {
    const std::uint64_t swaps = log.swaps();
    auto answer = ask();
    if (answer || log.swaps() == swaps) return answer;
  }
}

// One entry record from its log. Errors: corrupt, unavailable.
Result<RecoveredEntry> read_entry_record(Shared& shared, const ReplayEntry& at);

// Messages of one partition from one log: QueueLogs::read.
Result<ReadBatch> read_messages(Shared& shared, Log& log, Pid pid, std::uint64_t from_offset,
                                const ReadLimits& limits);

}  // namespace queen::qlog::detail

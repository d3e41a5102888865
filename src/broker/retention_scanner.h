// Finds what retention may take and proposes it (storage.md 17.1). Walks all partitions in rounds; the
// planner judges every proposal again, so what is seen here may be a little old.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/executor.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/retention_holds.h"
#include "machine/commands.h"
#include "machine/retention.h"
#include "qlog/queue_logs.h"
#include "store/store.h"

namespace queen::broker {

// Steps on one executor, which must be stopped before this goes. A step reads the logs' index: not an
// executor that others wait for. No read gate is held meanwhile.
class RetentionScanner {
 public:
  static constexpr std::size_t kPartitionsPerStep = 2'048;
  static constexpr std::size_t kProposalsMax = 8'192;
  static constexpr std::int64_t kAgainUs = 40'000;

  // Plans a command; `done` runs once, on any thread: whether it was applied.
  using Submit = std::function<void(machine::RetentionCommand command, UniqueFunction<void(bool)> done)>;
  // `stopped` says that this node takes no more writes; nothing runs after that.
  RetentionScanner(const store::Store& store, qlog::QueueLogs& logs, Executor& executor,
                   RetentionSettings settings, Submit submit, std::function<bool()> stopped, Logger log);

  // What the holds of sinks keep. From any thread.
  const RetentionHolds& holds() const { return holds_; }

  // The first round begins one interval from now.
  void start();
  // Rounds that began with nothing left to do of the round before. From any thread.
  std::uint64_t settled_rounds() const { return settled_rounds_.load(std::memory_order_relaxed); }

 private:
  struct Candidate;
  struct Facts;
  struct Held;
  struct Append {
    std::int64_t base = 0, end = 0;  // end inclusive
    std::int64_t created_at = 0;
    std::optional<std::uint32_t> raw_bytes;  // of rows
  };
  struct Walk {
    std::int64_t start = 0, stamp = 0;  // where the watermark would stand; of the last append below it
    std::uint64_t bytes = 0;
    std::optional<std::int64_t> next_stamp;
    bool more = false;  // the step ended, not what is due
  };
  struct Proposal {
    machine::RetentionMove move;
    bool more = false;
  };
  using FactsByQueue = std::unordered_map<Bytes, Facts>;

  void begin_round();
  void step();
  void catch_up();
  void after_step();
  const Facts* facts_of(const store::PartitionRow& partition, FactsByQueue& cache) const;
  std::optional<Candidate> examine(Pid pid, const store::PartitionRow& partition, FactsByQueue& cache) const;
  std::optional<Held> examine_hold(Pid pid, const store::PartitionRow& partition, FactsByQueue& cache) const;
  void count_held(const Held& held);
  void propose(const std::vector<Candidate>& candidates);
  Result<Proposal> judge(const Candidate& candidate) const;
  Result<std::vector<Append>> appends_from(const Candidate& candidate, std::int64_t from,
                                           std::size_t most) const;
  Walk walk(const Candidate& candidate, const std::vector<Append>& appends, std::int64_t from,
            const std::function<bool(const Append&)>& due) const;
  void send();
  void sent(bool applied);

  const store::Store& store_;
  qlog::QueueLogs& logs_;
  Executor& executor_;
  const RetentionSettings settings_;
  const Submit submit_;
  const std::function<bool()> stopped_;
  Logger log_;

  RetentionHolds holds_;
  std::atomic<std::uint64_t> settled_rounds_{0};
  std::uint64_t next_pid_ = 0;
  std::int64_t round_began_ = 0;
  std::deque<Proposal> proposals_;
  std::unordered_set<std::uint64_t> proposed_;  // pids of proposals_ and sending_
  std::vector<std::pair<Pid, bool>> sending_;   // and whether there is more
  std::vector<Pid> again_;
  bool again_armed_ = false;
};

}  // namespace queen::broker

// The one way of every change: command -> planner -> replicator -> apply -> answer (design: "One way
// through").
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "broker/admission.h"
#include "broker/broker.h"
#include "broker/checkpointer.h"
#include "broker/disk_gate.h"
#include "broker/log_clock.h"
#include "machine/apply.h"
#include "machine/planner.h"
#include "qlog/compressor_pool.h"

namespace queen::broker {

struct Pending {
  machine::Command command;
  UniqueFunction<void(Answer<machine::Outcome>)> done;
  // Where the command goes when it is planned, for a caller that may have to submit it again; else null.
  // Shared by the caller and this call; the planner is done with it before `done` runs.
  std::shared_ptr<machine::Command> keep = nullptr;
  bool again = false;  // was lost to a full volume once
  Admission::Permit permit{};
};

class Core {
 public:
  struct Limits {
    std::size_t batch_commands_max, pipeline, command_queue_depth;
    std::uint64_t batch_bytes_max;
    std::int64_t durable_every_us;
    std::uint64_t durable_every_bytes;
    int zstd_level;
    CrashPoints* crash_points;
    LogClock::Follow clock;
  };
  // Where it runs; all outlive it, and the planner, writer and syncer are stopped between stop() and its end.
  struct Threads {
    Executor& planner;
    Executor& writer;
    Executor& syncer;
    Executor& apply;
  };
  // `before_apply` and `on_applied` run on the apply thread around each entry, before its answers leave.
  Core(store::Store& store, qlog::QueueLogs& logs, Checkpointer& checkpointer, DiskGate& gate,
       Threads threads, Clock& clock, Limits limits, std::function<void(const machine::Entry&)> before_apply,
       std::function<void(const machine::Applied&)> on_applied, Logger log);
  ~Core();

  // Recovery is over: entries from `next` on are new.
  void start(EntryIndex next);
  // `done` runs exactly once, on an engine thread; refusals at the door run it at once on the caller's.
  void submit(Pending pending);
  // Plans nothing more, and returns once what is in flight is answered. Idempotent.
  void stop();

  // The node takes no more writes. Safe from any thread; the first cause stays.
  void poison(const Error& cause);
  std::string stopped_cause() const;
  // The entry that could not be applied, if that is what stopped the node.
  std::optional<Health::ApplyFailure> apply_failure() const;
  // How far log time is ahead of the wall clock (HD-27).
  std::int64_t clock_lead_us() const { return clock_.lead_us(); }

  EntryIndex applied() const { return EntryIndex{applied_.load(std::memory_order_acquire)}; }
  const replica::Replicator& replicator() const { return *replicator_; }
  // Entries proposed and not yet applied.
  std::size_t in_flight() const;

 private:
  struct Waiter {
    UniqueFunction<void(Answer<machine::Outcome>)> done;
    machine::Outcome outcome;
    // To plan once more when a full volume gives the entry back; in `keep` where the caller has one.
    std::optional<machine::Command> command;
    std::shared_ptr<machine::Command> keep;
  };
  struct InFlight {
    EntryIndex index;
    std::vector<Waiter> waiters;
  };

  void wake_planner();
  void run_planner();
  std::vector<Pending> take_batch();
  void plan(std::vector<Pending> batch);
  void propose(machine::Entry entry, std::vector<Waiter> waiters);
  void answer_after_in_flight(std::vector<Waiter> waiters);
  void forget_lost();
  void plan_again(std::vector<Waiter> lost);
  Refusal refusal_of_loss() const;
  void refuse_growth();
  std::optional<Refusal> refusal_at_the_door(const machine::Command& command) const;
  void sweep_late_soon();
  void sweep_late();
  void on_committed(std::vector<replica::Committed> entries);
  bool apply_one(const replica::Committed& entry);
  void note_apply_failure(const replica::Committed& committed, const machine::Entry& entry,
                          const Error& error);
  void tick_checkpoint();
  void refuse_all(const Refusal& refusal);
  static void answer(std::vector<Waiter> waiters);
  static void refuse(std::vector<Waiter> waiters, const Refusal& refusal);

  store::Store& store_;
  qlog::QueueLogs& logs_;
  Checkpointer& checkpointer_;
  DiskGate& gate_;
  const Threads threads_;
  const Limits limits_;
  const std::function<void(const machine::Entry&)> before_apply_;
  const std::function<void(const machine::Applied&)> on_applied_;
  Logger log_;
  qlog::CompressorPool compressors_;
  LogClock clock_;            // planner thread
  machine::Planner planner_;  // planner thread
  std::unique_ptr<replica::Replicator> replicator_;

  mutable std::mutex mutex_;  // guards everything down to apply_failure_
  std::deque<Pending> queue_;
  std::deque<InFlight> in_flight_;
  std::optional<EntryIndex> lost_from_;
  Errc lost_why_ = Errc::full;
  bool stopping_ = false;
  bool planning_ = false;  // a step of the planner runs, or will
  bool sweep_comes_ = false;
  std::string cause_;
  std::optional<Health::ApplyFailure> apply_failure_;

  std::atomic<std::uint64_t> applied_{0};
  bool stop_called_ = false;  // the owner's thread
};

}  // namespace queen::broker

#include "broker/core.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/invariant.h"
#include "base/planted_bugs.h"
#include "broker/growth.h"
#include "broker/placement.h"

namespace queen::broker {
namespace {

constexpr std::int64_t kLongestDeadlineUs = 60'000'000;  // of any call
constexpr std::int64_t kSweepLateUs = 100'000;

Refusal too_late() {
  return {"timeout", "the deadline passed before the command was planned; nothing was done"};
}

}  // namespace

Core::Core(store::Store& store, qlog::QueueLogs& logs, Checkpointer& checkpointer, DiskGate& gate,
           Threads threads, Clock& clock, Limits limits,
           std::function<void(const machine::Entry&)> before_apply,
           std::function<void(const machine::Applied&)> on_applied, Logger log)
    : store_(store),
      logs_(logs),
      checkpointer_(checkpointer),
      gate_(gate),
      threads_(threads),
      limits_(limits),
      before_apply_(std::move(before_apply)),
      on_applied_(std::move(on_applied)),
      log_(std::move(log)),
      clock_(clock, limits.clock),
      planner_(store) {}

Core::~Core() {
  stop();
}

void Core::start(EntryIndex next) {
  applied_ = next.value - 1;
  if (!planted(PlantedBug::broker_log_time_goes_back)) clock_.raise(machine::safe_time_us(store_));
  replica::Events events;
  events.on_committed = [this](std::vector<replica::Committed> entries) {
    threads_.apply.post([this, entries = std::move(entries)]() mutable { on_committed(std::move(entries)); });
  };
  events.on_lost = [this](EntryIndex first, const Error& cause) {
    std::lock_guard lock(mutex_);
    lost_why_ = cause.code;
    if (!lost_from_ || first < *lost_from_) lost_from_ = first;
    wake_planner();
  };
  events.on_stopped = [this](const Error& cause) { poison(cause); };
  replicator_ = replica::make_local_replicator(logs_, next, {}, {threads_.writer, threads_.syncer},
                                               std::move(events), log_);
  threads_.apply.post_after(limits_.durable_every_us, [this] { tick_checkpoint(); });
}

void Core::submit(Pending pending) {
  std::optional<Refusal> refusal;
  {
    std::lock_guard lock(mutex_);
    refusal = refusal_at_the_door(pending.command);
    if (!refusal) {
      const bool beyond = queue_.size() >= limits_.command_queue_depth;
      if (beyond && pending.command.deadline_mono_us == 0)
        pending.command.deadline_mono_us = threads_.apply.clock().mono_us() + kLongestDeadlineUs;
      queue_.push_back(std::move(pending));
      wake_planner();
      if (beyond) sweep_late_soon();
    }
  }
  if (refusal) pending.done(tl::unexpected(std::move(*refusal)));
}

// With the lock held.
std::optional<Refusal> Core::refusal_at_the_door(const machine::Command& command) const {
  if (!cause_.empty()) return Refusal{"retry", "this node takes no writes: " + cause_};
  if (stopping_) return Refusal{"retry", "this node is stopping"};
  if (gate_.closed() && grows(command))
    return Refusal{"storage_full", "the volume of the data directory is above its high mark"};
  // As many again as the depth may wait for room, each until its deadline. What this node asks of itself has
  // none; there is little of it, and it may not fail.
  if (command.deadline_mono_us != 0 && queue_.size() >= 2 * limits_.command_queue_depth)
    return Refusal{"overloaded", fmt::format("{} commands wait to be planned", queue_.size())};
  return std::nullopt;
}

// With the lock held. Commands beyond the depth end at their deadlines, also while the planner stands still.
void Core::sweep_late_soon() {
  if (sweep_comes_) return;
  sweep_comes_ = true;
  threads_.apply.post_after(kSweepLateUs, [this] { sweep_late(); });
}

void Core::sweep_late() {
  const std::int64_t now = threads_.apply.clock().mono_us();
  std::vector<Pending> late;
  {
    std::lock_guard lock(mutex_);
    sweep_comes_ = false;
    const auto in_time = [&](const Pending& pending) {
      return pending.command.deadline_mono_us == 0 || pending.command.deadline_mono_us >= now;
    };
    const auto from = std::stable_partition(queue_.begin(), queue_.end(), in_time);
    late.assign(std::make_move_iterator(from), std::make_move_iterator(queue_.end()));
    queue_.erase(from, queue_.end());
    if (queue_.size() > limits_.command_queue_depth) sweep_late_soon();
  }
  for (auto& pending : late) pending.done(tl::unexpected(too_late()));
}

void Core::stop() {
  if (!replicator_ || std::exchange(stop_called_, true)) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  // What is in flight must end: nobody may free descriptors any more.
  replicator_->stop_waiting();
  // What was accepted is answered: the planner empties its queue, apply empties what is in flight and tells
  // the planner.
  threads_.planner.run_until([this] {
    std::lock_guard lock(mutex_);
    return !planning_ && (!cause_.empty() || (queue_.empty() && in_flight_.empty()));
  });
  replicator_->stop();
}

std::size_t Core::in_flight() const {
  std::lock_guard lock(mutex_);
  return in_flight_.size();
}

std::string Core::stopped_cause() const {
  std::lock_guard lock(mutex_);
  return cause_;
}

void Core::poison(const Error& cause) {
  {
    std::lock_guard lock(mutex_);
    if (!cause_.empty()) return;
    cause_ = cause.what;
  }
  threads_.planner.post([] {});  // stop() looks again
  log_.error("node_stopped", {{"why", cause.what}});
  // On the apply thread, so that entries that did commit are answered as such first.
  threads_.apply.post([this] {
    refuse_all({"outcome_unknown", "the log of this node failed while the call was on its way"});
  });
}

void Core::refuse_all(const Refusal& refusal) {
  std::deque<InFlight> in_flight;
  std::deque<Pending> queue;
  {
    std::lock_guard lock(mutex_);
    in_flight.swap(in_flight_);
    queue.swap(queue_);
  }
  for (auto& entry : in_flight) refuse(std::move(entry.waiters), refusal);
  for (auto& pending : queue) pending.done(tl::unexpected(Refusal{"retry", refusal.error}));
}

void Core::answer(std::vector<Waiter> waiters) {
  for (auto& waiter : waiters) waiter.done(std::move(waiter.outcome));
}

void Core::refuse(std::vector<Waiter> waiters, const Refusal& refusal) {
  for (auto& waiter : waiters) waiter.done(tl::unexpected(refusal));
}

// With the lock held.
void Core::wake_planner() {
  if (planning_ || !cause_.empty()) return;
  const bool ready = lost_from_ ? applied_.load() + 1 >= lost_from_->value
                                : !queue_.empty() && in_flight_.size() < limits_.pipeline;
  if (!ready) return;
  planning_ = true;
  threads_.planner.post([this] { run_planner(); });
}

// One step of the planner; `planning_` is set.
void Core::run_planner() {
  std::vector<Pending> batch;
  bool lost = false;
  {
    std::lock_guard lock(mutex_);
    // What was lost may have come between: then this waits for what was planned before it.
    lost = lost_from_ && applied_.load() + 1 >= lost_from_->value;
    if (cause_.empty() && !lost_from_) batch = take_batch();
  }
  if (lost) {
    forget_lost();
  } else if (!batch.empty()) {
    reach_point(limits_.crash_points, CrashPoint::batcher_drained);
    plan(std::move(batch));
  }
  std::lock_guard lock(mutex_);
  planning_ = false;
  wake_planner();
}

// With the lock held.
std::vector<Pending> Core::take_batch() {
  std::vector<Pending> batch;
  std::uint64_t bytes = 0;
  const std::int64_t now = threads_.apply.clock().mono_us();
  while (!queue_.empty() && batch.size() < limits_.batch_commands_max) {
    const std::int64_t deadline = queue_.front().command.deadline_mono_us;
    if (deadline != 0 && deadline < now) {
      // Its caller has gone. On another thread: the lock is held.
      threads_.apply.post(
          [late = std::move(queue_.front().done)]() mutable { late(tl::unexpected(too_late())); });
      queue_.pop_front();
      continue;
    }
    const std::uint64_t more = machine::estimated_bytes(queue_.front().command);
    if (!batch.empty() && bytes + more > limits_.batch_bytes_max) break;
    bytes += more;
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return batch;
}

void Core::plan(std::vector<Pending> batch) {
  planner_.applied(applied());
  std::vector<const machine::Command*> commands;
  commands.reserve(batch.size());
  for (const auto& pending : batch) commands.push_back(&pending.command);
  auto cycle = planner_.plan(commands, replicator_->next_index(), clock_.now_us());
  INVARIANT(cycle.outcomes.size() == batch.size(), "{} outcomes for {} commands", cycle.outcomes.size(),
            batch.size());
  std::vector<Waiter> waiters;
  waiters.reserve(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    auto& call = batch[i];
    waiters.push_back({std::move(call.done), std::move(cycle.outcomes[i]), {}, nullptr});
    const bool once_more = !call.again && !grows(call.command);
    if (call.keep) *call.keep = std::move(call.command);
    if (!once_more) continue;
    if (call.keep)
      waiters.back().keep = std::move(call.keep);
    else
      waiters.back().command = std::move(call.command);
  }
  if (cycle.entry) {
    reach_point(limits_.crash_points, CrashPoint::planner_planned);
    clock_.raise(cycle.entry->now_us);
    propose(std::move(*cycle.entry), std::move(waiters));
  } else {
    answer_after_in_flight(std::move(waiters));
  }
}

void Core::propose(machine::Entry entry, std::vector<Waiter> waiters) {
  auto shared = std::make_shared<const machine::Entry>(std::move(entry));
  auto compressed = compress_unsettled(*shared, compressors_, limits_.zstd_level);
  std::shared_ptr<replica::Proposal> proposal;
  {
    const auto gate = store_.read_gate();
    const LogExists exists = [this](LogId log) { return logs_.exists(log); };
    proposal = make_proposal(shared, std::move(compressed), {logs_.layout(), store_, exists});
  }
  const EntryIndex index = replicator_->next_index();
  {
    // Known before it is proposed: it may commit before propose() returns.
    std::lock_guard lock(mutex_);
    in_flight_.push_back({index, std::move(waiters)});
  }
  const auto given = replicator_->propose(std::move(proposal));
  if (given) {
    INVARIANT(*given == index, "proposed as {}, expected {}", given->value, index.value);
    reach_point(limits_.crash_points, CrashPoint::propose_sent);
    return;
  }
  std::vector<Waiter> refused;
  {
    std::lock_guard lock(mutex_);
    if (in_flight_.empty() || in_flight_.back().index != index) return;  // poison answered them
    refused = std::move(in_flight_.back().waiters);
    in_flight_.pop_back();
  }
  if (given.error().code == Errc::full) return plan_again(std::move(refused));
  refuse(std::move(refused), {"retry", given.error().what});
}

// Their answers may rest on entries that are planned and not durable yet.
void Core::answer_after_in_flight(std::vector<Waiter> waiters) {
  bool stopped = false;
  {
    std::lock_guard lock(mutex_);
    stopped = !cause_.empty();
    if (!stopped && !in_flight_.empty() && !planted(PlantedBug::broker_answers_ahead_of_log)) {
      auto& last = in_flight_.back().waiters;
      last.insert(last.end(), std::make_move_iterator(waiters.begin()),
                  std::make_move_iterator(waiters.end()));
      return;
    }
  }
  // What they rest on was refused, and may never be durable.
  if (stopped)
    return refuse(std::move(waiters), {"outcome_unknown", "the log of this node failed meanwhile"});
  answer(std::move(waiters));
}

// The log gave entries back. What was planned before them still applies; then the planner starts from the
// store.
void Core::forget_lost() {
  std::vector<InFlight> lost;
  Errc why = Errc::full;
  {
    std::lock_guard lock(mutex_);
    if (!cause_.empty()) return;
    why = lost_why_;
    const std::uint64_t kept = planted(PlantedBug::broker_answers_a_lost_entry) ? 1 : 0;
    while (!in_flight_.empty() && in_flight_.back().index.value >= lost_from_->value + kept) {
      lost.push_back(std::move(in_flight_.back()));
      in_flight_.pop_back();
    }
    lost_from_.reset();
    planner_.reset();
    replicator_->accept_loss();
  }
  const bool room = why == Errc::busy || gate_.volume_full();
  if (gate_.closed()) refuse_growth();
  // From the last to the first: each goes in front of the queue.
  for (auto& entry : lost) {
    if (!room)
      for (auto& waiter : entry.waiters) {
        waiter.command.reset();
        waiter.keep.reset();
      }
    plan_again(std::move(entry.waiters));
  }
}

Refusal Core::refusal_of_loss() const {
  std::lock_guard lock(mutex_);
  if (lost_why_ == Errc::busy)
    return {"retry", "this node is stopping and had no file descriptors left to write with"};
  return {"storage_full", "the volume of the logs is full"};
}

// Their entry was not written, and nothing of it ever will be. What does not grow is planned once more, out
// of the reserve (HD-30); the rest is refused.
void Core::plan_again(std::vector<Waiter> lost) {
  std::vector<Waiter> refused;
  std::vector<Pending> again;
  for (auto& waiter : lost) {
    if (waiter.keep) waiter.command = std::move(*waiter.keep);
    if (waiter.command) {
      again.push_back({std::move(*waiter.command), std::move(waiter.done), std::move(waiter.keep), true});
    } else {
      refused.push_back(std::move(waiter));
    }
  }
  {
    std::lock_guard lock(mutex_);
    queue_.insert(queue_.begin(), std::make_move_iterator(again.begin()),
                  std::make_move_iterator(again.end()));
  }
  refuse(std::move(refused), refusal_of_loss());
}

// Whatever passed the gate before it closed must not eat the reserve.
void Core::refuse_growth() {
  std::vector<Pending> refused;
  {
    std::lock_guard lock(mutex_);
    std::deque<Pending> kept;
    for (auto& pending : queue_) {
      if (grows(pending.command)) {
        refused.push_back(std::move(pending));
      } else {
        kept.push_back(std::move(pending));
      }
    }
    queue_.swap(kept);
  }
  for (auto& pending : refused)
    pending.done(tl::unexpected(Refusal{"storage_full", "the volume of the logs is full"}));
}

void Core::on_committed(std::vector<replica::Committed> entries) {
  for (const auto& entry : entries) {
    if (!apply_one(entry)) return;
  }
  if (checkpointer_.bytes_since() >= limits_.durable_every_bytes && stopped_cause().empty())
    checkpointer_.begin();
}

std::optional<Health::ApplyFailure> Core::apply_failure() const {
  std::lock_guard lock(mutex_);
  return apply_failure_;
}

void Core::note_apply_failure(const replica::Committed& committed, const machine::Entry& entry,
                              const Error& error) {
  // What an entry says is the same on every node; what a disk or memory does is this node's own.
  const bool same_everywhere = error.code == Errc::corrupt || error.code == Errc::invalid;
  std::lock_guard lock(mutex_);
  apply_failure_ = Health::ApplyFailure{committed.index.value, committed.term, machine::entry_digest(entry),
                                        same_everywhere ? "deterministic" : "node", error.what};
}

bool Core::apply_one(const replica::Committed& committed) {
  const auto& entry = *static_cast<const machine::Entry*>(committed.proposal->decoded.get());
  reach_point(limits_.crash_points, CrashPoint::commit_before_apply);
  before_apply_(entry);
  auto applied = machine::apply_entry(store_, committed.index, committed.term, entry, limits_.crash_points);
  if (!applied) {
    note_apply_failure(committed, entry, applied.error());
    poison(Error{Errc::corrupt,
                 fmt::format("apply failed at index {} term {} digest {}: {}", committed.index.value,
                             committed.term, machine::entry_digest(entry), applied.error().what)});
    refuse_all({"outcome_unknown", "apply failed on this node"});
    return false;
  }
  checkpointer_.applied(committed.index, committed.proposal->touched, committed.proposal->bytes);
  reach_point(limits_.crash_points, CrashPoint::apply_store_committed);
  on_applied_(*applied);
  std::vector<Waiter> waiters;
  {
    std::lock_guard lock(mutex_);
    applied_.store(committed.index.value, std::memory_order_release);
    if (!in_flight_.empty() && in_flight_.front().index == committed.index) {
      waiters = std::move(in_flight_.front().waiters);
      in_flight_.pop_front();
    }
    wake_planner();
    // stop() looks again, once nothing is in flight.
    if (stopping_ && in_flight_.empty()) threads_.planner.post([] {});
  }
  answer(std::move(waiters));
  return true;
}

void Core::tick_checkpoint() {
  // An entry may have been applied in part, or a sync has failed: the file stays as it is.
  if (!stopped_cause().empty()) return;
  checkpointer_.begin();
  threads_.apply.post_after(limits_.durable_every_us, [this] { tick_checkpoint(); });
}

}  // namespace queen::broker

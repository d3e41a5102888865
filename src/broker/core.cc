#include "broker/core.h"

#include <pthread.h>

#include "base/invariant.h"
#include "broker/placement.h"

namespace queen::broker {

Core::Core(store::Store& store, qlog::QueueLogs& logs, Checkpointer& checkpointer, Executor& apply,
           Clock& clock, Limits limits, std::function<void(const machine::Applied&)> on_applied, Logger log)
    : store_(store),
      logs_(logs),
      checkpointer_(checkpointer),
      apply_(apply),
      limits_(limits),
      on_applied_(std::move(on_applied)),
      log_(std::move(log)),
      clock_(clock),
      planner_(store) {}

Core::~Core() {
  stop();
}

void Core::start(EntryIndex next) {
  applied_ = next.value - 1;
  clock_.raise(machine::safe_time_us(store_));
  replica::Events events;
  events.on_committed = [this](std::vector<replica::Committed> entries) {
    apply_.post([this, entries = std::move(entries)]() mutable { on_committed(std::move(entries)); });
  };
  events.on_lost = [this](EntryIndex first, const Error&) {
    std::lock_guard lock(mutex_);
    if (!lost_from_ || first < *lost_from_) lost_from_ = first;
    wake_.notify_one();
  };
  events.on_stopped = [this](const Error& cause) { poison(cause); };
  replicator_ = replica::make_local_replicator(logs_, next, {}, std::move(events), log_);
  apply_.post_after(limits_.durable_every_us, [this] { tick_checkpoint(); });
  thread_ = std::thread([this] { run_planner(); });
}

void Core::submit(Pending pending) {
  std::optional<Refusal> refusal;
  {
    std::lock_guard lock(mutex_);
    if (!cause_.empty()) {
      refusal = Refusal{"retry", "this node takes no writes: " + cause_};
    } else if (stopping_) {
      refusal = Refusal{"retry", "this node is stopping"};
    } else if (queue_.size() >= limits_.command_queue_depth) {
      refusal = Refusal{"overloaded", "too many commands wait to be planned"};
    } else {
      queue_.push_back(std::move(pending));
      if (queue_.size() == 1) wake_.notify_one();
    }
  }
  if (refusal) pending.done(tl::unexpected(std::move(*refusal)));
}

void Core::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  // What was accepted is answered: the planner empties its queue before it ends, apply empties what is in
  // flight.
  if (thread_.joinable()) thread_.join();
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return !cause_.empty() || in_flight_.empty(); });
  }
  if (replicator_) replicator_->stop();
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
    wake_.notify_all();
    idle_.notify_all();
  }
  log_.error("node_stopped", {{"why", cause.what}});
  // On the apply thread, so that entries that did commit are answered as such first.
  apply_.post([this] {
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

void Core::run_planner() {
  pthread_setname_np(pthread_self(), "queen-planner");
  std::vector<Pending> batch;
  while (wait_for_work(batch)) {
    if (!batch.empty()) {
      reach_point(limits_.crash_points, CrashPoint::batcher_drained);
      plan(std::move(batch));
    }
    batch.clear();
  }
}

// False when the thread may end. An empty batch with true: look again.
bool Core::wait_for_work(std::vector<Pending>& batch) {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] {
    return !cause_.empty() || lost_from_ || (stopping_ && queue_.empty() && in_flight_.empty()) ||
           (!queue_.empty() && in_flight_.size() < limits_.pipeline);
  });
  if (!cause_.empty()) return false;
  if (lost_from_) {
    lock.unlock();
    forget_lost();
    return true;
  }
  if (queue_.empty()) return false;
  batch = take_batch();
  return true;
}

// With the lock held.
std::vector<Pending> Core::take_batch() {
  std::vector<Pending> batch;
  std::uint64_t bytes = 0;
  while (!queue_.empty() && batch.size() < limits_.batch_commands_max) {
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
    if (batch[i].keep) *batch[i].keep = std::move(batch[i].command);
    waiters.push_back({std::move(batch[i].done), std::move(cycle.outcomes[i])});
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
  std::shared_ptr<replica::Proposal> proposal;
  {
    const auto gate = store_.read_gate();
    const LogExists exists = [this](LogId log) { return logs_.exists(log); };
    proposal = make_proposal(shared, {logs_.layout(), store_, exists, compressors_, limits_.zstd_level});
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
  const bool full = given.error().code == Errc::full;
  refuse(std::move(refused), full ? Refusal{"storage_full", "the volume of the logs is full"}
                                  : Refusal{"retry", given.error().what});
}

// Their answers may rest on entries that are planned and not durable yet.
void Core::answer_after_in_flight(std::vector<Waiter> waiters) {
  bool stopped = false;
  {
    std::lock_guard lock(mutex_);
    stopped = !cause_.empty();
    if (!stopped && !in_flight_.empty()) {
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

// A full disk gave entries back. What was planned before them still applies; then the planner starts from the
// store.
void Core::forget_lost() {
  std::vector<InFlight> lost;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return !cause_.empty() || applied_.load() + 1 >= lost_from_->value; });
    if (!cause_.empty()) return;
    while (!in_flight_.empty() && in_flight_.back().index >= *lost_from_) {
      lost.push_back(std::move(in_flight_.back()));
      in_flight_.pop_back();
    }
    lost_from_.reset();
    planner_.reset();
    replicator_->accept_loss();
    idle_.notify_all();
  }
  for (auto& entry : lost)
    refuse(std::move(entry.waiters), {"storage_full", "the volume of the logs is full"});
}

void Core::on_committed(std::vector<replica::Committed> entries) {
  for (const auto& entry : entries) {
    if (!apply_one(entry)) return;
  }
  if (checkpointer_.bytes_since() >= limits_.durable_every_bytes && stopped_cause().empty())
    checkpointer_.begin();
}

bool Core::apply_one(const replica::Committed& committed) {
  const auto& entry = *static_cast<const machine::Entry*>(committed.proposal->decoded.get());
  reach_point(limits_.crash_points, CrashPoint::commit_before_apply);
  auto applied = machine::apply_entry(store_, committed.index, committed.term, entry, limits_.crash_points);
  if (!applied) {
    poison(Error{Errc::corrupt, fmt::format("apply failed at index {} digest {}: {}", committed.index.value,
                                            machine::entry_digest(entry), applied.error().what)});
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
    wake_.notify_one();
    if (stopping_) idle_.notify_all();
  }
  answer(std::move(waiters));
  return true;
}

void Core::tick_checkpoint() {
  // An entry may have been applied in part, or a sync has failed: the file stays as it is.
  if (!stopped_cause().empty()) return;
  checkpointer_.begin();
  apply_.post_after(limits_.durable_every_us, [this] { tick_checkpoint(); });
}

}  // namespace queen::broker

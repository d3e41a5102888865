#include "sink/queue_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace queen::sink {
namespace {

constexpr std::uint64_t kWorthDrainingBytes = 1ULL << 20;
constexpr std::int64_t kWorthDrainingUs = 10 * kSecondUs;
constexpr std::int64_t kMemoryPollUs = 100'000;
constexpr int kProbeTries = 3;
constexpr std::int64_t kProbeWaitUs = 200'000;

EngineSettings engine_settings(const SinkWorld& world) {
  EngineSettings out;
  out.target_bytes = world.unit.target_bytes;
  out.max_window_us = world.unit.max_window_us;
  out.guard_us = world.node.safe_guard_us;
  out.align = world.unit.align;
  out.start = world.unit.start;
  // Calls in flight come on top of the budget: the default of four may be a quarter of it.
  constexpr std::uint64_t kCallsOfBudget = 16;
  constexpr std::uint64_t kCallBytesMin = 1ULL << 20;
  out.fetch_call_bytes_max =
      std::min(out.fetch_call_bytes_max, std::max(world.node.memory_bytes / kCallsOfBudget, kCallBytesMin));
  out.fetch_calls_max = static_cast<std::size_t>(world.node.fetch_concurrency);
  out.checkpoint_every = world.node.checkpoint_every;
  return out;
}

QueueState state_of(EngineState state) {
  switch (state) {
    case EngineState::filling:
      return QueueState::filling;
    case EngineState::intent:
      return QueueState::intent;
    case EngineState::upload:
      return QueueState::upload;
    case EngineState::commit:
      return QueueState::commit;
  }
  return QueueState::filling;
}

// An entry error that the engine repeats, empty when there is none: without a wait the same call would come
// back at once.
std::string error_to_wait_for(const FetchAnswer& answer) {
  for (const FetchedEntry& entry : answer.entries) {
    if (entry.error != kErrorUnknown && entry.error != kErrorOutOfRange && !entry.error.empty())
      return entry.error;
  }
  return {};
}

}  // namespace

QueueRun::QueueRun(QueueContext& context, Lease& lease)
    : context_(context), lease_(lease), sequence_(context, lease) {}

Task<RunStop> QueueRun::run() {
  std::optional<RunStop> stop = co_await start();
  while (!stop) {
    if (lease_.lost()) co_return RunStop{QueueState::fenced, "the lease was lost"};
    if (engine_->missing()) co_return RunStop{QueueState::missing, "the queue does not exist"};
    if (context_.interrupt.any() && !engine_->draining()) begin_drain();
    if (engine_->draining() && engine_->committed_in_drain()) {
      co_await finish_drain();
      co_return RunStop{QueueState::drained, ""};
    }
    stop = co_await step();
    publish();
    if (!stop && engine_->draining() && !acted_) co_return RunStop{QueueState::drained, ""};
  }
  co_return std::move(*stop);
}

Task<std::optional<RunStop>> QueueRun::start() {
  context_.set_state(QueueState::restoring);
  auto restored = co_await restore(context_, lease_);
  if (!restored) co_return std::move(restored.error());
  sequence_.restored(*restored);
  const std::uint64_t committed_k = restored->point.committed ? restored->point.committed->k : 0;
  const std::uint64_t checkpoint_k = restored->point.checkpoint ? restored->point.checkpoint->k : 0;
  const std::size_t positions = restored->point.checkpoint ? restored->point.checkpoint->positions.size() : 0;
  std::optional<Committed> last = restored->point.committed;
  engine_ = std::make_unique<WindowEngine>(engine_settings(context_.world), std::move(restored->point));
  context_.log.info("queue_restored", {{"committed_k", committed_k},
                                       {"redo", engine_->redo().has_value()},
                                       {"checkpoint_k", checkpoint_k},
                                       {"positions", positions}});
  if (engine_->redo()) {
    const Intent intent = *engine_->redo();
    auto found = co_await find_finished(context_, lease_, intent);
    if (!found) co_return std::move(found.error());
    if (*found) {
      sequence_.adopt(**found);
      engine_->adopt_finished();
    } else if (auto refusal = sequence_.refuse_redo(intent)) {
      co_return refusal;
    }
  }
  if (last && !lease_.lost()) co_await compare_paths(context_, std::move(*last));
  publish();
  co_return std::nullopt;
}

// A window worth finishing is closed and committed; what is young and small is read again by the next owner.
void QueueRun::begin_drain() {
  const EngineStatus status = engine_->status();
  const bool aged = status.lag_us.value_or(0) >= kWorthDrainingUs && status.buffered_weight > 0;
  const bool closing = aged || status.buffered_weight >= kWorthDrainingBytes;
  context_.log.info("stopping the reads", {{"buffered", status.buffered_weight},
                                           {"aged", aged},
                                           {"closing", closing},
                                           {"state", name_of(state_of(status.state))}});
  engine_->begin_drain(closing ? WindowEngine::FinishOpen::yes : WindowEngine::FinishOpen::no);
}

Task<void> QueueRun::finish_drain() {
  std::vector<Action> actions = engine_->take_actions();
  for (Action& action : actions) {
    auto* due = std::get_if<CheckpointAction>(&action);
    if (due == nullptr) continue;
    auto stop = co_await perform_checkpoint(std::move(due->checkpoint));
    if (stop) co_return;
  }
}

Task<std::optional<RunStop>> QueueRun::step() {
  std::vector<Action> actions = engine_->take_actions();
  acted_ = !actions.empty();
  fetch_wait_us_.reset();
  TaskGroup seeks(context_.world.executor);
  std::vector<SeekAction> to_seek;
  std::vector<FetchAction> to_fetch;
  for (Action& action : actions) {
    if (auto* sought = std::get_if<SeekAction>(&action)) {
      to_seek.push_back(std::move(*sought));
    } else if (auto* fetched = std::get_if<FetchAction>(&action)) {
      to_fetch.push_back(std::move(*fetched));
    } else {
      auto stop = co_await perform(std::move(action));
      if (stop) co_return stop;
    }
  }
  for (SeekAction& action : to_seek) seeks.start(seek(std::move(action)));
  co_await seeks.all_ended();
  co_await read(std::move(to_fetch));
  if (fetch_wait_us_) co_await context_.interrupt.pause(*fetch_wait_us_);
  // Everything owed was answered, so the engine has something to do unless the queue is gone or drains.
  if (!acted_ && !engine_->draining() && !engine_->missing())
    co_await context_.interrupt.pause(context_.world.node.discovery_interval_us);
  co_return std::nullopt;
}

Task<std::optional<RunStop>> QueueRun::perform(Action action) {
  if (auto* due = std::get_if<DiscoverAction>(&action)) {
    ChangedRequest request = std::move(due->request);
    co_await discover(std::move(request));
    co_return std::nullopt;
  }
  if (auto* due = std::get_if<IntentAction>(&action)) co_return co_await perform_intent(*due);
  if (auto* due = std::get_if<UploadAction>(&action)) co_return co_await perform_upload(std::move(*due));
  if (auto* due = std::get_if<CommitAction>(&action)) co_return co_await perform_commit(*due);
  if (auto* due = std::get_if<CheckpointAction>(&action))
    co_return co_await perform_checkpoint(std::move(due->checkpoint));
  co_await context_.interrupt.pause(context_.world.node.discovery_interval_us);
  engine_->on_idle_over();
  co_return std::nullopt;
}

Task<std::optional<RunStop>> QueueRun::perform_intent(IntentAction action) {
  auto stop = co_await sequence_.write_intent(action.bounds);
  if (stop) co_return stop;
  engine_->on_intent_written();
  co_return std::nullopt;
}

Task<std::optional<RunStop>> QueueRun::perform_upload(UploadAction action) {
  bool adopted = false;
  publish();
  auto stop = co_await sequence_.upload(std::move(action), adopted);
  if (stop) co_return stop;
  if (adopted) {
    engine_->adopt_finished();
  } else {
    engine_->on_uploaded();
  }
  co_return std::nullopt;
}

Task<std::optional<RunStop>> QueueRun::perform_commit(CommitAction action) {
  auto stop = co_await sequence_.commit(action);
  if (stop) co_return stop;
  engine_->on_committed();
  sequence_.committed(engine_->status());
  publish();
  if (sequence_.crash_here(CrashPoint::after_commit))
    co_return RunStop{QueueState::crashed, std::string(name_of(CrashPoint::after_commit))};
  co_return std::nullopt;
}

Task<std::optional<RunStop>> QueueRun::perform_checkpoint(Checkpoint checkpoint) {
  auto stop = co_await sequence_.write_checkpoint(std::move(checkpoint));
  if (stop) co_return stop;
  engine_->on_checkpoint_done();
  co_return std::nullopt;
}

Task<void> QueueRun::discover(ChangedRequest request) {
  if (context_.interrupt.any()) co_return;
  auto page = co_await context_.world.calls.changed(context_.queue, std::move(request));
  std::optional<std::int64_t> retry_after_us;
  if (page) {
    engine_->on_discovered(*page);
    if (page->error.empty()) context_.set_absent(false);
    if (page->error.empty() || page->error == kErrorUnknown) co_return;
    context_.note_error("discovery_failed", "discovery: " + page->error);
  } else {
    engine_->on_discovery_failed();
    retry_after_us = page.error().retry_after_us;
    context_.note_error("discovery_failed", sentence("discovery", page.error()));
  }
  Backoff backoff;
  co_await context_.interrupt.pause(backoff.next_us(context_.world.random, retry_after_us));
}

// One probe with its repeats; nothing when it failed for good or a signal came.
Task<std::optional<FetchedEntry>> QueueRun::probe(FetchRequest request) {
  for (int attempt = 1; attempt <= kProbeTries; ++attempt) {
    if (context_.interrupt.any() || lease_.lost()) co_return std::nullopt;
    std::vector<FetchRequest> requests{request};
    auto answer = co_await context_.world.calls.fetch(context_.queue, std::move(requests));
    if (answer && !answer->entries.empty()) co_return std::move(answer->entries[0]);
    if (!answer && !answer.error().retriable) co_return std::nullopt;
    if (attempt < kProbeTries) co_await context_.interrupt.pause(kProbeWaitUs << (attempt - 1));
  }
  co_return std::nullopt;
}

Task<void> QueueRun::seek(SeekAction action) {
  Seek search(action.partition, action.bounds, action.t);
  while (!search.finished()) {
    auto entry = co_await probe(search.request());
    if (context_.interrupt.any() || lease_.lost())
      co_return;  // the run ends; a seek may stay unanswered then
    if (entry) {
      search.on_answer(*entry);
    } else {
      search.give_up("the probe failed");
    }
  }
  engine_->on_sought(action.seek, search.result());
}

Task<void> QueueRun::read(std::vector<FetchAction> calls) {
  if (calls.empty()) co_return;
  while (!context_.world.shared.memory.may_read(context_.memory_key) && !context_.interrupt.any() &&
         !lease_.lost())
    co_await context_.interrupt.pause(kMemoryPollUs);
  TaskGroup group(context_.world.executor);
  for (FetchAction& action : calls) group.start(fetch(std::move(action)));
  co_await group.all_ended();
}

Task<void> QueueRun::fetch(FetchAction action) {
  if (context_.interrupt.any() || lease_.lost()) {
    engine_->on_fetch_failed(action.call);
    co_return;
  }
  auto answer = co_await context_.world.calls.fetch(context_.queue, std::move(action.requests));
  const SinkWorld& world = context_.world;
  world.shared.metrics.count_fetch(world.tenant, context_.queue, answer.has_value());
  Backoff backoff;
  if (answer) {
    const std::string wait = error_to_wait_for(*answer);
    engine_->on_fetched(action.call, std::move(*answer));
    if (wait.empty()) co_return;
    fetch_wait_us_ = backoff.next_us(context_.world.random, std::nullopt);
    context_.note_error("fetch_failed", "fetch: " + wait);
    co_return;
  }
  engine_->on_fetch_failed(action.call);
  fetch_wait_us_ = backoff.next_us(context_.world.random, answer.error().retry_after_us);
  context_.note_error("fetch_failed", sentence("fetch", answer.error()));
}

void QueueRun::publish() {
  const EngineStatus status = engine_->status();
  QueueRow& row = context_.row;
  row.state = state_of(status.state);
  row.k = status.k;
  row.t_end = status.t_end;
  row.complete_through = status.complete_through;
  row.safe_time = status.safe_time;
  row.lag_us = status.lag_us;
  row.redo = status.redo;
  row.buffered_bytes = status.buffered_weight;
  row.partitions = status.partitions;
  row.swept_partitions = status.swept_partitions;
  if (status.lag_us) context_.world.board.health_report(context_.queue, *status.lag_us, context_.now_us());
  context_.report_memory(status.buffered_weight);
  context_.publish();
  const MemoryBudget& memory = context_.world.shared.memory;
  // Over the budget only what blocks the close is read (HD-14).
  engine_->set_read_pace(memory.total() > memory.limit() ? WindowEngine::ReadPace::narrow
                                                         : WindowEngine::ReadPace::full);
  if (status.state != EngineState::filling || !memory.must_close(context_.memory_key)) return;
  engine_->force_close();
  if (const auto suppressed = context_.world.limit.pass("memory", context_.now_us(), kRepeatLogUs))
    context_.log.info("memory_budget_closes_window", {{"buffered", status.buffered_weight},
                                                      {"total", memory.total()},
                                                      {"limit", memory.limit()},
                                                      {"suppressed", *suppressed}});
}

}  // namespace queen::sink

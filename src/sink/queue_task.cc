#include "sink/queue_task.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "sink/queue_run.h"

namespace queen::sink {
namespace {

constexpr std::int64_t kMissingWaitUs = 5 * kSecondUs;
constexpr std::int64_t kFailedWaitUs = 60 * kSecondUs;

RunStop died(const std::exception& thrown) {
  return {QueueState::failed, std::string("the task died: ") + thrown.what()};
}

// Refreshes the row beside the run until `end` is set.
Task<void> keep_fresh(QueueContext& context, Lease& lease, Signal& end) {
  while (!end.is_set() && !lease.lost()) {
    const bool over = co_await end.wait_for(lease.refresh_every_us());
    if (over || lease.lost()) co_return;
    auto refreshed = co_await lease.refresh();
    if (refreshed) continue;
    const std::string message = sentence("lease refresh", refreshed.error());
    if (lease.lost()) {
      context.log.error("lease_lost", {{"error", message}});
      co_return;
    }
    if (const auto suppressed = context.world.limit.pass("refresh", context.now_us(), kRepeatLogUs))
      context.log.warn("lease_refresh_failed", {{"error", message}, {"suppressed", *suppressed}});
  }
}

}  // namespace

Task<void> QueueTask::run() {
  while (true) {
    RunStop stop;
    try {
      co_await live();
      co_return;
    } catch (const std::exception& thrown) {
      stop = died(thrown);
    }
    forget_run();
    const Next next = co_await ended(std::move(stop));
    if (next == Next::end) co_return;
  }
}

Task<void> QueueTask::live() {
  SinkWorld& world = context_.world;
  context_.log.info("queue_task_started", {{"instance", world.node.instance}});
  Next next = Next::again;
  while (next == Next::again && !context_.interrupt.stopping()) {
    context_.set_state(QueueState::claiming);
    Lease lease(world.calls,
                {.key = lease_key(world.unit.sink, context_.queue),
                 .instance = world.node.instance,
                 .incarnation = make_incarnation(world.random)},
                world.node.lease_ttl_us, context_.log);
    const bool taken = co_await take(lease);
    if (!taken) break;
    RunStop stop = co_await run_held(lease);
    if (stop.state == QueueState::crashed) {
      context_.set_state(QueueState::crashed);
      co_return;
    }
    co_await lease.release();
    forget_run();
    next = co_await ended(std::move(stop));
  }
  node_place_ = ClaimLine::Place();
  sink_place_ = ClaimLine::Place();
  world.give_back.on_abandoned(context_.queue);
  context_.log.info("queue_drained");
}

// Claiming.

Task<bool> QueueTask::take(Lease& lease) {
  while (!context_.interrupt.stopping()) {
    std::optional<LookResult> found = co_await look(lease);
    if (!found) continue;
    bool taken = false;
    if (found->row == LookResult::Row::other) {
      co_await rest_while_held(std::move(found->holder));
    } else if (found->row == LookResult::Row::mine) {
      node_place_ = context_.world.shared.line.take();
      sink_place_ = context_.world.line.take();
      taken = co_await claim(lease);
    } else {
      taken = co_await wait_turn(lease);
    }
    if (taken) co_return true;
    node_place_ = ClaimLine::Place();
    sink_place_ = ClaimLine::Place();
  }
  co_return false;
}

// A free row is claimed when this task's turn has come; meanwhile the row is looked at again.
Task<bool> QueueTask::wait_turn(Lease& lease) {
  SinkWorld& world = context_.world;
  node_place_ = world.shared.line.take();
  sink_place_ = world.line.take();
  Turn turn{.found_free_us = context_.now_us(),
            .jitter_us = claim_jitter_us(world.random),
            .lease_ttl_us = world.node.lease_ttl_us,
            .gave_back_at_us = gave_back_at_us_};
  while (!context_.interrupt.stopping()) {
    turn.node_load = node_place_.ahead();
    turn.sink_load = sink_place_.ahead();
    turn.share = world.share();
    const std::int64_t wait = claim_at_us(turn) - context_.now_us();
    if (wait <= 0) co_return co_await claim(lease);
    const std::int64_t look_every = world.node.lease_ttl_us / 3;
    co_await context_.interrupt.pause(std::min(wait, look_every));
    if (wait <= look_every) continue;
    auto found = co_await look(lease);
    if (!found || found->row != LookResult::Row::free) co_return false;
  }
  co_return false;
}

Task<std::optional<LookResult>> QueueTask::look(Lease& lease) {
  auto found = co_await lease.look();
  if (found) {
    failures_ = 0;
    co_return std::move(*found);
  }
  const CallError error = found.error();
  co_await wait_after_failure(error);
  co_return std::nullopt;
}

Task<bool> QueueTask::claim(Lease& lease) {
  auto claimed = co_await lease.claim();
  if (!claimed) {
    const CallError error = claimed.error();
    co_await wait_after_failure(error);
    co_return false;
  }
  failures_ = 0;
  if (claimed->taken) co_return true;
  co_await rest_while_held(std::move(claimed->holder));
  co_return false;
}

Task<void> QueueTask::wait_after_failure(const CallError& error) {
  SinkWorld& world = context_.world;
  const std::int64_t ttl = world.node.lease_ttl_us;
  const std::string message = sentence("lease claim", error);
  std::optional<std::int64_t> asked = error.retry_after_us;
  const bool retriable = error.retriable;
  context_.note_error("cannot_claim", message);
  failures_ = std::min(failures_ + 1, 16);
  std::int64_t wait = std::min(kSecondUs << (failures_ - 1), ttl) + claim_jitter_us(world.random);
  if (asked) wait = std::min(*asked, ttl);
  if (!retriable) wait = ttl;
  co_await context_.interrupt.pause(wait);
}

Task<void> QueueTask::rest_while_held(std::string holder) {
  SinkWorld& world = context_.world;
  node_place_ = ClaimLine::Place();
  sink_place_ = ClaimLine::Place();
  if (holder != last_holder_) context_.log.info("queue_held_elsewhere", {{"owner", holder}});
  last_holder_ = holder;
  QueueRow& row = context_.row;
  row.held_by = std::move(holder);
  row.complete_through = row.safe_time = row.lag_us = std::nullopt;
  row.buffered_bytes = row.partitions = 0;
  row.redo = false;
  world.board.health_forget(context_.queue);
  context_.set_state(QueueState::held);
  world.give_back.on_held_elsewhere(context_.queue);
  const std::size_t held = world.line.size();
  const std::int64_t wait =
      look_again_us(world.node.lease_ttl_us, held, world.share(), claim_jitter_us(world.random));
  co_await context_.interrupt.pause(wait);
  if (context_.interrupt.any() && !context_.interrupt.stopping()) context_.interrupt.hand_off_done();
}

// Running.

Task<RunStop> QueueTask::run_held(Lease& lease) {
  SinkWorld& world = context_.world;
  if (last_holder_ != world.node.instance)
    context_.log.info("queue_owned", {{"instance", world.node.instance}});
  last_holder_ = world.node.instance;
  context_.row.owned_here = true;
  context_.row.held_by.clear();
  world.board.health_begin(context_.queue, context_.now_us());
  world.shared.metrics.begin_queue(world.tenant, context_.queue, world.unit.kind.format);
  // Requests under way belong to an owner that is none any more. The store knows no owners, so all of this
  // sink's are ended; the other queues repeat theirs.
  lease.on_lost([&world] {
    world.store.store().cancel();
    world.store.store().resume();
  });
  Signal end(world.executor);
  TaskGroup beside(world.executor);
  beside.start(keep_fresh(context_, lease, end));
  QueueRun run(context_, lease);
  // Whatever a run dies of ends that run alone: it is a failed one, tried again in a minute (7.3).
  RunStop stop;
  try {
    stop = co_await run.run();
  } catch (const std::exception& thrown) {
    stop = died(thrown);
  }
  end.set();
  try {
    co_await beside.all_ended();
  } catch (const std::exception& thrown) {
    stop = died(thrown);
  }
  co_return stop;
}

void QueueTask::forget_run() {
  QueueRow& row = context_.row;
  row.owned_here = false;
  row.buffered_bytes = 0;
  row.partitions = 0;
  row.redo = false;
  row.swept_partitions.reset();
  row.checkpoint_age_windows.reset();
  context_.world.shared.memory.leave(context_.memory_key);
  node_place_ = ClaimLine::Place();
  sink_place_ = ClaimLine::Place();
}

Task<QueueTask::Next> QueueTask::rest(std::int64_t us) {
  co_await context_.interrupt.pause(us);
  // A hand-off that comes while the queue does not run has nothing to give back.
  if (context_.interrupt.any() && !context_.interrupt.stopping()) {
    context_.interrupt.hand_off_done();
    context_.world.give_back.on_abandoned(context_.queue);
  }
  co_return context_.interrupt.stopping() ? Next::end : Next::again;
}

Task<QueueTask::Next> QueueTask::ended(RunStop stop) {
  SinkWorld& world = context_.world;
  if (stop.state != QueueState::failed) world.board.health_forget(context_.queue);
  if (stop.state == QueueState::drained && !context_.interrupt.stopping()) {
    context_.interrupt.hand_off_done();
    gave_back_at_us_ = context_.now_us();
    world.give_back.on_released(context_.queue, context_.now_us());
    world.shared.metrics.count_given_back(world.tenant);
    context_.log.info("queue_given_back");
    context_.set_state(QueueState::released);
    co_return Next::again;
  }
  context_.set_state(stop.state);
  if (stop.state == QueueState::drained) co_return Next::end;
  if (stop.state != QueueState::missing) missing_logged_ = false;
  if (stop.state == QueueState::missing) {
    if (!missing_logged_) context_.log.info("queue_missing", {{"retry_ms", 5000}});
    missing_logged_ = true;
    co_return co_await rest(kMissingWaitUs);
  }
  context_.row.last_error = LastError{.at_us = world.executor.clock().wall_us(), .message = stop.why};
  context_.publish();
  if (stop.state == QueueState::fenced) {
    context_.log.warn("queue_fenced", {{"why", stop.why}});
    co_return co_await rest(world.node.lease_ttl_us);
  }
  context_.log.error("queue_failed", {{"why", stop.why}, {"retry_ms", 60000}});
  co_return co_await rest(kFailedWaitUs);
}

}  // namespace queen::sink

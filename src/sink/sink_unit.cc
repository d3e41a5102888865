#include "sink/sink_unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace queen::sink {
namespace {

constexpr std::int64_t kProbeLogUs = 30 * kSecondUs;
constexpr std::int64_t kListEveryAtLeastUs = kSecondUs;
constexpr int kListEveryIntervals = 10;

std::string probe_sentence(const UnitSettings& unit, const s3::S3Error& error) {
  return fmt::format(
      "the bucket {} at {} does not answer: {}. The sink needs s3:PutObject, s3:GetObject and "
      "s3:ListBucket on {}/*; QUEEN_S3_PATH_STYLE=true is the usual cure for a gateway",
      unit.bucket, unit.endpoint, error.sentence, unit.prefix);
}

}  // namespace

SinkUnit::SinkUnit(SinkWorld& world)
    : world_(world),
      interrupt_(world.executor),
      presence_(world.calls,
                {.sink = world.unit.sink,
                 .instance = world.node.instance,
                 .incarnation = make_incarnation(world.random)},
                world.node.lease_ttl_us, world.random, world.log),
      tasks_(world.executor) {}

Task<void> SinkUnit::run() {
  const bool reachable = co_await probe_bucket();
  if (!reachable) co_return;
  TaskGroup beside(world_.executor);
  for (const std::string& queue : world_.unit.queues) add_queue(queue);
  beside.start(watched(presence_.run(interrupt_)));
  beside.start(watched(place()));
  if (world_.unit.all_queues) beside.start(watched(watch_queues()));
  co_await beside.all_ended();
  co_await tasks_.all_ended();
  co_await watched(presence_.leave());
  world_.log.info("sink_stopped", {{"sink", world_.unit.sink}});
}

// A part that dies takes the sink with it, in order: its queues drain and their leases are released.
Task<void> SinkUnit::watched(Task<void> part) {
  try {
    co_await std::move(part);
  } catch (const std::exception& thrown) {
    if (failure_.empty()) failure_ = thrown.what();
    stop();
  }
}

void SinkUnit::stop() {
  interrupt_.stop();
  // The client would go on asking for a while; nothing else is on its way yet.
  if (probing_) world_.store.store().cancel();
  for (auto& [name, task] : queues_) task->stop();
}

QueueTask* SinkUnit::task(const std::string& queue) {
  const auto found = queues_.find(queue);
  return found == queues_.end() ? nullptr : found->second.get();
}

void SinkUnit::add_queue(const std::string& queue) {
  if (queues_.contains(queue) || interrupt_.stopping()) return;
  auto& task = queues_[queue];
  task = std::make_unique<QueueTask>(world_, queue);
  world_.queues = queues_.size();
  tasks_.start(watched(task->run()));
}

// True once the bucket answered; false when a stop came first. A listing tells a missing bucket from an empty
// one and needs the permission that restoring needs.
Task<bool> SinkUnit::probe_bucket() {
  Backoff backoff;
  bool failed = false;
  while (!interrupt_.stopping()) {
    probing_ = true;
    auto page = co_await world_.store.list(world_.unit.prefix + "/", "", 1);
    probing_ = false;
    const std::int64_t at = world_.executor.clock().wall_us();
    if (page.ok()) {
      world_.board.set_bucket({.reachable = true, .error = "", .checked_at_us = at});
      if (failed) world_.log.info("bucket_answers_again", {{"bucket", world_.unit.bucket}});
      co_return true;
    }
    failed = true;
    const std::string message = probe_sentence(world_.unit, *page.error);
    world_.board.set_bucket({.reachable = false, .error = message, .checked_at_us = at});
    if (const auto suppressed = world_.limit.pass("bucket", world_.executor.clock().mono_us(), kProbeLogUs))
      world_.log.error("bucket_does_not_answer", {{"error", message}, {"suppressed", *suppressed}});
    const std::int64_t wait = backoff.next_us(world_.random, page.error->retry_after_us);
    co_await interrupt_.pause(std::max(kSecondUs, wait));
  }
  co_return false;
}

Task<void> SinkUnit::watch_queues() {
  const std::int64_t every =
      std::max(kListEveryAtLeastUs, world_.node.discovery_interval_us * kListEveryIntervals);
  while (!interrupt_.stopping()) {
    auto names = co_await world_.calls.list_queues();
    if (names) {
      for (const std::string& name : *names) add_queue(name);
    } else if (const auto suppressed =
                   world_.limit.pass("list", world_.executor.clock().mono_us(), kRepeatLogUs)) {
      world_.log.warn("queues_not_listed",
                      {{"error", sentence("list queues", names.error())}, {"suppressed", *suppressed}});
    }
    co_await interrupt_.pause(every);
  }
}

Task<void> SinkUnit::place() {
  while (!interrupt_.stopping()) {
    decide_placement();
    co_await interrupt_.pause(refresh_interval_us(world_.node.lease_ttl_us));
  }
}

void SinkUnit::decide_placement() {
  world_.nodes = presence_.nodes();
  std::vector<HeldQueue> held;
  for (const auto& [name, task] : queues_) {
    if (task->held()) held.push_back({.name = name, .buffered = task->buffered()});
  }
  const std::size_t share = world_.share();
  const auto chosen = world_.give_back.round(world_.executor.clock().mono_us(), share, held);
  if (chosen) {
    world_.log.info("giving_a_queue_back", {{"queue", *chosen},
                                            {"held", held.size()},
                                            {"share", share},
                                            {"nodes", world_.nodes},
                                            {"queues", world_.queues}});
    queues_.at(*chosen)->hand_off();
  }
  world_.board.set_placement({.nodes = world_.nodes,
                              .queues = world_.queues,
                              .share = share,
                              .held = held.size(),
                              .giving_back = world_.give_back.giving()});
}

}  // namespace queen::sink

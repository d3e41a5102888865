#include "sink/hosted_unit.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/text.h"

namespace queen::sink {
namespace {

constexpr std::size_t kSentenceMax = 512;
constexpr std::int64_t kBackoffMinUs = kSecondUs, kBackoffMaxUs = 30 * kSecondUs;
constexpr std::int64_t kHealthyRunUs = 3600 * kSecondUs;

std::string cut(std::string text) {
  if (text.size() > kSentenceMax) text.resize(kSentenceMax);
  return to_valid_utf8(text);
}

Logger scope_of(const Logger& log, const std::string& tenant) {
  return tenant == kDefaultTenant ? log : log.inside({"tenant", tenant});
}

}  // namespace

// What lives for one run.
struct HostedUnit::Built {
  Built(const HostParts& parts, const UnitOwner& owner, const UnitSettings& settings, StatusBoard& board,
        const Logger& log)
      : broker(parts.broker(owner.tenant)),
        store(parts.store(with_counter(parts, owner, settings))),
        calls(*broker, parts.executor),
        requests(*store, parts.executor),
        world{.unit = settings,
              .node = parts.node,
              .tenant = owner.tenant,
              .version = parts.version,
              .executor = parts.executor,
              .builders = parts.builders,
              .random = parts.random,
              .log = log,
              .calls = calls,
              .store = requests,
              .shared = parts.shared,
              .board = board,
              .crash = parts.crash,
              .line = {},
              .give_back = GiveBack(parts.node.lease_ttl_us),
              .limit = {}},
        unit(world) {}

  static s3::ClientSettings with_counter(const HostParts& parts, const UnitOwner& owner,
                                         const UnitSettings& settings) {
    s3::ClientSettings out = client_settings(settings, parts.node);
    out.on_attempt = [&metrics = parts.shared.metrics, tenant = owner.tenant](const s3::Attempt& attempt) {
      metrics.count_request(tenant, attempt.op, attempt.status);
    };
    return out;
  }

  std::unique_ptr<BrokerPort> broker;
  std::unique_ptr<s3::ObjectStore> store;
  BrokerCalls calls;
  StoreCalls requests;
  SinkWorld world;
  SinkUnit unit;
};

HostedUnit::HostedUnit(const HostParts& parts, UnitOwner owner, Result<UnitSettings> settings)
    : parts_(parts),
      owner_(std::move(owner)),
      log_(scope_of(parts.log, owner_.tenant)),
      interrupt_(parts.executor),
      board_(settings ? settings->max_window_us : 0) {
  if (settings) {
    settings_ = std::move(*settings);
  } else {
    error_ = cut(settings.error().what);
    life_.phase = "error";
  }
}

HostedUnit::~HostedUnit() = default;

void HostedUnit::note(const std::function<void(Life&)>& change) {
  const std::lock_guard lock(mutex_);
  change(life_);
}

HostedUnit::Life HostedUnit::life() const {
  const std::lock_guard lock(mutex_);
  return life_;
}

void HostedUnit::stop() {
  interrupt_.stop();
  if (built_) built_->unit.stop();
}

// One life of the sink; gives why it ended unasked.
Task<std::string> HostedUnit::run_once() {
  std::string why;
  try {
    built_ = std::make_unique<Built>(parts_, owner_, *settings_, board_, log_);
    co_await built_->unit.run();
    why = built_->unit.failure();
  } catch (const std::exception& thrown) {
    why = thrown.what();
  }
  if (why.empty() && !interrupt_.stopping()) why = "its run ended";
  co_return why;
}

Task<void> HostedUnit::run() {
  if (!settings_) {
    log_.error("sink_not_started", {{"cluster", owner_.cluster}, {"error", error_}});
    while (!interrupt_.stopping()) co_await interrupt_.pause(kHealthyRunUs);
    co_return;
  }
  parts_.shared.metrics.begin_tenant(owner_.tenant);
  log_.info(start_line(*settings_, parts_.node, owner_.tenant, parts_.version));
  std::int64_t backoff = kBackoffMinUs;
  while (!interrupt_.stopping()) {
    const std::int64_t since = parts_.executor.clock().mono_us();
    note([&](Life& life) {
      life.phase = "running";
      life.running_since_us = since;
      life.backoff_us = 0;
    });
    const std::string why = cut(co_await run_once());
    built_.reset();
    if (interrupt_.stopping()) break;
    if (parts_.executor.clock().mono_us() - since >= kHealthyRunUs) backoff = kBackoffMinUs;
    note([&](Life& life) {
      life.phase = "backoff";
      life.last_exit = why;
      life.backoff_us = backoff;
      ++life.restarts;
    });
    log_.error("sink_restarted", {{"reason", why}, {"backoff_ms", backoff / 1000}});
    co_await interrupt_.pause(backoff);
    backoff = std::min(2 * backoff, kBackoffMaxUs);
  }
  note([](Life& life) {
    life.phase = "stopped";
    life.backoff_us = 0;
  });
}

std::string HostedUnit::status_json() const {
  const Life now = life();
  const std::int64_t mono = parts_.executor.clock().mono_us();
  const UnitState unit{.tenant = owner_.tenant,
                       .source = owner_.source,
                       .cluster = owner_.cluster,
                       .phase = now.phase,
                       .error = error_,
                       .restarts = now.restarts,
                       .last_exit = now.last_exit,
                       .uptime_us = now.phase == "running" ? mono - now.running_since_us : 0,
                       .backoff_us = now.backoff_us};
  const NodeState node{
      .node = parts_.node, .version = parts_.version, .buffered_bytes = parts_.shared.memory.total()};
  return unit_json(unit, settings_ ? &*settings_ : nullptr, node, board_.snapshot(mono));
}

bool HostedUnit::healthy() const {
  const StatusBoard::Snapshot now = board_.snapshot(parts_.executor.clock().mono_us());
  return settings_ && now.health.ok && now.bucket.reachable.value_or(true);
}

std::map<std::string, QueueRow> HostedUnit::running_queues() const {
  if (life().phase != "running") return {};
  return board_.snapshot(parts_.executor.clock().mono_us()).queues;
}

}  // namespace queen::sink

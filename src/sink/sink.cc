#include "sink/sink.h"

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/invariant.h"
#include "sink/broker_adapter.h"
#include "sink/sink_unit.h"

namespace queen::sink {
namespace {

void abort_here(CrashPoint /*point*/) {
  std::abort();
}

class Manager final : public SinkManager {
 public:
  Manager(SinkSettings settings, BrokerPort& port, std::unique_ptr<BrokerPort> owned_port,
          std::unique_ptr<s3::ObjectStore> store, Executor& executor, Random& random, Logger log,
          std::string version, SinkExtras extras)
      : settings_(std::move(settings)),
        owned_port_(std::move(owned_port)),
        store_(std::move(store)),
        executor_(executor),
        log_(log.with_target("queen-s3")),
        version_(std::move(version)),
        started_us_(executor.clock().mono_us()),
        calls_(port, executor),
        node_(executor, settings_.node.memory_bytes),
        board_(settings_.environment ? settings_.environment->max_window_us : 0) {
    if (!settings_.environment) return;
    INVARIANT(store_ != nullptr, "a sink of the environment needs an object store");
    store_calls_ = std::make_unique<StoreCalls>(*store_, executor);
    if (extras.builders.empty()) extras.builders.push_back(&executor);
    if (!extras.crash) extras.crash = abort_here;
    world_.reset(new SinkWorld{.unit = *settings_.environment,
                               .node = settings_.node,
                               .tenant = std::string(kDefaultTenant),
                               .version = version_,
                               .executor = executor,
                               .builders = std::move(extras.builders),
                               .random = random,
                               .log = log_,
                               .calls = calls_,
                               .store = *store_calls_,
                               .shared = node_,
                               .board = board_,
                               .crash = std::move(extras.crash),
                               .line = {},
                               .give_back = GiveBack(settings_.node.lease_ttl_us),
                               .limit = {}});
    unit_ = std::make_unique<SinkUnit>(*world_);
  }

  void start() override {
    executor_.post([this] { begin(); });
  }

  void drain(UniqueFunction<void()> done) override {
    executor_.post([this, done = std::move(done)]() mutable {
      drained_ = std::move(done);
      if (unit_) unit_->stop();
      if (!running_) return finish("stopped");
      executor_.post_after(settings_.node.shutdown_grace_us, [this] {
        if (!drained_) return;
        log_.warn("not stopped inside the grace", {{"grace_ms", settings_.node.shutdown_grace_us / 1000}});
        finish("running");
      });
    });
  }

  std::string status_json() const override {
    std::string out =
        fmt::format(R"({{"mode":"in-process","phase":"{}","threads":{},"controlPlane":{{"error":null}},)",
                    phase(), settings_.node.threads);
    out += R"("sinks":[)";
    if (settings_.environment) {
      const std::int64_t now = executor_.clock().mono_us();
      const UnitState unit{.tenant = std::string(kDefaultTenant),
                           .phase = phase(),
                           .uptime_us = now - started_us_,
                           .version = version_};
      out += unit_json(unit, *settings_.environment, settings_.node, board_.snapshot(now));
    }
    return out + "]}";
  }

  bool healthy() const override {
    const StatusBoard::Snapshot now = board_.snapshot(executor_.clock().mono_us());
    return now.health.ok && now.bucket.reachable.value_or(true);
  }

 private:
  void begin() {
    log_.info("sink_started",
              {{"threads", settings_.node.threads}, {"environment", settings_.environment.has_value()}});
    for (const std::string& name : settings_.ignored) log_.warn("variable_ignored", {{"name", name}});
    if (settings_.node.crash_at != CrashPoint::never)
      log_.warn("crash_point_armed", {{"name", name_of(settings_.node.crash_at)}});
    set_phase("running");
    if (!unit_ || unit_->stopping()) return;
    log_.info(start_line(*settings_.environment, settings_.node, kDefaultTenant, version_));
    running_ = true;
    spawn(executor_, unit_->run(), [this] {
      running_ = false;
      set_phase("stopped");
      finish("stopped");
    });
  }

  void finish(const char* phase) {
    set_phase(phase);
    if (!drained_) return;
    auto done = std::exchange(drained_, nullptr);
    done();
  }

  std::string phase() const {
    const std::lock_guard lock(mutex_);
    return phase_;
  }
  void set_phase(const char* phase) {
    const std::lock_guard lock(mutex_);
    phase_ = phase;
  }

  SinkSettings settings_;
  std::unique_ptr<BrokerPort> owned_port_;
  std::unique_ptr<s3::ObjectStore> store_;
  Executor& executor_;
  Logger log_;
  std::string version_;
  std::int64_t started_us_;
  BrokerCalls calls_;
  SinkNode node_;
  StatusBoard board_;
  std::unique_ptr<StoreCalls> store_calls_;
  std::unique_ptr<SinkWorld> world_;
  std::unique_ptr<SinkUnit> unit_;
  bool running_ = false;            // on the executor
  UniqueFunction<void()> drained_;  // on the executor
  mutable std::mutex mutex_;        // guards phase_
  std::string phase_ = "starting";
};

}  // namespace

std::unique_ptr<SinkManager> make_sink(SinkSettings settings, BrokerPort& port,
                                       std::unique_ptr<s3::ObjectStore> store, Executor& executor,
                                       Random& random, Logger log, std::string version, SinkExtras extras) {
  return std::make_unique<Manager>(std::move(settings), port, nullptr, std::move(store), executor, random,
                                   std::move(log), std::move(version), std::move(extras));
}

std::unique_ptr<SinkManager> make_sink(SinkSettings settings, broker::Broker& broker,
                                       std::unique_ptr<s3::ObjectStore> store, Executor& executor,
                                       Random& random, Logger log, std::string version, SinkExtras extras) {
  auto port = make_broker_port(broker, std::string(kDefaultTenant), executor.clock(), random);
  BrokerPort& borrowed = *port;
  return std::make_unique<Manager>(std::move(settings), borrowed, std::move(port), std::move(store), executor,
                                   random, std::move(log), std::move(version), std::move(extras));
}

}  // namespace queen::sink

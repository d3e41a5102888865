#include "sink/sink.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/text.h"
#include "sink/metrics.h"
#include "sink/tenant_sinks.h"

namespace queen::sink {
namespace {

void abort_here(CrashPoint /*point*/) {
  std::abort();
}

HostParts host_parts(const SinkSettings& settings, SinkParts& parts, SinkNode& shared, Executor& executor,
                     Random& random, const Logger& log, std::string version) {
  if (parts.builders.empty()) parts.builders.push_back(&executor);
  if (!parts.crash) parts.crash = abort_here;
  return {.node = settings.node,
          .version = std::move(version),
          .executor = executor,
          .builders = std::move(parts.builders),
          .random = random,
          .log = log,
          .shared = shared,
          .crash = std::move(parts.crash),
          .broker = std::move(parts.broker),
          .store = std::move(parts.store)};
}

class Manager final : public SinkManager {
 public:
  Manager(SinkSettings settings, SinkParts parts, Executor& executor, Random& random, Logger log,
          std::string version)
      : settings_(std::move(settings)),
        executor_(executor),
        log_(log.with_target("queen-s3")),
        shared_(executor, settings_.node.memory_bytes),
        parts_(host_parts(settings_, parts, shared_, executor, random, log_, std::move(version))),
        units_(executor) {
    if (settings_.environment)
      environment_ = std::make_unique<HostedUnit>(
          parts_, UnitOwner{.tenant = std::string(kDefaultTenant), .source = "env", .cluster = ""},
          *settings_.environment);
    if (parts.control_plane != nullptr)
      tenants_ = std::make_unique<TenantSinks>(parts_, *parts.control_plane, parts.cipher);
  }

  void start() override {
    executor_.post([this] { begin(); });
  }

  void drain(UniqueFunction<void()> done) override {
    executor_.post([this, done = std::move(done)]() mutable {
      drained_ = std::move(done);
      if (environment_) environment_->stop();
      if (tenants_) tenants_->stop();
      if (!running_) return finish("stopped");
      executor_.post_after(settings_.node.shutdown_grace_us, [this] {
        if (!drained_) return;
        log_.warn("not stopped inside the grace", {{"grace_ms", settings_.node.shutdown_grace_us / 1000}});
        finish("running");
      });
    });
  }

  std::string status_json() const override {
    const std::string error = tenants_ ? tenants_->error() : std::string();
    std::string out = fmt::format(
        R"({{"mode":"in-process","phase":"{}","threads":{},"controlPlane":{{"error":{}}},"sinks":[)", phase(),
        settings_.node.threads, error.empty() ? "null" : json_string(error));
    bool first = true;
    each_unit([&](const HostedUnit& unit) {
      if (!first) out += ',';
      first = false;
      out += unit.status_json();
    });
    return out + "]}";
  }

  std::string metrics_text() const override {
    SinkQueues running;
    each_unit([&](const HostedUnit& unit) { running[unit.tenant()] = unit.running_queues(); });
    return sink::metrics_text(shared_.metrics.snapshot(), running, shared_.memory.total(),
                              executor_.clock().wall_us());
  }

  bool healthy() const override {
    bool healthy = true;
    each_unit([&](const HostedUnit& unit) { healthy = healthy && unit.healthy(); });
    return healthy;
  }

 private:
  void begin() {
    log_.info("sink_started",
              {{"threads", settings_.node.threads}, {"environment", settings_.environment.has_value()}});
    if (!settings_.ignored.empty())
      log_.warn("variables_ignored", {{"names", fmt::format("{}", fmt::join(settings_.ignored, ", "))}});
    if (settings_.node.crash_at != CrashPoint::never)
      log_.warn("crash_point_armed", {{"name", name_of(settings_.node.crash_at)}});
    set_phase("running");
    if (!environment_ && !tenants_) return;
    running_ = true;
    spawn(executor_, run_all(), [this] {
      running_ = false;
      finish("stopped");
    });
  }

  Task<void> run_all() {
    if (environment_) units_.start(environment_->run());
    if (tenants_) units_.start(tenants_->run());
    co_await units_.all_ended();
  }

  // The environment's first, then the tenants in their order.
  void each_unit(const std::function<void(const HostedUnit&)>& look) const {
    if (environment_) look(*environment_);
    if (tenants_) tenants_->visit(look);
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
  Executor& executor_;
  Logger log_;
  SinkNode shared_;
  HostParts parts_;
  TaskGroup units_;
  std::unique_ptr<HostedUnit> environment_;
  std::unique_ptr<TenantSinks> tenants_;
  bool running_ = false;            // on the executor
  UniqueFunction<void()> drained_;  // on the executor
  mutable std::mutex mutex_;        // guards phase_
  std::string phase_ = "starting";
};

}  // namespace

std::unique_ptr<SinkManager> make_sink(SinkSettings settings, SinkParts parts, Executor& executor,
                                       Random& random, Logger log, std::string version) {
  return std::make_unique<Manager>(std::move(settings), std::move(parts), executor, random, std::move(log),
                                   std::move(version));
}

}  // namespace queen::sink

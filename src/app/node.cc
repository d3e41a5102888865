#include "app/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "app/version.h"
#include "ops/ops.h"
#include "s3/object_store.h"
#include "sink/broker_adapter.h"

namespace queen::app {
namespace {

// Waits for one event that another thread sets.
class Event {
 public:
  void set() {
    std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  bool wait_for_us(std::int64_t us) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::microseconds(std::max<std::int64_t>(us, 0)),
                             [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

constexpr std::int64_t kHttpDrainUs = 60'000'000;  // the longest deadline that a call can have

}  // namespace

Node::Node(NodeSettings settings, Clock& clock, Random& random, LogSink& log)
    : settings_(std::move(settings)),
      clock_(clock),
      random_(random),
      log_sink_(log),
      boot_(log, "boot"),
      shutdown_(log, "shutdown"),
      descriptors_(clock, settings_.descriptors_max),
      disk_(disk::make_posix_disk(settings_.sync_delay_us)) {}

Node::~Node() {
  if (server_) server_->stop();
}

Status Node::start() {
  if (auto status = listen(); !status) return status;
  if (auto status = open_broker(); !status) return status;
  start_sink();
  serve();
  return {};
}

// The port opens early: whoever asks while the log is replayed is told so (HD-32).
Status Node::listen() {
  auto server = http::Server::listen(settings_.http, clock_, Logger(log_sink_, "http"),
                                     ops::starting_routes([this] { return progress_.load(); }));
  if (!server) return std::move(server).error();
  server_ = std::move(*server);
  return {};
}

Status Node::open_broker() {
  settings_.broker.meter.process = &process_;
  auto opened = broker::Broker::open(settings_.broker, *disk_, clock_, random_, Logger(log_sink_, "rsm"),
                                     [this](double share) { progress_ = share; });
  if (!opened) return std::move(opened).error();
  broker_ = std::move(*opened);
  return {};
}

void Node::start_sink() {
  if (!settings_.sink) return;
  const sink::NodeSettings& node = settings_.sink->node;
  Logger log(log_sink_, "queen-s3");
  sink_executor_ = std::make_unique<ThreadExecutor>("queen-s3", clock_);
  sink::SinkParts parts;
  for (int i = 0; i < node.threads; ++i) {
    builders_.push_back(std::make_unique<ThreadExecutor>(fmt::format("queen-s3-b{}", i), clock_));
    parts.builders.push_back(builders_.back().get());
  }
  parts.broker = [this](const std::string& tenant) {
    return sink::make_broker_port(*broker_, tenant, clock_, random_);
  };
  const auto cap = std::make_shared<s3::RequestCap>(s3::kNodeRequestsMax);
  parts.store = [this, log, cap](s3::ClientSettings client) {
    client.ca_file = settings_.ca_file;
    client.node_cap = cap;
    return s3::make_s3_client(std::move(client), clock_, random_, log);
  };
  sink_ = sink::make_sink(*settings_.sink, std::move(parts), *sink_executor_, random_, log,
                          std::string(kVersion));
  sink_->start();
}

// On a thread of its own: a trim takes as long as the heap is large.
void Node::watch_heap() {
  heap_.tick();
  keeper_->post_after(HeapTrim::kEveryUs, [this] { watch_heap(); });
}

void Node::serve() {
  keeper_ = std::make_unique<ThreadExecutor>("queen-keeper", clock_);
  keeper_->post([this] { watch_heap(); });
  api_timers_ = std::make_unique<ThreadExecutor>("queen-calls", clock_);
  auto routes = std::make_shared<http::Routes>();
  api::ApiSettings api = settings_.api;
  api.version = kVersion;
  api.port = server_->port();
  release_ephemeral_ = api::add_routes(*routes, *broker_, clock_, random_, *api_timers_, std::move(api),
                                       Logger(log_sink_, "api"));
  ops::Additions additions;
  additions.s3_status = [this] { return sink_ ? sink_->status_json() : std::string(); };
  additions.metrics = [this] { return sink_ ? sink_->metrics_text() : std::string(); };
  additions.warnings = [this](auto& warnings) {
    if (auto text = descriptors_.warning()) warnings.emplace_back("descriptors", std::move(*text));
  };
  ops::add_routes(*routes, *broker_, std::string(kVersion), std::move(additions));
  server_->set_routes(std::move(routes));
  boot_.info("ready", {{"address", settings_.http.bind_address},
                       {"port", server_->port()},
                       {"directory", settings_.broker.directory}});
}

void Node::stop() {
  const std::int64_t signal_at = clock_.mono_us();
  shutdown_.info("stopping");
  if (keeper_) keeper_->stop();
  const auto sink_drained = std::make_shared<Event>();
  if (sink_) sink_->drain([sink_drained] { sink_drained->set(); });
  drain_http();
  if (sink_) {
    // It calls back within its grace; the rest is for a slow machine.
    sink_drained->wait_for_us(signal_at + settings_.sink->node.shutdown_grace_us + 5'000'000 -
                              clock_.mono_us());
    sink_executor_->stop();
    for (auto& builder : builders_) builder->stop();
  }
  server_->stop();  // before what its handlers use
  broker_->stop();
  sink_.reset();
  api_timers_->stop();
  shutdown_.info("stopped", {{"ms", (clock_.mono_us() - signal_at) / 1000}});
}

// Parked pops answer at once; what is owed is answered; then the listener's connections close.
void Node::drain_http() {
  const auto drained = std::make_shared<Event>();  // the server may call back after the wait has ended
  server_->drain(kHttpDrainUs, [drained] { drained->set(); });
  broker_->release_parked();
  if (release_ephemeral_) release_ephemeral_();
  drained->wait_for_us(kHttpDrainUs + 1'000'000);
}

}  // namespace queen::app

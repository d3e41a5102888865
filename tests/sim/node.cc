#include "node.h"

#include "base/invariant.h"
#include "sink/broker_adapter.h"

namespace queen::sim {
namespace {

constexpr std::uint64_t kStopStepsMax = 20'000'000;

}  // namespace

SimNode::~SimNode() {
  if (!up()) return;
  place_.disk.power_off_after(0);
  take_down();
}

store::CheckpointHome& SimNode::checkpoint_home(bool lmdb) {
  if (!lmdb) return checkpoints_;
  if (!home_) home_ = std::make_unique<StoreHome>(place_.disk, Logger(log_, "store"));
  return *home_;
}

void SimNode::take_store(const StoreHome& other) {
  INVARIANT(lives_ == 0, "the store comes before the first life");
  home_ = std::make_unique<StoreHome>(place_.disk, Logger(log_, "store"));
  home_->take_copy(other);
}

Status SimNode::boot(const NodePlan& plan) {
  INVARIANT(!up(), "a node boots once at a time");
  ++lives_;
  place_.story.note("world", "boot, life {}", lives_);
  living_ = std::make_shared<bool>(true);
  alive_ = living_;
  random_ = std::make_unique<SeededRandom>(place_.world.dice().next());
  process_ = std::make_unique<Process>(place_.world, place_.clock, plan.weights);
  calls_ = process_->thread("http");
  broker::Settings settings = plan.broker;
  settings.directory = kDataDirectory;
  settings.executors = process_.get();
  settings.checkpoint_home = &checkpoint_home(plan.lmdb);
  settings.cipher = plan.cipher;
  auto opened =
      broker::Broker::open(std::move(settings), place_.disk, place_.clock, *random_, Logger(log_, "rsm"), {});
  if (!opened) {
    *living_ = false;
    calls_.reset();
    process_.reset();
    return opened.error();
  }
  broker_ = std::move(*opened);
  for (int i = 0; plan.sink && i < plan.sinks; ++i) start_sink(plan, i);
  return {};
}

void SimNode::start_sink(const NodePlan& plan, int number) {
  Sink made;
  made.lane = std::make_unique<SimExecutor>(place_.world, place_.clock, fmt::format("queen-s3-{}", number));
  made.builder =
      std::make_unique<SimExecutor>(place_.world, place_.clock, fmt::format("queen-s3-b-{}", number));
  sink::SinkSettings settings = *plan.sink;
  settings.node.instance = fmt::format("node-{}@sim", number + 1);
  sink::SinkParts parts;
  parts.builders.push_back(made.builder.get());
  parts.broker = [this](const std::string& tenant) {
    return sink::make_broker_port(*broker_, tenant, place_.clock, *random_);
  };
  parts.store = [this](const s3::ClientSettings&) {
    return make_bucket_way(place_.world, place_.bucket, place_.network, alive_);
  };
  if (plan.tenant_sinks) {
    made.proxy = sink::make_broker_port(*broker_, std::string(sink::kProxyTenant), place_.clock, *random_);
    made.rows = sink::make_kv_control_plane(*made.proxy, *made.lane, [](const std::string& cluster) {
      return sink::ClusterStanding{cluster, sink::Standing::active, sink::Standing::active};
    });
    parts.control_plane = made.rows.get();
    parts.cipher = plan.cipher;
  }
  made.manager = sink::make_sink(std::move(settings), std::move(parts), *made.lane, *random_,
                                 Logger(log_, "queen-s3"), "0.0.0");
  made.manager->start();
  sinks_.push_back(std::move(made));
}

void SimNode::freeze_sink(std::size_t number, std::int64_t us) {
  if (number >= sinks_.size()) return;
  for (const auto& lane : {sinks_[number].lane->shared_lane(), sinks_[number].builder->shared_lane()})
    lane->frozen_until = place_.world.now_us() + us;
}

std::int64_t SimNode::safe_time_us() {
  return broker_->changed(std::string(kDefaultTenant), {}).safe_time_us;
}

// In the order of app::Node::stop().
void SimNode::stop() {
  INVARIANT(up(), "a node stops once");
  place_.story.note("world", "graceful stop");
  std::size_t draining = sinks_.size();
  for (auto& sink : sinks_) sink.manager->drain([&draining] { --draining; });
  broker_->release_parked();
  INVARIANT(place_.world.run_until([&] { return draining == 0; }, kStopStepsMax), "the sink does not drain");
  take_down();
  place_.story.note("world", "stopped");
}

void SimNode::kill(PowerLoss loss) {
  place_.disk.power_off_after(0);
  place_.story.note("world", "power loss");
  if (up()) take_down();
  if (loss == PowerLoss::clean) place_.disk.crash();
  if (loss == PowerLoss::torn) place_.disk.crash_torn(place_.world.dice().random());
  if (loss == PowerLoss::careless) place_.disk.crash_any(place_.world.dice().random());
}

void SimNode::take_down() {
  *living_ = false;
  for (auto& sink : sinks_) {
    sink.lane->stop();
    sink.builder->stop();
  }
  broker_->stop();
  calls_->stop();
  sinks_.clear();
  broker_.reset();
  calls_.reset();
  process_.reset();
}

}  // namespace queen::sim

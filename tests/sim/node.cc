#include "node.h"

#include "base/invariant.h"

namespace queen::sim {
namespace {

constexpr std::uint64_t kStopStepsMax = 20'000'000;

}  // namespace

SimNode::~SimNode() {
  if (!up()) return;
  place_.disk.power_off_after(0);
  take_down();
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
  settings.directory = "/data";
  settings.executors = process_.get();
  settings.checkpoint_home = &checkpoints_;
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
  if (plan.sink) start_sink(plan);
  return {};
}

void SimNode::start_sink(const NodePlan& plan) {
  sink_lane_ = process_->thread("queen-s3");
  builder_ = process_->thread("queen-s3-b0");
  sink::SinkExtras extras;
  extras.builders.push_back(builder_.get());
  auto way = make_bucket_way(place_.world, place_.bucket, place_.network, alive_);
  sink_ = sink::make_sink(*plan.sink, *broker_, std::move(way), *sink_lane_, *random_, Logger(log_, "queen-s3"),
                          "0.0.0", std::move(extras));
  sink_->start();
}

std::int64_t SimNode::safe_time_us() {
  return broker_->changed(std::string(kDefaultTenant), {}).safe_time_us;
}

// In the order of app::Node::stop().
void SimNode::stop() {
  INVARIANT(up(), "a node stops once");
  place_.story.note("world", "graceful stop");
  bool drained = sink_ == nullptr;
  if (sink_) sink_->drain([&drained] { drained = true; });
  broker_->release_parked();
  INVARIANT(place_.world.run_until([&] { return drained; }, kStopStepsMax), "the sink does not drain");
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
  if (sink_lane_) sink_lane_->stop();
  if (builder_) builder_->stop();
  broker_->stop();
  calls_->stop();
  sink_.reset();
  broker_.reset();
  sink_lane_.reset();
  builder_.reset();
  calls_.reset();
  process_.reset();
}

}  // namespace queen::sim

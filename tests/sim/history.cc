#include "history.h"

#include <algorithm>
#include <memory>

#include "base/invariant.h"
#include "offline.h"
#include "sink_text.h"
#include "sink_watch.h"

namespace queen::sim {
namespace {

constexpr std::uint64_t kStepsMax = 30'000'000;        // of one history: more is a loop
constexpr std::int64_t kDrainUsMax = 300 * kSecondUs;  // within which everything ends once the faults have
constexpr int kBootsMax = 20;
constexpr const char* kKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

class History {
 public:
  History(const HistoryPlan& plan, Story::Keep keep)
      : plan_(plan),
        world_(plan.seed ^ plan.salt << 48),
        story_(world_, keep),
        clock_(world_, plan.drift_ppm) {
    if (plan_.encrypted) cipher_ = std::move(*auth::PayloadCipher::from_hex(kKey));
    plan_.node.cipher = cipher_.get();
    scene_.cipher = cipher_.get();
    scene_.seed = plan_.seed;
    network_.faults = plan_.network;
    bucket_.faults = plan_.bucket;
    std::stable_sort(plan_.faults.begin(), plan_.faults.end(),
                     [](const Fault& one, const Fault& other) { return one.at_us < other.at_us; });
  }

  Verdict run(std::size_t story_lines);

 private:
  void make_workloads();
  void play();
  void settle();
  void step_until(const std::function<bool()>& done, std::int64_t until_us);
  void look_after_node();
  void kill(PowerLoss loss);
  void look_offline(std::string_view when);
  bool boot();
  void begin(const Fault& fault);
  void end_of(std::int64_t us, std::function<void()> undo) {
    undo_.emplace(world_.now_us() + us, std::move(undo));
  }
  void undo_due(std::int64_t now);
  void judge();

  HistoryPlan plan_;
  World world_;
  Story story_;
  SimClock clock_;
  SimClock outside_clock_{world_, 0};
  SimExecutor network_lane_{world_, outside_clock_, "network"};
  SimExecutor client_lane_{world_, outside_clock_, "clients"};
  disk::RamDisk disk_;
  SimBucket bucket_;
  Network network_{world_, network_lane_};
  SimNode node_{{world_, network_lane_, disk_, bucket_, clock_, story_}};
  Ledger ledger_{story_};
  Cursors cursors_{story_};
  std::unique_ptr<auth::PayloadCipher> cipher_;
  ClientWorld clients_{world_, network_, node_, client_lane_, story_};
  Scene scene_{world_, clients_, node_, bucket_,  story_, ledger_, cursors_,
               0,      nullptr,  false, kNodeEnd, 0,      0};
  std::vector<std::unique_ptr<Workload>> workloads_;
  std::multimap<std::int64_t, std::function<void()>> undo_;
  PowerLoss loss_ = PowerLoss::clean;            // of the next power loss
  std::optional<std::uint64_t> boot_power_off_;  // changes of the next boot after which the power goes
  std::int64_t boot_at_us_ = 0;
  int boots_refused_ = 0;
  bool faulty_ = true;  // boots may fail for what was done to the disk
};

void History::begin(const Fault& fault) {
  story_.note("fault", "{}", to_string(fault));
  switch (fault.kind) {
    case Fault::Kind::power_twice:
      boot_power_off_ = fault.count;
      [[fallthrough]];
    case Fault::Kind::power:
      loss_ = static_cast<PowerLoss>(fault.flavour % 3);
      disk_.power_off_after(fault.count);
      break;
    case Fault::Kind::stop:
      if (node_.up()) node_.stop();
      look_offline("after a stop");
      clients_.reset_connections();
      boot_at_us_ = world_.now_us() + 10 * kMsUs;
      break;
    case Fault::Kind::freeze:
      if (node_.up()) node_.process().freeze(fault.us);
      break;
    case Fault::Kind::sink_freeze:
      if (node_.up()) node_.freeze_sink(fault.flavour, fault.us);
      break;
    case Fault::Kind::clock:
      clock_.jump_wall(fault.us);
      break;
    case Fault::Kind::disk_full:
      disk_.set_free_bytes(fault.count);
      end_of(fault.us, [this] { disk_.set_free_bytes(std::nullopt); });
      break;
    case Fault::Kind::disk_error:
      disk_.fail(static_cast<disk::RamOp>(fault.flavour), fault.count, Errc::unavailable, 5);
      break;
    case Fault::Kind::network:
      network_.faults = {50, kSecondUs, 20, 0, 10};
      end_of(fault.us, [this] { network_.faults = plan_.network; });
      break;
    case Fault::Kind::cut:
      for (std::uint32_t end = 1; end <= scene_.ends_given; ++end) network_.cut(kNodeEnd, end);
      end_of(fault.us, [this] { network_.heal(); });
      break;
    case Fault::Kind::bucket:
      bucket_.faults = {2 * kSecondUs, 5, 30, 15, 10};
      end_of(fault.us, [this] { bucket_.faults = plan_.bucket; });
      break;
  }
}

void History::undo_due(std::int64_t now) {
  while (!undo_.empty() && undo_.begin()->first <= now) {
    const auto undo = std::move(undo_.begin()->second);
    undo_.erase(undo_.begin());
    undo();
  }
}

bool History::boot() {
  const auto changes = std::exchange(boot_power_off_, std::nullopt);
  if (changes) disk_.power_off_after(*changes);
  const std::size_t failures = disk_.failures_left();
  const auto booted = node_.boot(plan_.node);
  if (booted) {
    boots_refused_ = 0;
    return true;
  }
  story_.note("world", "boot refused: {}", booted.error().what);
  // The power went, the disk was full or failed, or it stood in the way of what it did before.
  const bool failed = node_.dark() || disk_.failures_left() < failures;
  if (!failed && (!faulty_ || booted.error().code == Errc::corrupt))
    story_.violate("boot refuses damage alone", "{}", booted.error().what);
  if (++boots_refused_ > kBootsMax) story_.violate("a node comes back", "{}", booted.error().what);
  return false;
}

void History::look_offline(std::string_view when) {
  if (plan_.node.lmdb && node_.home() != nullptr) expect_sound(story_, disk_, *node_.home(), clock_, when);
}

void History::kill(PowerLoss loss) {
  node_.kill(loss);
  look_offline("after a loss of power");
  clients_.reset_connections();
}

// As whoever starts it again: it boots when it is down, and is ended when it takes no more writes.
void History::look_after_node() {
  if (node_.dark()) {
    kill(loss_);
    boot_at_us_ = world_.now_us() + world_.dice().between(kMsUs, 300 * kMsUs);
  }
  if (node_.up() && world_.steps() % 32 == 0) {
    if (const auto health = node_.broker().health(); !health.stopped_cause.empty()) {
      story_.note("world", "the node takes no more writes: {}", health.stopped_cause);
      kill(PowerLoss::clean);
      boot_at_us_ = world_.now_us() + world_.dice().between(kMsUs, 300 * kMsUs);
    }
  }
  if (!node_.up() && world_.now_us() >= boot_at_us_ && !boot())
    boot_at_us_ = world_.now_us() + world_.dice().between(kMsUs, 300 * kMsUs);
}

void History::step_until(const std::function<bool()>& done, std::int64_t until_us) {
  while (!done() && !story_.failed() && world_.now_us() < until_us) {
    look_after_node();
    if (world_.steps() > kStepsMax) return story_.violate("progress", "{} steps and no end", world_.steps());
    if (!world_.step()) {
      if (node_.up()) return story_.violate("progress", "nothing is left to run");
      world_.pass(kMsUs);
    }
    undo_due(world_.now_us());
  }
}

// Of a node that runs sinks of tenants alone.
sink::SinkSettings quick_sink_node() {
  sink::SinkSettings out;
  out.node.memory_bytes = 1ULL << 20;
  out.node.discovery_interval_us = 200 * kMsUs;
  out.node.safe_guard_us = 100 * kMsUs;
  out.node.lease_ttl_us = 3 * kSecondUs;
  out.node.checkpoint_every = 2;
  out.node.shutdown_grace_us = 5 * kSecondUs;
  return out;
}

// The lake is the last: what the others pushed is its work.
void History::make_workloads() {
  if (!plan_.messages.queues.empty()) workloads_.push_back(make_messages(scene_, plan_.messages));
  make_state_workloads(scene_, plan_.state, workloads_);
  if (plan_.state.desk) plan_.node.broker.traces.retention_us = plan_.state.desk->trace_retention_us;
  if (plan_.tenants) {
    plan_.node.tenant_sinks = true;
    plan_.node.sink = quick_sink_node();
    workloads_.push_back(make_tenants(scene_, *plan_.tenants));
  }
  if (plan_.tenants || plan_.lake.sink) workloads_.push_back(make_sink_watch(scene_));
  if (!plan_.lake.sink) return;
  plan_.node.sink = through_variables(story_, *plan_.lake.sink, plan_.sink_mistake);
  workloads_.push_back(make_lake(scene_, plan_.lake));
}

void History::play() {
  look_after_node();
  for (const auto& workload : workloads_) workload->start();
  for (const auto& fault : plan_.faults) {
    step_until([] { return false; }, std::min(fault.at_us, plan_.active_us));
    if (story_.failed()) return;
    begin(fault);
  }
  step_until([] { return false; }, plan_.active_us);
}

// No more faults: everything comes to its end, soon.
void History::settle() {
  faulty_ = false;
  if (disk_.changes_left()) {  // the power was to go, and has not
    node_.kill(loss_);
    look_offline("after the last loss of power");
    boot_at_us_ = world_.now_us();
  }
  boot_power_off_.reset();
  undo_due(INT64_MAX);
  disk_.forget_failures();
  network_.faults = {};
  bucket_.faults = {};
  scene_.quiet = true;
  story_.note("world", "quiet");
  const auto all_ended = [this] {
    return node_.up() &&
           std::all_of(workloads_.begin(), workloads_.end(), [](const auto& one) { return one->ended(); });
  };
  step_until(all_ended, world_.now_us() + kDrainUsMax);
  if (!story_.failed() && !all_ended()) story_.violate("progress", "clients have not ended");
  for (const auto& workload : workloads_) {
    if (story_.failed()) return;
    workload->drain();
    step_until(all_ended, world_.now_us() + kDrainUsMax);
    if (!story_.failed() && !all_ended()) story_.violate("progress", "{} not drained", workload->name());
  }
}

void History::judge() {
  ledger_.check(node_);
  for (const auto& workload : workloads_) {
    if (story_.failed()) return;
    workload->check();
  }
}

Verdict History::run(std::size_t story_lines) {
  make_workloads();
  play();
  if (!story_.failed()) settle();
  if (!story_.failed()) judge();
  if (!story_.failed()) {
    node_.stop();
    if (boot()) {
      story_.note("world", "a last look");
      judge();
    } else {
      story_.violate("a node comes back", "after a graceful stop");
    }
  }
  if (plan_.damage && !story_.failed()) {
    node_.stop();
    look_offline("at the end");
    if (!story_.failed()) judge_damage(*plan_.damage, plan_.node, node_, ledger_);
  }
  for (const auto& [path, bytes] : disk_.files()) world_.mix(path + bytes);
  for (const auto& [key, bytes] : bucket_.objects()) world_.mix(key + *bytes);
  Verdict verdict;
  verdict.digest = world_.digest();
  verdict.rule = story_.rule();
  verdict.what = story_.what();
  if (story_.keeps()) verdict.story = story_.tail(story_lines);
  verdict.steps = world_.steps();
  verdict.lives = node_.lives();
  verdict.messages = ledger_.messages();
  verdict.calls = scene_.calls;
  verdict.answers = scene_.answers;
  verdict.virtual_us = world_.now_us();
  return verdict;
}

}  // namespace

Verdict run_history(const HistoryPlan& plan, Story::Keep keep, std::size_t story_lines) {
  History history(plan, keep);
  return history.run(story_lines);
}

}  // namespace queen::sim

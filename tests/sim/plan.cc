#include "plan.h"

#include <algorithm>
#include <array>

namespace queen::sim {
namespace {

using Kind = Fault::Kind;

broker::Settings broker_settings(Dice& dice) {
  broker::Settings out;
  out.logs.segment_bytes = dice.pick<std::uint64_t>({2048, 4096, 16384, 65536, 1ULL << 20});
  out.logs.layout_if_new.shards = dice.pick<std::uint32_t>({0, 0, 1, 3});
  out.logs.layout_if_new.lanes = dice.pick<std::uint32_t>({1, 1, 2, 4});
  out.logs.entry_copies = dice.chance(25);
  out.logs.precreate = dice.chance(50);
  out.logs.prealloc_bytes = dice.pick<std::uint64_t>({0, 0, 4096});
  out.logs.prealloc_min_syncs = dice.pick<std::uint32_t>({0, 4});
  out.logs.fd_cache = dice.pick<std::uint32_t>({0, 2, 256});
  out.logs.directories = dice.chance(70);
  out.durable_every_us = dice.pick({50 * kMsUs, 300 * kMsUs, kSecondUs, 3 * kSecondUs});
  out.durable_every_bytes = dice.pick<std::uint64_t>({4096, 1ULL << 28});
  out.batch_commands_max = static_cast<std::size_t>(dice.pick({1, 4, 4096}));
  out.batch_bytes_max = dice.pick<std::uint64_t>({2048, 4ULL << 20});
  out.pipeline = static_cast<std::size_t>(dice.pick({1, 2, 8}));
  out.zstd_level = dice.pick({0, 1});
  out.scrub_every_us = dice.pick<std::int64_t>({0, 3 * kSecondUs});
  out.disk_check_us = 500 * kMsUs;
  out.retention.interval_us = dice.pick({kSecondUs, 5 * kSecondUs});
  out.retention.batch_appends = static_cast<std::size_t>(dice.pick({1, 7, 1000}));
  out.retention.rows_window = dice.chance(70);
  out.retention.txn_window_min_us = kSecondUs;
  out.timers.tick_us = dice.pick({50 * kMsUs, 200 * kMsUs});
  out.upkeep.seal_age_us = dice.pick<std::int64_t>({0, kSecondUs, 600 * kSecondUs});
  if (dice.chance(40)) out.upkeep.min_dead_pct = dice.pick({0.0, 30.0});
  return out;
}

MessagesPlan messages_plan(Dice& dice, Size size, bool encrypted) {
  const bool small = size == Size::small;
  MessagesPlan out;
  const std::int64_t queues = small ? dice.pick({1, 1, 2}) : dice.between(1, 4);
  for (std::int64_t i = 0; i < queues; ++i) {
    MessageQueuePlan queue;
    queue.name = fmt::format("q{}", i);
    queue.partitions = small ? dice.pick({1, 2, 3}) : dice.pick({1, 3, 8, 30});
    queue.consumers = small ? dice.pick({0, 1, 2}) : dice.between(0, 4);
    queue.encrypted = encrypted && dice.chance(60);
    if (dice.chance(20)) queue.retention_seconds = dice.between(2, 6);
    queue.retry_limit = dice.pick({0, 1, 3});
    if (dice.chance(20)) queue.failing_pct = 70;
    if (queue.retention_seconds == 0 && dice.chance(12))
      queue.completed_retention_seconds = dice.between(1, 3);
    queue.dead_letters = dice.chance(75);
    out.queues.push_back(queue);
  }
  out.producers = small ? dice.pick({1, 2, 4}) : dice.between(1, 5);
  out.pushes = small ? dice.pick({2, 5, 10}) : dice.pick({10, 30, 100});
  out.pause_us_max = dice.pick({kMsUs, 50 * kMsUs, 400 * kMsUs});
  out.twins_pct = dice.pick<std::uint64_t>({0, 0, 30});
  return out;
}

sink::SinkSettings sink_settings(Dice& dice, const MessagesPlan& messages) {
  sink::SinkSettings out;
  sink::UnitSettings unit;
  for (const auto& queue : messages.queues)
    if (queue.in_bucket) unit.queues.push_back(queue.name);
  unit.endpoint = "http://bucket";
  unit.region = "r";
  unit.bucket = "lake";
  unit.access_key = unit.secret_key = "k";
  unit.kind.codec = dice.pick({lake::Codec::zstd, lake::Codec::gzip, lake::Codec::none});
  if (dice.chance(25))
    unit.kind = {lake::Format::parquet, dice.pick({lake::Codec::zstd, lake::Codec::snappy})};
  if (dice.chance(30)) unit.layout = sink::Layout::per_partition;
  unit.align = dice.pick({sink::Align::hour, sink::Align::hour, sink::Align::day, sink::Align::none});
  unit.start = dice.chance(80) ? sink::StartFrom::earliest : sink::StartFrom::latest;
  unit.target_bytes = dice.pick<std::uint64_t>({300, 3000, 1ULL << 20});
  unit.max_window_us = dice.pick({200 * kMsUs, kSecondUs, 3 * kSecondUs});
  out.environment = std::move(unit);
  out.node.memory_bytes = dice.pick<std::uint64_t>({2000, 1ULL << 29});
  out.node.fetch_concurrency = dice.pick({1, 2, 4});
  out.node.discovery_interval_us = dice.pick({50 * kMsUs, 300 * kMsUs, kSecondUs});
  out.node.safe_guard_us = dice.pick<std::int64_t>({0, 100 * kMsUs, kSecondUs});
  out.node.lease_ttl_us = dice.pick({kSecondUs, 3 * kSecondUs, 10 * kSecondUs});
  out.node.checkpoint_every = dice.pick<std::uint64_t>({1, 2, 5});
  out.node.shutdown_grace_us = dice.pick({kSecondUs, 10 * kSecondUs});
  out.node.instance = "node-1@sim";
  return out;
}

LakePlan lake_plan(Dice& dice, MessagesPlan& messages) {
  LakePlan out;
  messages.queues.front().in_bucket = true;
  for (auto& queue : messages.queues) {
    queue.in_bucket = queue.in_bucket || dice.chance(50);
    if (!queue.in_bucket) continue;
    queue.hold = queue.retention_seconds > 0 && dice.chance(50);
    if (queue.hold) out.held_queues.insert(queue.name);
    if (queue.retention_seconds + queue.completed_retention_seconds == 0)
      out.retained_queues.insert(queue.name);
  }
  out.sink = sink_settings(dice, messages);
  return out;
}

// Now and then a bucket so slow that retention is faster, or would be without a hold.
BucketFaults bucket_faults(Dice& dice, HistoryPlan& plan) {
  BucketFaults out;
  out.delay_us_max = dice.pick({kMsUs, 20 * kMsUs, 300 * kMsUs});
  const auto& queues = plan.messages.queues;
  const bool ages = std::any_of(queues.begin(), queues.end(), [](const auto& queue) {
    return queue.in_bucket && queue.retention_seconds > 0;
  });
  if (!ages || !dice.chance(60)) return out;
  out.slow_pct = 40;
  plan.active_us = 8 * kSecondUs;
  plan.messages.pause_us_max = 500 * kMsUs;
  plan.messages.pushes = 25;
  return out;
}

// Two sinks, one of which stands still for longer than its leases live, and goes on.
void share_queues(Dice& dice, HistoryPlan& plan) {
  plan.node.sinks = 2;
  plan.lake.sink->node.lease_ttl_us = kSecondUs;
  plan.active_us = std::max(plan.active_us, 4 * kSecondUs);
  plan.messages.pause_us_max = 400 * kMsUs;
  for (std::uint32_t i = 0; i < 3; ++i)
    plan.faults.push_back({Fault::Kind::sink_freeze, dice.between(0, plan.active_us), 0,
                           dice.between(kSecondUs, 3 * kSecondUs),
                           static_cast<std::uint32_t>(dice.below(2))});
}

Fault fault(Dice& dice, std::int64_t active_us) {
  Fault out;
  constexpr std::array kKinds = {Kind::power,   Kind::power,  Kind::power, Kind::power,     Kind::power_twice,
                                 Kind::stop,    Kind::freeze, Kind::clock, Kind::disk_full, Kind::disk_error,
                                 Kind::network, Kind::cut,    Kind::bucket};
  out.kind = kKinds[dice.below(kKinds.size())];
  out.at_us = dice.between(0, active_us);
  out.flavour = static_cast<std::uint32_t>(dice.below(3));
  out.us = dice.pick({100 * kMsUs, kSecondUs, 4 * kSecondUs});
  switch (out.kind) {
    case Kind::power:
    case Kind::power_twice:
      out.count = dice.below(dice.pick<std::uint64_t>({1, 10, 40, 150}));
      break;
    case Kind::clock:
      out.us = dice.pick({-3 * kSecondUs, -50 * kMsUs, 50 * kMsUs, 3 * kSecondUs, 600 * kSecondUs});
      break;
    case Kind::disk_full:
      out.count = dice.below(dice.pick<std::uint64_t>({1, 300, 5000}));
      break;
    case Kind::disk_error:
      out.count = 1 + dice.below(20);
      out.flavour = static_cast<std::uint32_t>(dice.pick({0, 1, 1, 2, 3, 3, 5, 8, 9, 11}));
      break;
    default:
      break;
  }
  return out;
}

// One history in 32 has the LMDB file of the program, every boot and every end of a life looked over by the
// offline check, and its disk damaged in the end.
void draw_store(std::uint64_t seed, HistoryPlan& plan) {
  Dice dice(seed, "store");
  if (dice.below(32) != 0) return;
  plan.node.lmdb = true;
  plan.node.broker.store_verify = dice.chance(50);
  plan.node.broker.store_verify_reads = dice.chance(30);
  plan.damage = draw_damage(dice);
}

// What only the variables and the client of the bucket see.
void draw_access(std::uint64_t seed, HistoryPlan& plan) {
  Dice dice(seed, "access");
  auto& unit = *plan.lake.sink->environment;
  unit.path_style = dice.chance(30);
  unit.sse = dice.pick({s3::Sse::off, s3::Sse::off, s3::Sse::aes256, s3::Sse::aws_kms});
  if (unit.sse == s3::Sse::aws_kms) unit.sse_kms_key_id = "arn:key/1234";
  if (dice.chance(25)) plan.sink_mistake = dice.next();
}

// Secrets of tenants are sealed, so that the node has a key.
void draw_tenant_sinks(std::uint64_t seed, Size size, HistoryPlan& plan) {
  Dice dice(seed, "tenants");
  if (!dice.chance(size == Size::small ? 2 : 8)) return;
  plan.tenants = draw_tenants(dice, size == Size::small);
  plan.encrypted = true;
  plan.active_us = std::max(plan.active_us, kSecondUs);
}

}  // namespace

std::string to_string(const Fault& fault) {
  constexpr std::array kNames = {"power",      "power_twice", "stop", "freeze", "clock",      "disk_full",
                                 "disk_error", "network",     "cut",  "bucket", "sink_freeze"};
  return fmt::format("{} at {} us (count {}, {} us, flavour {})",
                     kNames.at(static_cast<std::size_t>(fault.kind)), fault.at_us, fault.count, fault.us,
                     fault.flavour);
}

HistoryPlan make_plan(std::uint64_t seed, Size size) {
  Dice dice(seed, "plan");
  HistoryPlan out;
  out.seed = seed;
  const bool small = size == Size::small;
  out.node.broker = broker_settings(dice);
  if (dice.chance(50)) out.node.weights = dice.next();
  out.drift_ppm = dice.pick<std::int64_t>({0, 0, -300, 300});
  out.encrypted = dice.chance(30);
  out.messages = messages_plan(dice, size, out.encrypted);
  out.state = draw_state_plans(seed, small, out.encrypted);
  // A small history has time for one kind of use or two.
  if (small && out.state.any() && dice.chance(70)) out.messages.queues.clear();
  if (small && out.state.any_rare() && Dice(seed, "rare").chance(70)) out.messages.queues.clear();
  if (!out.messages.queues.empty() && dice.chance(small ? 35 : 60)) out.lake = lake_plan(dice, out.messages);
  out.active_us =
      small ? dice.pick({300 * kMsUs, kSecondUs, 3 * kSecondUs}) : dice.pick({5 * kSecondUs, 20 * kSecondUs});
  if (dice.chance(30))
    out.network = {50, 200 * kMsUs, dice.pick<std::uint64_t>({0, 2, 10}), 0,
                   dice.pick<std::uint64_t>({0, 5})};
  if (out.lake.sink) {
    out.bucket = bucket_faults(dice, out);
    if (dice.chance(25)) share_queues(dice, out);
    draw_access(seed, out);
  }
  const std::int64_t faults = small ? dice.pick({1, 1, 2}) : dice.between(0, 8);
  for (std::int64_t i = 0; i < faults; ++i) {
    out.faults.push_back(fault(dice, out.active_us));
    // What comes together makes the most of it: a full disk or a jumped clock, and a loss of power soon
    // behind.
    const Fault& last = out.faults.back();
    const bool pairs = last.kind == Kind::disk_full || last.kind == Kind::clock;
    if (!pairs || !dice.chance(50)) continue;
    Fault power{Kind::power, last.at_us + dice.between(kMsUs, 500 * kMsUs), dice.below(30), 0,
                static_cast<std::uint32_t>(dice.below(3))};
    out.faults.push_back(power);
  }
  draw_tenant_sinks(seed, size, out);
  draw_store(seed, out);
  return out;
}

}  // namespace queen::sim

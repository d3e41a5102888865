// What a history does: settings, clients and faults, all of it drawn from its seed and held as data, so that
// a failing history can be made smaller.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bucket.h"
#include "damage.h"
#include "lake.h"
#include "messages.h"
#include "network.h"
#include "node.h"
#include "state_plans.h"
#include "tenants.h"

namespace queen::sim {

struct Fault {
  enum class Kind : std::uint8_t {
    power,        // lost after `count` more changes of the disk; `flavour` a PowerLoss
    power_twice,  // and again while the node recovers, after `count` changes of the boot
    stop,         // a graceful stop
    freeze,       // nothing of the node runs for `us`
    clock,        // its wall clock jumps by `us`
    disk_full,    // no more than `count` bytes, for `us`
    disk_error,   // the `count`th call of kind `flavour` (a disk::RamOp) fails with EIO
    network,      // bad for `us`
    cut,          // the clients are cut off for `us`
    bucket,       // bad for `us`
    sink_freeze,  // nothing of the `flavour`th sink runs for `us`
  };
  Kind kind = Kind::power;
  std::int64_t at_us = 0;
  std::uint64_t count = 0;
  std::int64_t us = 0;
  std::uint32_t flavour = 0;
};
std::string to_string(const Fault& fault);

struct HistoryPlan {
  std::uint64_t seed = 0;
  std::uint64_t salt = 0;  // another order of events under the same plan
  NodePlan node;
  std::int64_t drift_ppm = 0;
  MessagesPlan messages;  // none without queues
  LakePlan lake;
  StatePlans state;
  std::optional<TenantsPlan> tenants;
  std::int64_t active_us = 5 * kSecondUs;  // while clients work and faults come
  bool encrypted = false;
  LinkFaults network;
  BucketFaults bucket;
  std::vector<Fault> faults;
  std::uint64_t sink_mistake = 0;    // in the settings of the sink: which one; 0 = none
  std::optional<DamagePlan> damage;  // done once everything was judged
};

// Small histories are for many seeds: one queue or two, a few calls, a crash or two.
enum class Size : std::uint8_t { small, large };
HistoryPlan make_plan(std::uint64_t seed, Size size);

}  // namespace queen::sim

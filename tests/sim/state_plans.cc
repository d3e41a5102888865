#include "state_plans.h"

namespace queen::sim {
namespace {

constexpr std::uint64_t kPercentSmall = 12, kPercentLarge = 40;
// Of what is used less.
constexpr std::uint64_t kPercentRareSmall = 5, kPercentRareLarge = 15;

}  // namespace

StatePlans draw_state_plans(std::uint64_t seed, bool small, bool encrypted) {
  StatePlans out;
  const auto draw = [&](std::string_view name, auto& plan, auto drawn) {
    Dice dice(seed, name);
    if (dice.chance(small ? kPercentSmall : kPercentLarge)) plan = drawn(dice, small, encrypted);
  };
  const auto draw_rarely = [&](std::string_view name, auto& plan, auto drawn) {
    Dice dice(seed, name);
    if (dice.chance(small ? kPercentRareSmall : kPercentRareLarge)) plan = drawn(dice, small, encrypted);
  };
  draw_rarely("attic", out.attic, draw_attic);
  draw_rarely("desk", out.desk, draw_desk);
  draw("keys", out.keys, draw_keys);
  draw("letters", out.letters, draw_letters);
  draw("locks", out.locks, draw_locks);
  draw("reborn", out.reborn, draw_reborn);
  draw_rarely("streams", out.streams, draw_streams);
  draw("timers", out.timers, draw_timers);
  draw("transactions", out.transactions, draw_transactions);
  return out;
}

void make_state_workloads(Scene& scene, const StatePlans& plans,
                          std::vector<std::unique_ptr<Workload>>& workloads) {
  if (plans.attic) workloads.push_back(make_attic(scene, *plans.attic));
  if (plans.desk) workloads.push_back(make_desk(scene, *plans.desk));
  if (plans.keys) workloads.push_back(make_keys(scene, *plans.keys));
  if (plans.letters) workloads.push_back(make_letters(scene, *plans.letters));
  if (plans.locks) workloads.push_back(make_locks(scene, *plans.locks));
  if (plans.reborn) workloads.push_back(make_reborn(scene, *plans.reborn));
  if (plans.streams) workloads.push_back(make_streams(scene, *plans.streams));
  if (plans.timers) workloads.push_back(make_timers(scene, *plans.timers));
  if (plans.transactions) workloads.push_back(make_transactions(scene, *plans.transactions));
}

}  // namespace queen::sim

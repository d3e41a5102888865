// Making a failing history smaller: fewer faults, fewer clients, fewer calls, plainer settings, still
// failing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan.h"

namespace queen::sim {

// Applies the steps in turn, each by its name; an empty string when all are known, else the name that is not.
// `salt=N` gives the same plan another order of events.
std::string apply_cuts(HistoryPlan& plan, const std::vector<std::string>& cuts);

// The names of the steps that `plan` still allows, the ones that cut most first.
std::vector<std::string> cuts_of(const HistoryPlan& plan);

// Tries steps until none leaves a failing history; gives those that were taken. `fails` runs a plan.
std::vector<std::string> shrink(const HistoryPlan& plan, const std::function<bool(const HistoryPlan&)>& fails,
                                int tries_max);

}  // namespace queen::sim

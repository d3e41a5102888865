#include "shrink.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace queen::sim {
namespace {

constexpr int kSalts = 4;  // a smaller plan runs in another order: a few of them are tried

struct Cut {
  const char* name;
  bool (*can)(const HistoryPlan&);
  void (*cut)(HistoryPlan&);
};

constexpr Cut kCuts[] = {
    {"no-encryption", [](const HistoryPlan& p) { return p.encrypted && !p.tenants; },
     [](HistoryPlan& p) {
       p.encrypted = false;
       for (auto& queue : p.messages.queues) queue.encrypted = false;
     }},
    {"no-sink", [](const HistoryPlan& p) { return p.lake.sink.has_value(); },
     [](HistoryPlan& p) { p.lake.sink.reset(); }},
    {"one-sink", [](const HistoryPlan& p) { return p.node.sinks > 1; },
     [](HistoryPlan& p) { p.node.sinks = 1; }},
    {"no-messages", [](const HistoryPlan& p) { return !p.messages.queues.empty() && !p.lake.sink; },
     [](HistoryPlan& p) { p.messages.queues.clear(); }},
    {"no-attic", [](const HistoryPlan& p) { return p.state.attic.has_value(); },
     [](HistoryPlan& p) { p.state.attic.reset(); }},
    {"no-desk", [](const HistoryPlan& p) { return p.state.desk.has_value(); },
     [](HistoryPlan& p) { p.state.desk.reset(); }},
    {"no-keys", [](const HistoryPlan& p) { return p.state.keys.has_value(); },
     [](HistoryPlan& p) { p.state.keys.reset(); }},
    {"no-letters", [](const HistoryPlan& p) { return p.state.letters.has_value(); },
     [](HistoryPlan& p) { p.state.letters.reset(); }},
    {"no-locks", [](const HistoryPlan& p) { return p.state.locks.has_value(); },
     [](HistoryPlan& p) { p.state.locks.reset(); }},
    {"no-reborn", [](const HistoryPlan& p) { return p.state.reborn.has_value(); },
     [](HistoryPlan& p) { p.state.reborn.reset(); }},
    {"no-streams", [](const HistoryPlan& p) { return p.state.streams.has_value(); },
     [](HistoryPlan& p) { p.state.streams.reset(); }},
    {"no-timers", [](const HistoryPlan& p) { return p.state.timers.has_value(); },
     [](HistoryPlan& p) { p.state.timers.reset(); }},
    {"no-transactions", [](const HistoryPlan& p) { return p.state.transactions.has_value(); },
     [](HistoryPlan& p) { p.state.transactions.reset(); }},
    {"no-damage", [](const HistoryPlan& p) { return p.damage.has_value(); },
     [](HistoryPlan& p) { p.damage.reset(); }},
    {"no-lmdb", [](const HistoryPlan& p) { return p.node.lmdb && !p.damage; },
     [](HistoryPlan& p) { p.node.lmdb = false; }},
    {"no-tenants", [](const HistoryPlan& p) { return p.tenants.has_value(); },
     [](HistoryPlan& p) { p.tenants.reset(); }},
    {"half-time", [](const HistoryPlan& p) { return p.active_us > 50 * kMsUs; },
     [](HistoryPlan& p) {
       p.active_us /= 2;
       for (auto& fault : p.faults) fault.at_us /= 2;
     }},
    {"fewer-queues", [](const HistoryPlan& p) { return p.messages.queues.size() > 1; },
     [](HistoryPlan& p) {
       p.messages.queues.resize((p.messages.queues.size() + 1) / 2);
       if (!p.lake.sink) return;
       std::erase_if(p.lake.sink->environment->queues, [&p](const auto& name) {
         return std::none_of(p.messages.queues.begin(), p.messages.queues.end(),
                             [&name](const auto& queue) { return queue.name == name; });
       });
     }},
    {"fewer-producers", [](const HistoryPlan& p) { return p.messages.producers > 0; },
     [](HistoryPlan& p) { p.messages.producers /= 2; }},
    {"fewer-pushes", [](const HistoryPlan& p) { return p.messages.pushes > 1; },
     [](HistoryPlan& p) { p.messages.pushes /= 2; }},
    {"no-consumers",
     [](const HistoryPlan& p) {
       return std::any_of(p.messages.queues.begin(), p.messages.queues.end(),
                          [](const auto& q) { return q.consumers > 0; });
     },
     [](HistoryPlan& p) {
       for (auto& queue : p.messages.queues) queue.consumers = 0;
     }},
    {"one-partition",
     [](const HistoryPlan& p) {
       return std::any_of(p.messages.queues.begin(), p.messages.queues.end(),
                          [](const auto& q) { return q.partitions > 1; });
     },
     [](HistoryPlan& p) {
       for (auto& queue : p.messages.queues) queue.partitions = 1;
     }},
    {"no-retention",
     [](const HistoryPlan& p) {
       return std::any_of(p.messages.queues.begin(), p.messages.queues.end(),
                          [](const auto& q) { return q.retention_seconds > 0; });
     },
     [](HistoryPlan& p) {
       for (auto& queue : p.messages.queues) queue.retention_seconds = 0;
     }},
    {"good-network", [](const HistoryPlan& p) { return p.network.lost_pct + p.network.late_pct > 0; },
     [](HistoryPlan& p) { p.network = {}; }},
    {"fair-lanes", [](const HistoryPlan& p) { return p.node.weights != 0; },
     [](HistoryPlan& p) { p.node.weights = 0; }},
    {"no-drift", [](const HistoryPlan& p) { return p.drift_ppm != 0; },
     [](HistoryPlan& p) { p.drift_ppm = 0; }},
    {"one-log-per-queue",
     [](const HistoryPlan& p) {
       return p.node.broker.logs.layout_if_new.shards + p.node.broker.logs.layout_if_new.lanes > 1;
     },
     [](HistoryPlan& p) { p.node.broker.logs.layout_if_new = {0, 1}; }},
    {"large-files", [](const HistoryPlan& p) { return p.node.broker.logs.segment_bytes < 1ULL << 20; },
     [](HistoryPlan& p) { p.node.broker.logs.segment_bytes = 1ULL << 20; }},
    {"no-compression", [](const HistoryPlan& p) { return p.node.broker.zstd_level > 0; },
     [](HistoryPlan& p) { p.node.broker.zstd_level = 0; }},
};

std::optional<std::uint64_t> number_behind(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data() + prefix.size(), end, value).ptr != end) return std::nullopt;
  return value;
}

bool apply_cut(HistoryPlan& plan, const std::string& name) {
  if (const auto fault = number_behind(name, "fault=")) {
    if (*fault >= plan.faults.size()) return false;
    plan.faults.erase(plan.faults.begin() + static_cast<std::ptrdiff_t>(*fault));
    return true;
  }
  if (const auto salt = number_behind(name, "salt=")) {
    plan.salt = *salt;
    return true;
  }
  const auto* found =
      std::find_if(std::begin(kCuts), std::end(kCuts), [&](const Cut& cut) { return name == cut.name; });
  if (found == std::end(kCuts)) return false;
  found->cut(plan);
  return true;
}

}  // namespace

std::string apply_cuts(HistoryPlan& plan, const std::vector<std::string>& cuts) {
  for (const auto& cut : cuts)
    if (!apply_cut(plan, cut)) return cut;
  return {};
}

std::vector<std::string> cuts_of(const HistoryPlan& plan) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < plan.faults.size(); ++i) names.push_back("fault=" + std::to_string(i));
  for (const Cut& cut : kCuts)
    if (cut.can(plan)) names.emplace_back(cut.name);
  return names;
}

std::vector<std::string> shrink(const HistoryPlan& plan, const std::function<bool(const HistoryPlan&)>& fails,
                                int tries_max) {
  std::vector<std::string> taken;
  HistoryPlan smallest = plan;
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const auto& name : cuts_of(smallest)) {
      for (int salt = 0; salt < kSalts && !smaller; ++salt) {
        if (--tries_max < 0) return taken;
        HistoryPlan next = smallest;
        std::vector<std::string> steps{name};
        if (salt > 0) steps.push_back("salt=" + std::to_string(salt));
        if (!apply_cuts(next, steps).empty() || !fails(next)) continue;
        smallest = std::move(next);
        taken.insert(taken.end(), steps.begin(), steps.end());
        smaller = true;
      }
      if (smaller) break;
    }
  }
  return taken;
}

}  // namespace queen::sim

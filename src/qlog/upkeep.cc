#include "qlog/upkeep.h"

#include "base/invariant.h"
#include "qlog/detail/directory_builder.h"
#include "qlog/detail/idle_pass.h"
#include "qlog/detail/reclaim.h"

namespace queen::qlog::detail {
namespace {

// Searches of an index leave pages of it in memory; one that is idle for so long needs none.
constexpr std::int64_t kLetGoEveryUs = 30'000'000;

class UpkeepImpl final : public LogUpkeep {
 public:
  UpkeepImpl(QueueLogsImpl& logs, UpkeepHost& host, UpkeepSettings settings)
      : settings_(settings),
        logs_(logs),
        idle_(logs, host, settings_),
        reclaimer_(logs, host, settings_),
        directories_(logs, [&host] { return host.go_on(); }) {
    INVARIANT(settings_.clock != nullptr, "upkeep without a clock");
  }

  Result<IdleReport> idle_pass(std::int64_t now_us) override { return idle_.run(now_us); }
  ReclaimReport reclaim_pass() override {
    const ReclaimReport report = reclaimer_.pass();
    directories_.pass();
    let_go_of_idle_indexes();
    return report;
  }

 private:
  void let_go_of_idle_indexes() {
    const std::int64_t now = settings_.clock->mono_us();
    if (now < let_go_at_us_) return;
    let_go_at_us_ = now + kLetGoEveryUs;
    logs_.shared().indexes.let_go_of_idle();
  }

  const UpkeepSettings settings_;
  QueueLogsImpl& logs_;
  std::int64_t let_go_at_us_ = 0;
  IdlePass idle_;
  Reclaimer reclaimer_;
  DirectoryBuilder directories_;
};

}  // namespace

std::unique_ptr<LogUpkeep> QueueLogsImpl::make_upkeep(UpkeepHost& host, UpkeepSettings settings) {
  return std::make_unique<UpkeepImpl>(*this, host, settings);
}

}  // namespace queen::qlog::detail

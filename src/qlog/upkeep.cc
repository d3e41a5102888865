#include "qlog/upkeep.h"

#include "base/invariant.h"
#include "qlog/detail/directory_builder.h"
#include "qlog/detail/idle_pass.h"
#include "qlog/detail/reclaim.h"

namespace queen::qlog::detail {
namespace {

class UpkeepImpl final : public LogUpkeep {
 public:
  UpkeepImpl(QueueLogsImpl& logs, UpkeepHost& host, UpkeepSettings settings)
      : settings_(settings),
        idle_(logs, host, settings_),
        reclaimer_(logs, host, settings_),
        directories_(logs, [&host] { return host.go_on(); }) {
    INVARIANT(settings_.clock != nullptr, "upkeep without a clock");
  }

  Result<IdleReport> idle_pass(std::int64_t now_us) override { return idle_.run(now_us); }
  ReclaimReport reclaim_pass() override {
    const ReclaimReport report = reclaimer_.pass();
    directories_.pass();
    return report;
  }

 private:
  const UpkeepSettings settings_;
  IdlePass idle_;
  Reclaimer reclaimer_;
  DirectoryBuilder directories_;
};

}  // namespace

std::unique_ptr<LogUpkeep> QueueLogsImpl::make_upkeep(UpkeepHost& host, UpkeepSettings settings) {
  return std::make_unique<UpkeepImpl>(*this, host, settings);
}

}  // namespace queen::qlog::detail

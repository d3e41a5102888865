#include "broker/trace_sweep.h"

namespace queen::broker {
namespace {

constexpr std::int64_t kTickUs = 1'000'000;
constexpr std::int64_t kPauseUs = 5'000;  // between steps while there are more

}  // namespace

void TraceSweep::start() {
  timers_.post_after(kTickUs, [this] { tick(); });
}

void TraceSweep::tick() {
  machine::Command step{std::string(kDefaultTenant), make_uuid_v7(clock_.wall_us(), random_),
                        machine::TraceExpireCommand{settings_.retention_us, settings_.trim_limit}};
  submit_(std::move(step), [this](const Answer<machine::Outcome>& answer) {
    const auto* outcome = answer ? std::get_if<machine::TraceExpireOutcome>(&answer->body) : nullptr;
    timers_.post_after(outcome != nullptr && outcome->more ? kPauseUs : kTickUs, [this] { tick(); });
  });
}

}  // namespace queen::broker

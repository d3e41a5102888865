#include "broker/garbage.h"

namespace queen::broker {
namespace {

constexpr std::int64_t kTickUs = 1'000'000;
// Between chunks while there are more: most of the node's time stays with its clients.
constexpr std::int64_t kPauseUs = 5'000;

}  // namespace

void delete_queue(Submit submit, machine::Command first, Clock& clock, Random& random,
                  UniqueFunction<void(Answer<machine::Outcome>)> done) {
  machine::Command step = first;
  step.request_id = make_uuid_v7(clock.wall_us(), random);
  submit(std::move(step), [submit, first = std::move(first), &clock, &random,
                           done = std::move(done)](Answer<machine::Outcome> answer) mutable {
    const auto* outcome =
        answer && answer->code.empty() ? std::get_if<machine::QueueDeleteOutcome>(&answer->body) : nullptr;
    if (outcome == nullptr || outcome->done) return done(std::move(answer));
    std::get<machine::QueueDeleteCommand>(first.body).pid_end = outcome->pid_end;
    delete_queue(std::move(submit), std::move(first), clock, random, std::move(done));
  });
}

GarbageTick::GarbageTick(Submit submit, Executor& timers, Clock& clock, Random& random)
    : submit_(std::move(submit)), timers_(timers), clock_(clock), random_(random) {}

void GarbageTick::start() {
  timers_.post_after(kTickUs, [this] { tick(); });
}

void GarbageTick::tick() {
  machine::Command chunk{std::string(kDefaultTenant), make_uuid_v7(clock_.wall_us(), random_),
                         machine::GarbageCommand{}};
  submit_(std::move(chunk), [this](const Answer<machine::Outcome>& answer) {
    const auto* outcome = answer ? std::get_if<machine::GarbageOutcome>(&answer->body) : nullptr;
    timers_.post_after(outcome != nullptr && outcome->more ? kPauseUs : kTickUs, [this] { tick(); });
  });
}

}  // namespace queen::broker

#include "broker/timer_fire.h"

#include "broker/timer_due.h"

namespace queen::broker {

TimerFire::TimerFire(Submit submit, World world, TimerSettings settings, std::uint64_t entry_bytes_max)
    : submit_(std::move(submit)),
      world_(std::move(world)),
      settings_(settings),
      entry_bytes_max_(entry_bytes_max),
      opener_(world_.cipher) {}

void TimerFire::start() {
  if (fires()) world_.timers.post([this] { tick(); });
}

void TimerFire::scheduled(std::int64_t due_us) {
  if (!fires() || due_us > now_us() || woken_.exchange(true)) return;
  world_.timers.post([this] {
    woken_ = false;
    look();
  });
}

void TimerFire::tick() {
  look();
  world_.timers.post_after(settings_.tick_us, [this] { tick(); });
}

void TimerFire::look() {
  if (in_flight_ > 0 || world_.clock.mono_us() < held_until_ || !world_.state.on(kTimersFireSwitch)) return;
  submit_step();
}

void TimerFire::submit_step() {
  DueTimers due = due_timers(world_.state.rows(), now_us(), settings_, entry_bytes_max_, opener_);
  in_flight_ = due.tenants.size();
  moved_ = false;
  for (auto& [tenant, fire] : due.tenants) {
    machine::Command command{std::move(tenant), make_uuid_v7(world_.clock.wall_us(), world_.random),
                             std::move(fire)};
    submit_(std::move(command), [this](const Answer<machine::Outcome>& answer) {
      world_.timers.post([this, fired = judge(answer)] { settled(fired); });
    });
  }
}

// Whatever keeps a whole command from being planned is a state of the node, not of its timers: no attempt is
// spent. What a timer itself is refused for the planner has dealt with.
TimerFire::Fired TimerFire::judge(const Answer<machine::Outcome>& answer) {
  const auto* outcome = answer ? std::get_if<machine::TimerFireOutcome>(&answer->body) : nullptr;
  if (outcome == nullptr) {
    const std::string& code = answer ? answer->code : answer.error().code;
    world_.timers.post([this, code] {
      if (held_for_ != code) world_.log.warn("timers_wait", {{"refused", code}});
      held_for_ = code;
    });
    return {true, false};
  }
  if (outcome->filed > 0) world_.log.warn("timers_filed", {{"count", outcome->filed}});
  return {false, outcome->fired + outcome->duplicates + outcome->refused + outcome->filed > 0};
}

void TimerFire::settled(Fired fired) {
  if (fired.refused)
    held_until_ = world_.clock.mono_us() + settings_.transient_backoff_us;
  else
    held_for_.clear();
  moved_ = moved_ || fired.moved;
  // A step that moved nothing read what was rescheduled since: the tick goes on with it.
  if (--in_flight_ == 0 && moved_) look();
}

}  // namespace queen::broker

// Timers: scheduled, scheduled anew, cancelled and fired as a broker does it, two at a time
// (api-state.md 3.4).
#include <fmt/format.h>

#include "broker/timer_due.h"
#include "workload.h"

namespace queen::crash {

using machine::TimerOp;

TimerOp Workload::timer_op() {
  TimerOp op;
  op.queue = queue();
  op.key = fmt::format("k{}", pick(4));
  if (pick(4) == 0) {
    op.kind = TimerOp::Kind::cancel;
    return op;
  }
  const std::uint32_t number = ++numbers_;
  op.transaction_id = transaction_id(number);
  op.payload = message_text(number);
  op.partition = partition();
  op.delay_us = static_cast<std::int64_t>(pick(4)) * 500'000;
  op.message_id = uuid();
  return op;
}

void Workload::schedule_timers() {
  machine::TimersCommand command;
  command.ops.push_back(timer_op());
  TimerOp other = timer_op();
  other.key = "other";
  command.ops.push_back(std::move(other));
  const Model& before = model_at(answered_);
  std::vector<bool> pending;
  for (const TimerOp& op : command.ops) pending.push_back(before.timers.contains({op.queue, op.key}));
  const auto outcomes = submit({{ask(command)}});
  if (outcomes.empty() || node_.stopped()) return;
  const auto& out = std::get<machine::TimersOutcome>(outcomes[0].body).ops;
  using Status = machine::TimerOpOutcome::Status;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool schedules = command.ops[i].kind == TimerOp::Kind::schedule;
    const Status want = schedules ? (pending[i] ? Status::rescheduled : Status::scheduled)
                                  : (pending[i] ? Status::cancelled : Status::absent);
    if (out[i].status != want)
      wrong_ = fmt::format("timer {} answers {}", i, static_cast<int>(out[i].status));
  }
}

void Workload::fire_timers() {
  clock_.advance(500'000);
  broker::TimerSettings settings;
  settings.fire_batch = 2;
  const std::int64_t now = clock_.wall_us();
  auto due = broker::due_timers(node_.store(), now, settings, 96ULL << 20);
  std::size_t waiting = 0;
  for (const auto& [name, timer] : model_at(answered_).timers) waiting += timer.deliver_at <= now ? 1 : 0;
  const std::size_t read = due.tenants.empty() ? 0 : due.tenants.at(0).fire.timers.size();
  if (read != std::min<std::size_t>(waiting, 2)) {
    wrong_ = fmt::format("{} timers are due, and {} were read", waiting, read);
    return;
  }
  if (read == 0) return;
  const auto outcomes = submit({{ask(std::move(due.tenants[0].fire))}});
  if (outcomes.empty() || node_.stopped()) return;
  const auto& out = std::get<machine::TimerFireOutcome>(outcomes[0].body);
  ++did_["fired"];
  // Their numbers are new ones: none is known to its partition.
  if (out.fired != read) wrong_ = fmt::format("{} of {} timers fired", out.fired, read);
}

}  // namespace queen::crash

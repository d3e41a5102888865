#include "broker/pop_flow.h"

#include <fmt/format.h>

#include <algorithm>

namespace queen::broker {

using machine::PopCommand;
using machine::PopOutcome;

namespace {
constexpr std::int64_t kWakeStepUs = 100'000;
// Rows may leave RAM, and other pops may claim, while the log is read; then there is more to ask.
constexpr int kColdRoundsMax = 16;
constexpr std::size_t kExpiredGroupsMax = 65'536;  // groups counted; beyond it new ones are not
}  // namespace

std::uint64_t PopFlow::pop(machine::Command command, bool wait, std::int64_t deadline_mono_us,
                           UniqueFunction<void(Answer<PopAnswer>)> done) {
  auto call = std::make_shared<PopCall>();
  call->id = next_id_++;
  const auto& body = std::get<PopCommand>(command.body);
  call->name = {command.tenant, body.queue};
  call->group = body.group;
  call->pinned = body.partition.has_value();
  call->wait = wait;
  // A claim is never made for an answer that could not be delivered any more (W-2).
  const std::int64_t left = deadline_mono_us - clock_.mono_us();
  call->stop_claiming_at =
      deadline_mono_us - std::min<std::int64_t>(250'000, std::max<std::int64_t>(left, 0) / 4);
  call->command = std::move(command);
  call->command.deadline_mono_us = deadline_mono_us;
  call->done = std::move(done);
  const std::uint64_t id = call->id;
  waiters_.enter(call);
  attempt(call);
  return id;
}

void PopFlow::attempt(const PopPtr& pop) {
  const std::uint64_t wakes = waiters_.wakes(pop->name);
  core_.submit({pop->command, [this, pop, wakes](Answer<machine::Outcome> outcome) {
                  on_outcome(pop, wakes, std::move(outcome));
                }});
}

PopAnswer PopFlow::empty_answer(const PopOutcome& outcome) {
  PopAnswer answer;
  answer.conflation = outcome.conflation;
  answer.conflation_conflict = outcome.conflation_conflict;
  answer.batch = outcome.batch;
  answer.partitions_max = outcome.partitions_max;
  return answer;
}

void PopFlow::on_outcome(const PopPtr& pop, std::uint64_t wakes_before, Answer<machine::Outcome> outcome) {
  if (!outcome) return finish(pop, tl::unexpected(outcome.error()));
  if (!outcome->code.empty()) return finish(pop, tl::unexpected(Refusal{outcome->code, outcome->error}));
  auto& body = std::get<PopOutcome>(outcome->body);
  if (!body.cold_asks.empty()) return ask_log(pop, std::move(body));
  if (body.claims.empty()) return park_or_end(pop, wakes_before, body);
  count_claims(*pop, body);
  // More may be ready than this pop took.
  for (const auto& next : waiters_.wake_next(pop->name, pop->group)) attempt(next);
  readers_.post([this, pop, body = std::move(body)]() mutable { deliver(pop, std::move(body)); });
}

// The claim hangs on appends whose rows left RAM (RT-10): they are looked up and the pop tries again.
void PopFlow::ask_log(const PopPtr& pop, PopOutcome outcome) {
  if (clock_.mono_us() >= pop->stop_claiming_at || waiters_.cancelled(pop))
    return finish(pop, empty_answer(outcome));
  if (++pop->cold_rounds > kColdRoundsMax)
    return finish(pop, tl::unexpected(Refusal{"retry", "the partitions' rows keep moving"}));
  readers_.post([this, pop, asks = std::move(outcome.cold_asks)] {
    auto& body = std::get<PopCommand>(pop->command.body);
    if (const Status status = reads_.cold().read(asks, body.cold); !status)
      return finish(pop, tl::unexpected(Refusal{"internal", status.error().what}));
    attempt(pop);
  });
}

void PopFlow::park_or_end(const PopPtr& pop, std::uint64_t wakes_before, const PopOutcome& outcome) {
  const std::int64_t now = clock_.mono_us();
  if (!pop->wait || now >= pop->stop_claiming_at) return finish(pop, empty_answer(outcome));
  pop->cold_rounds = 0;
  std::get<PopCommand>(pop->command.body).cold = {};
  std::int64_t look_at = pop->stop_claiming_at;
  if (outcome.look_again_at) look_at = std::min(look_at, mono_at(*outcome.look_again_at));
  std::uint64_t turn = 0;
  switch (waiters_.park(pop, wakes_before, turn)) {
    case PopWaiters::Park::try_again:
      return attempt(pop);
    case PopWaiters::Park::over:
      return finish(pop, empty_answer(outcome));
    case PopWaiters::Park::parked:
      break;
  }
  // The timer must not keep a pop that was answered long ago.
  timers_.post_at(look_at, [this, weak = std::weak_ptr<PopCall>(pop), turn, empty = empty_answer(outcome)] {
    const PopPtr parked = weak.lock();
    if (!parked || !waiters_.unpark(parked, turn)) return;
    if (clock_.mono_us() < parked->stop_claiming_at) return attempt(parked);
    finish(parked, empty);
    wake_next(*parked);
  });
}

void PopFlow::count_claims(const PopCall& pop, const PopOutcome& outcome) {
  for (const auto& claim : outcome.claims) {
    cold_claims_ += claim.cold ? 1 : 0;
    if (!claim.after_expiry) continue;
    const QueueName name{pop.name.tenant, claim.queue.empty() ? pop.name.queue : claim.queue};
    const std::lock_guard lock(expired_mutex_);
    const auto found = expired_.find({name, pop.group});
    if (found != expired_.end()) {
      ++found->second;
    } else if (expired_.size() < kExpiredGroupsMax) {
      expired_.emplace(std::pair{name, pop.group}, 1);
    }
  }
}

std::vector<Health::ExpiredLeases> PopFlow::expired_leases() const {
  std::vector<Health::ExpiredLeases> out;
  const std::lock_guard lock(expired_mutex_);
  for (const auto& [of, count] : expired_) out.push_back({of.first.tenant, of.first.queue, of.second, count});
  return out;
}

// When that stamp is over: log time may be ahead of the wall clock. A millisecond more, so that it surely is.
std::int64_t PopFlow::mono_at(std::int64_t stamp_us) const {
  const std::int64_t log_time = clock_.wall_us() + core_.clock_lead_us();
  return clock_.mono_us() + std::max<std::int64_t>(stamp_us - log_time, 0) + 1000;
}

// Pops that were parked before a claim know nothing of its lease; nor do those that no append woke of a hold.
void PopFlow::wake_at(const QueueName& name, std::int64_t stamp_us) {
  if (!waiters_.anyone_parked(name)) return;
  // Rounded up, so that a busy queue has a few of these and not one per claim.
  const std::int64_t at = (mono_at(stamp_us) + kWakeStepUs - 1) / kWakeStepUs * kWakeStepUs;
  if (!waiters_.arm_wake(name, at)) return;
  timers_.post_at(at, [this, name, at] {
    waiters_.disarm_wake(name, at);
    wake(name);
  });
}

void PopFlow::deliver(const PopPtr& pop, PopOutcome outcome) {
  PopAnswer answer = empty_answer(outcome);
  for (auto& claim : outcome.claims) {
    auto messages = reads_.range(claim.pid, claim.queue_id, claim.deliver_from, claim.last);
    answer.parts.push_back({std::move(claim), std::move(messages)});
  }
  const auto& body = std::get<PopCommand>(pop->command.body);
  if (waiters_.cancelled(pop)) {
    hand_back(pop->command.tenant, body.group, body.lease_id, answer);
    return finish(pop, empty_answer(outcome));
  }
  auto ends = ends_of(body, answer);
  if (ends.pids.empty() && ends.cuts.empty() && ends.settled.empty()) return finish(pop, std::move(answer));
  // Answered once the cursors say so: whoever comes next must meet the damage and not what was claimed here.
  machine::Command command{pop->command.tenant, make_uuid_v7(clock_.wall_us(), random_), std::move(ends)};
  core_.submit({std::move(command),
                [this, pop, answer = std::move(answer)](const Answer<machine::Outcome>& done) mutable {
                  hand_out(pop, std::move(answer), done);
                }});
}

// Each claim ends before its first message that cannot be read (L-11); one of commit on delivery is settled
// up to there, and never before it was read.
machine::HandBackCommand PopFlow::ends_of(const PopCommand& pop, const PopAnswer& answer) {
  machine::HandBackCommand out;
  out.group = pop.group;
  out.lease_id = pop.lease_id;
  for (const auto& part : answer.parts) {
    const auto& claim = part.claim;
    const auto& messages = part.messages.messages;
    const auto delivered =
        static_cast<std::int64_t>(messages.empty() ? claim.first : messages.back().offset + 1) - 1;
    if (pop.commit_on_delivery)
      out.settled.push_back({claim.pid, delivered});
    else if (messages.empty())
      out.pids.push_back(claim.pid);
    else if (messages.back().offset != claim.last)
      out.cuts.push_back({claim.pid, delivered});
  }
  return out;
}

void PopFlow::hand_out(const PopPtr& pop, PopAnswer answer, const Answer<machine::Outcome>& outcome) {
  if (!outcome) return finish(pop, tl::unexpected(outcome.error()));
  if (const auto* ends = std::get_if<machine::HandBackOutcome>(&outcome->body)) {
    // Their lease ran out while they were read, and somebody else may have them.
    for (const Pid lost : ends->lost)
      std::erase_if(answer.parts, [&](const PopPart& part) { return part.claim.pid == lost; });
  }
  std::string damaged;
  for (const auto& part : answer.parts)
    if (part.messages.messages.empty())
      damaged = fmt::format("partition {} offset {}", part.claim.partition, part.claim.first);
  std::erase_if(answer.parts, [](const PopPart& part) { return part.messages.messages.empty(); });
  if (!answer.parts.empty() || damaged.empty()) return finish(pop, std::move(answer));
  finish(pop, tl::unexpected(
                  Refusal{"internal", "the claimed messages cannot be read from the log, first " + damaged}));
}

void PopFlow::finish(const PopPtr& pop, Answer<PopAnswer> answer) {
  waiters_.leave(pop);
  auto done = std::move(pop->done);
  done(std::move(answer));
}

// Whoever leaves the park empty-handed may have been the only one of its group that looked again in time.
void PopFlow::wake_next(const PopCall& gone) {
  for (const auto& next : waiters_.wake_next(gone.name, gone.group)) attempt(next);
}

void PopFlow::cancel(std::uint64_t id) {
  const PopPtr pop = waiters_.cancel(id);
  if (!pop) return;
  finish(pop, PopAnswer{});
  wake_next(*pop);
}

void PopFlow::hand_back(const std::string& tenant, const std::string& group, Uuid lease_id,
                        const PopAnswer& answer) {
  machine::HandBackCommand body;
  body.group = group;
  body.lease_id = lease_id;
  for (const auto& part : answer.parts) body.pids.push_back(part.claim.pid);
  if (body.pids.empty()) return;
  machine::Command command{tenant, make_uuid_v7(clock_.wall_us(), random_), std::move(body)};
  core_.submit({std::move(command), [](const Answer<machine::Outcome>&) {}});
}

void PopFlow::release_parked() {
  for (const auto& pop : waiters_.release_all()) finish(pop, PopAnswer{});
}

void PopFlow::wake(const QueueName& name) {
  for (const auto& pop : waiters_.wake(name)) attempt(pop);
}

}  // namespace queen::broker

#include "broker/group_flow.h"

#include <algorithm>

namespace queen::broker {
namespace {

// Of one step: rows may leave RAM while the log is read; then there is more to ask.
constexpr int kColdRoundsMax = 8;

std::optional<Refusal> refusal_of(const Answer<machine::Outcome>& answer) {
  if (!answer) return answer.error();
  if (!answer->code.empty()) return Refusal{answer->code, answer->error};
  return std::nullopt;
}

}  // namespace

struct GroupFlow::Seek {
  machine::Command command;  // a SeekCommand, of the step that is next
  Done done;
  std::uint32_t partitions = 0;
  bool found = false;
  int cold_rounds = 0;

  machine::SeekCommand& body() { return std::get<machine::SeekCommand>(command.body); }
};

void GroupFlow::seek(machine::Command first, Done done) {
  auto call = std::make_shared<Seek>();
  call->command = std::move(first);
  call->done = std::move(done);
  seek_on(call);
}

void GroupFlow::seek_on(const std::shared_ptr<Seek>& call) {
  call->command.request_id = mint();
  submit_(call->command,
          [this, call](Answer<machine::Outcome> answer) { on_sought(call, std::move(answer)); });
}

void GroupFlow::on_sought(const std::shared_ptr<Seek>& call, Answer<machine::Outcome> answer) {
  if (refusal_of(answer)) return call->done(std::move(answer));
  auto& outcome = std::get<machine::SeekOutcome>(answer->body);
  call->body().pid_end = outcome.pid_end;
  if (!outcome.cold_asks.empty()) {
    if (++call->cold_rounds > kColdRoundsMax)
      return call->done(tl::unexpected(Refusal{"retry", "the partitions' rows keep moving"}));
    return parts_.readers.post([this, call, asks = std::move(outcome.cold_asks)] {
      if (const Status status = parts_.cold.read(asks, call->body().cold); !status)
        return call->done(tl::unexpected(Refusal{"internal", status.error().what}));
      seek_on(call);
    });
  }
  call->partitions += outcome.partitions;
  call->found = call->found || outcome.found;
  if (!outcome.again) {
    outcome.partitions = call->partitions;
    outcome.found = call->found;
    return call->done(std::move(answer));
  }
  call->body().from_pid = *outcome.again;
  call->body().cold = {};
  call->cold_rounds = 0;
  seek_on(call);
}

void GroupFlow::subscribe(machine::Command first, Done done) {
  subscribe_on(std::move(first), 0, std::move(done));
}

void GroupFlow::subscribe_on(machine::Command step, std::uint32_t rows, Done done) {
  step.request_id = mint();
  machine::Command next = step;
  submit_(std::move(step), [this, next = std::move(next), rows,
                            done = std::move(done)](Answer<machine::Outcome> answer) mutable {
    if (refusal_of(answer)) return done(std::move(answer));
    auto& outcome = std::get<machine::SubscribeOutcome>(answer->body);
    outcome.rows += rows;
    if (!outcome.again) return done(std::move(answer));
    std::get<machine::SubscribeCommand>(next.body).from_queue = *outcome.again;
    subscribe_on(std::move(next), outcome.rows, std::move(done));
  });
}

struct GroupFlow::Erase {
  std::string tenant;
  GroupDeletion deletion;
  UniqueFunction<void(Answer<GroupDeleted>)> done;
  std::vector<std::string> queues;  // that are still to do, the next one last
  std::uint64_t from_pid = 0;
  bool registered = false;    // the queue that is being done had a registration
  std::uint64_t cursors = 0;  // deleted on it
  GroupDeleted out;
};

void GroupFlow::erase(std::string tenant, GroupDeletion deletion,
                      UniqueFunction<void(Answer<GroupDeleted>)> done) {
  auto call = std::make_shared<Erase>();
  call->tenant = tenant;
  call->deletion = std::move(deletion);
  call->done = std::move(done);
  if (call->deletion.queue) {
    call->queues.push_back(*call->deletion.queue);
    return erase_next(call);
  }
  // What was answered before counts: its cursors are to go as well.
  submit_({std::move(tenant), mint(), machine::BarrierCommand{}},
          [this, call](const Answer<machine::Outcome>& answer) {
            if (auto refusal = refusal_of(answer)) return call->done(tl::unexpected(std::move(*refusal)));
            parts_.lookers.post([this, call] {
              call->queues = parts_.reads.queues_of(call->tenant, call->deletion.group);
              std::reverse(call->queues.begin(), call->queues.end());
              erase_next(call);
            });
          });
}

void GroupFlow::erase_next(const std::shared_ptr<Erase>& call) {
  if (call->queues.empty()) return call->done(std::move(call->out));
  machine::GroupDeleteCommand body{call->queues.back(), call->deletion.group,
                                   call->deletion.keep_registration, call->from_pid};
  submit_({call->tenant, mint(), std::move(body)},
          [this, call](const Answer<machine::Outcome>& answer) { on_erased(call, answer); });
}

void GroupFlow::on_erased(const std::shared_ptr<Erase>& call, const Answer<machine::Outcome>& answer) {
  if (auto refusal = refusal_of(answer)) return call->done(tl::unexpected(std::move(*refusal)));
  const auto& outcome = std::get<machine::GroupDeleteOutcome>(answer->body);
  call->cursors += outcome.cursors;
  call->registered = call->registered || outcome.registration_deleted;
  call->from_pid = outcome.again.value_or(0);
  if (!outcome.again) {
    call->out.cursors += call->cursors;
    if (call->cursors > 0 || call->registered) call->out.queues.push_back(std::move(call->queues.back()));
    call->queues.pop_back();
    call->cursors = 0;
    call->registered = false;
  }
  erase_next(call);
}

}  // namespace queen::broker

#include "broker/ack_flow.h"

#include <algorithm>
#include <span>

#include "broker/filing.h"

namespace queen::broker {
namespace {

using machine::AckCommand;
using machine::AckOutcome;
using machine::TransactionCommand;
using machine::TransactionOutcome;

// The rows that a decision needs may leave RAM while the log is read; each time it is asked for more.
constexpr int kRoundsMax = 8;

std::span<AckCommand> acks_of(machine::Command& command) {
  if (auto* transaction = std::get_if<TransactionCommand>(&command.body)) return transaction->acks;
  return {&std::get<AckCommand>(command.body), 1};
}

// Those of an outcome, aligned with the command's; none when it was refused.
std::span<const AckOutcome> acks_of(const machine::Outcome& outcome) {
  if (const auto* transaction = std::get_if<TransactionOutcome>(&outcome.body)) return transaction->acks;
  if (const auto* ack = std::get_if<AckOutcome>(&outcome.body)) return {ack, 1};
  return {};
}

bool asks(const machine::Outcome& outcome) {
  const auto acks = acks_of(outcome);
  return std::any_of(acks.begin(), acks.end(), [](const AckOutcome& ack) { return !ack.cold_asks.empty(); });
}

bool may_file(const AckCommand& ack) {
  return std::any_of(ack.items.begin(), ack.items.end(), [](const machine::AckItem& item) {
    return item.status == machine::AckStatus::failed || item.status == machine::AckStatus::dlq;
  });
}

}  // namespace

struct AckFlow::Call {
  machine::Command command;
  Done done;
  std::shared_ptr<machine::Command> kept = std::make_shared<machine::Command>();
  bool transaction = false;
  int rounds = 0;

  // As an ack is told, and as a transaction is (7.4).
  struct Why {
    std::string code, reason, error;
  };
  void refuse(Why why) {
    if (!transaction) return done(tl::unexpected(Refusal{std::move(why.code), std::move(why.error)}));
    TransactionOutcome rolled_back;
    rolled_back.reason = std::move(why.reason);
    rolled_back.error = std::move(why.error);
    done(machine::Outcome{{}, {}, std::move(rolled_back)});
  }
};

void AckFlow::ack(machine::Command command, Done done) {
  auto call = std::make_shared<Call>();
  call->transaction = std::holds_alternative<TransactionCommand>(command.body);
  call->command = std::move(command);
  call->done = std::move(done);
  const auto acks = acks_of(call->command);
  if (std::none_of(acks.begin(), acks.end(), may_file)) return submit(call);
  // A dead letter carries its payload, which only the log has.
  readers_.post([this, call] { fill_and_submit(call); });
}

void AckFlow::fill_and_submit(const CallPtr& call) {
  switch (fill_payloads(reads_, call->command.tenant, acks_of(call->command), entry_bytes_max_)) {
    case Filing::too_large:
      return call->refuse({"bad_request", "too_large",
                           "the messages that this call may file are larger than an entry may be"});
    case Filing::unreadable:
      return call->refuse(
          {"internal", "unavailable", "a message that this call may file cannot be read from the log"});
    case Filing::ready:
      break;
  }
  submit(call);
}

void AckFlow::submit(const CallPtr& call) {
  // The parts of a transaction have bounds of their own.
  if (!call->transaction && machine::estimated_bytes(call->command) > entry_bytes_max_)
    return call->refuse({"bad_request", {}, "the call is larger than an entry may be"});
  admit_({std::move(call->command),
          [this, call](Answer<machine::Outcome> outcome) { on_outcome(call, std::move(outcome)); },
          call->kept});
}

void AckFlow::on_outcome(const CallPtr& call, Answer<machine::Outcome> outcome) {
  if (!outcome || !outcome->code.empty()) return call->done(std::move(outcome));
  if (asks(*outcome)) {
    call->command = std::move(*call->kept);
    return read_asked(call, *outcome);
  }
  const auto* acked = std::get_if<AckOutcome>(&outcome->body);
  if (acked == nullptr || acked->look_back.empty()) return call->done(std::move(outcome));
  call->command = std::move(*call->kept);
  look_back(call, std::move(outcome));
}

// The decision hangs on appends whose rows left RAM: they are looked up and the call is planned again.
void AckFlow::read_asked(const CallPtr& call, const machine::Outcome& outcome) {
  if (++call->rounds > kRoundsMax)
    return call->refuse({"retry", "unavailable", "the partition's rows keep moving"});
  std::vector<std::vector<machine::ColdAsk>> asked;
  for (const AckOutcome& ack : acks_of(outcome)) asked.push_back(ack.cold_asks);
  readers_.post([this, call, asked = std::move(asked)] {
    const auto acks = acks_of(call->command);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const Status status = reads_.cold().read(asked[i], acks[i].cold);
      if (status) continue;
      const bool full = status.error().code == Errc::full;
      return call->refuse(
          {full ? "bad_request" : "internal", full ? "too_large" : "unavailable", status.error().what});
    }
    submit(call);
  });
}

void AckFlow::look_back(const CallPtr& call, Answer<machine::Outcome> outcome) {
  readers_.post([this, call, outcome = std::move(outcome)]() mutable {
    ignore(reads_.cold().look_back(acks_of(call->command).front(), std::get<AckOutcome>(outcome->body)),
           "the items stay what the rows know of them");
    call->done(std::move(outcome));
  });
}

}  // namespace queen::broker

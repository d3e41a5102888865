#include "broker/ack_flow.h"

#include <algorithm>

#include "broker/filing.h"

namespace queen::broker {
namespace {

// The rows that a decision needs may leave RAM while the log is read; each time it is asked for more.
constexpr int kRoundsMax = 8;

}  // namespace

struct AckFlow::Call {
  machine::Command command;  // an AckCommand
  Done done;
  std::shared_ptr<machine::Command> kept = std::make_shared<machine::Command>();
  int rounds = 0;

  machine::AckCommand& ack() { return std::get<machine::AckCommand>(command.body); }
  void refuse(std::string code, std::string error) {
    done(tl::unexpected(Refusal{std::move(code), std::move(error)}));
  }
  void refuse(const Error& error) {
    refuse(error.code == Errc::full ? "bad_request" : "internal", error.what);
  }
};

void AckFlow::ack(machine::Command command, Done done) {
  auto call = std::make_shared<Call>();
  call->command = std::move(command);
  call->done = std::move(done);
  const auto& items = call->ack().items;
  const bool may_file = std::any_of(items.begin(), items.end(), [](const machine::AckItem& item) {
    return item.status == machine::AckStatus::failed || item.status == machine::AckStatus::dlq;
  });
  if (!may_file) return submit(call);
  // A dead letter carries its payload, which only the log has.
  readers_.post([this, call] { fill_and_submit(call); });
}

void AckFlow::fill_and_submit(const CallPtr& call) {
  switch (fill_payloads(reads_, call->command.tenant, call->ack(), entry_bytes_max_)) {
    case Filing::too_large:
      return call->refuse("bad_request",
                          "the messages that this call may file are larger than an entry may be");
    case Filing::unreadable:
      return call->refuse("internal", "a message that this call may file cannot be read from the log");
    case Filing::ready:
      break;
  }
  submit(call);
}

void AckFlow::submit(const CallPtr& call) {
  if (machine::estimated_bytes(call->command) > entry_bytes_max_)
    return call->refuse("bad_request", "the call is larger than an entry may be");
  core_.submit({std::move(call->command),
                [this, call](Answer<machine::Outcome> outcome) { on_outcome(call, std::move(outcome)); },
                call->kept});
}

void AckFlow::on_outcome(const CallPtr& call, Answer<machine::Outcome> outcome) {
  auto* acked = outcome && outcome->code.empty() ? std::get_if<machine::AckOutcome>(&outcome->body) : nullptr;
  if (acked == nullptr || (acked->cold_asks.empty() && acked->look_back.empty()))
    return call->done(std::move(outcome));
  call->command = std::move(*call->kept);
  if (acked->cold_asks.empty()) {
    readers_.post([this, call, outcome = std::move(outcome)]() mutable {
      auto& body = std::get<machine::AckOutcome>(outcome->body);
      ignore(reads_.cold().look_back(call->ack(), body), "the items stay what the rows know of them");
      call->done(std::move(outcome));
    });
    return;
  }
  if (++call->rounds > kRoundsMax) return call->refuse("retry", "the partition's rows keep moving");
  readers_.post([this, call, asks = std::move(acked->cold_asks)] {
    if (const Status status = reads_.cold().read(asks, call->ack().cold); !status)
      return call->refuse(status.error());
    submit(call);
  });
}

}  // namespace queen::broker

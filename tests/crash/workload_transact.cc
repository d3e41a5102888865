// Transactions of acks, pushes to several queues, KV writes and timers: every second one loses its marker and
// leaves nothing (api-messaging.md T-1).
#include <fmt/format.h>

#include "workload.h"

namespace queen::crash {

using machine::TransactionOutcome;

void Workload::transact() {
  machine::TransactionCommand command;
  command.acks.push_back(pop_some());
  if (node_.stopped() || !wrong_.empty()) return;
  const machine::AckCommand ack = command.acks.front();
  Ask made = push({{"q0", "p1"}, {queue(), "p2"}, {"q2", "p3"}}, 1 + static_cast<int>(pick(2)));
  command.push = std::get<machine::PushCommand>(made.command.body);
  machine::KvOp marker;
  marker.kind = machine::KvKind::put_if_absent;
  marker.ns = "ns";
  marker.key = fmt::format("marker{}", transactions_++ / 2);
  marker.value = "true";
  marker.required = true;
  command.kv = std::get<machine::KvCommand>(put_kv().command.body);
  command.kv.ops.push_back(marker);
  command.timers.ops = {timer_op()};
  made.command.body = std::move(command);
  const bool loses = model_at(answered_).kv.contains(marker.key);
  const auto outcomes = submit_with_facts(std::move(made));
  if (outcomes.empty() || node_.stopped()) return;
  const auto& out = std::get<TransactionOutcome>(outcomes[0].body);
  ++did_[loses ? "rolled back" : "committed"];
  if (out.reason != (loses ? "kv_precondition" : ""))
    wrong_ = fmt::format("transaction: {} {}", out.reason, out.error);
  if (!loses || ack.items.empty()) return;
  // The lease is as it was.
  const auto answers = submit_with_facts(ask(ack));
  if (!answers.empty() && !node_.stopped()) judge_ack(ack, std::get<machine::AckOutcome>(answers[0].body));
}

}  // namespace queen::crash

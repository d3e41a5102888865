// Which commands the gates of storage.md 24 are for.
#pragma once

#include <algorithm>
#include <variant>

#include "machine/commands.h"

namespace queen::broker {

inline bool grows(const machine::KvCommand& kv) {
  return std::any_of(kv.ops.begin(), kv.ops.end(), [](const machine::KvOp& op) {
    return op.kind == machine::KvKind::put || op.kind == machine::KvKind::put_if_absent ||
           op.kind == machine::KvKind::incr;
  });
}
inline bool grows(const machine::TimersCommand& timers) {
  return std::any_of(timers.ops.begin(), timers.ops.end(),
                     [](const machine::TimerOp& op) { return op.kind == machine::TimerOp::Kind::schedule; });
}

inline bool grows(const machine::StreamsCycleCommand& cycle) {
  return !cycle.push.batches.empty() ||
         std::any_of(cycle.state.begin(), cycle.state.end(),
                     [](const machine::StreamsStateOp& op) { return op.value.has_value(); });
}

// True for what makes the data grow: pushes, KV puts and schedules of timers, also inside a transaction,
// replays of dead letters, traces, stream queries and cycles that store something. Never for acks, positions,
// pops, deletes, renewals and upkeep: a full node can always be drained (BP-1).
inline bool grows(const machine::Command& command) {
  if (std::holds_alternative<machine::PushCommand>(command.body) ||
      std::holds_alternative<machine::DeadLetterReplayCommand>(command.body) ||
      std::holds_alternative<machine::TraceCommand>(command.body) ||
      std::holds_alternative<machine::StreamsRegisterCommand>(command.body) ||
      std::holds_alternative<machine::TimerFireCommand>(command.body))
    return true;
  if (const auto* kv = std::get_if<machine::KvCommand>(&command.body)) return grows(*kv);
  if (const auto* timers = std::get_if<machine::TimersCommand>(&command.body)) return grows(*timers);
  if (const auto* cycle = std::get_if<machine::StreamsCycleCommand>(&command.body)) return grows(*cycle);
  const auto* transaction = std::get_if<machine::TransactionCommand>(&command.body);
  return transaction != nullptr &&
         (!transaction->push.batches.empty() || grows(transaction->kv) || grows(transaction->timers));
}

}  // namespace queen::broker

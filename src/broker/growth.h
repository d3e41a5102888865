// Which commands the gates of storage.md 24 are for.
#pragma once

#include <algorithm>
#include <variant>

#include "machine/commands.h"

namespace queen::broker {

inline bool grows(const machine::KvCommand& kv) {
  return std::any_of(kv.ops.begin(), kv.ops.end(), [](const machine::KvOp& op) {
    return op.kind == machine::KvKind::put || op.kind == machine::KvKind::put_if_absent;
  });
}

// True for what makes the data grow: pushes and KV puts, also inside a transaction, replays of dead letters
// and traces. Never for acks, positions, pops, deletes, renewals and upkeep: a full node can always be
// drained (BP-1).
inline bool grows(const machine::Command& command) {
  if (std::holds_alternative<machine::PushCommand>(command.body) ||
      std::holds_alternative<machine::DeadLetterReplayCommand>(command.body) ||
      std::holds_alternative<machine::TraceCommand>(command.body))
    return true;
  if (const auto* kv = std::get_if<machine::KvCommand>(&command.body)) return grows(*kv);
  const auto* transaction = std::get_if<machine::TransactionCommand>(&command.body);
  return transaction != nullptr && (!transaction->push.batches.empty() || grows(transaction->kv));
}

}  // namespace queen::broker

// Which commands the gates of storage.md 24 are for.
#pragma once

#include <algorithm>
#include <variant>

#include "machine/commands.h"

namespace queen::broker {

// True for what makes the data grow: pushes, KV puts, replays of dead letters and traces. Never for acks,
// pops, deletes, renewals and upkeep: a full node can always be drained (BP-1).
inline bool grows(const machine::Command& command) {
  if (std::holds_alternative<machine::PushCommand>(command.body) ||
      std::holds_alternative<machine::DeadLetterReplayCommand>(command.body) ||
      std::holds_alternative<machine::TraceCommand>(command.body))
    return true;
  const auto* kv = std::get_if<machine::KvCommand>(&command.body);
  if (kv == nullptr) return false;
  return std::any_of(kv->ops.begin(), kv->ops.end(), [](const machine::KvOp& op) {
    return op.kind == machine::KvKind::put || op.kind == machine::KvKind::put_if_absent;
  });
}

}  // namespace queen::broker

// Reads of this node's state plane (api-state.md): what KvReads, TimerReads and StreamsReads walk, and the
// small rows that decide what a tenant may do.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/keys.h"
#include "store/rows.h"
#include "store/store.h"

namespace queen::broker {

// Operator's switches: flags that are absent while the surface is on (operations.md 8).
inline constexpr std::string_view kKvSwitch = "kv_enabled";
inline constexpr std::string_view kTimersScheduleSwitch = "timers_schedule_enabled";
inline constexpr std::string_view kTimersFireSwitch = "timers_fire_enabled";
inline constexpr std::string_view kEphemeralSwitch = "ephemeral_enabled";
inline constexpr std::string_view kSwitchedOff = "0";  // the flag's value when it is off

// Thread-safe; lives as long as the broker. Every call reads whole entries only.
class StateReads {
 public:
  explicit StateReads(const store::Store& store) : store_(store) {}

  // Whether the queue's payloads are stored sealed; not for a queue that does not exist.
  bool encrypts(std::string_view tenant, std::string_view queue) const;
  std::optional<Bytes> flag(std::string_view name) const;
  // Whether a switch is on.
  bool on(std::string_view name) const { return flag(name) != kSwitchedOff; }
  std::optional<store::QuotaRow> quota(store::QuotaKind kind, std::string_view tenant) const;
  // Every tenant that has a row of the kind.
  std::vector<std::pair<std::string, store::QuotaRow>> quotas(store::QuotaKind kind) const;
  // Declared in-memory queues.
  std::optional<store::EphemeralRow> ephemeral(std::string_view tenant, std::string_view queue) const;
  std::vector<std::pair<std::string, store::EphemeralRow>> ephemerals(std::string_view tenant) const;

  // For the readers of this room alone.
  const store::Store& rows() const { return store_; }

 private:
  const store::Store& store_;
};

}  // namespace queen::broker

// What a tenant holds of the state plane, counted row by row.
#pragma once

#include <cstdint>
#include <string>

#include "broker/state_reads.h"

namespace queen::broker {

struct TenantUse {
  std::int64_t kv_rows = 0;   // expired ones that the sweep has not met count
  std::int64_t kv_bytes = 0;  // of values
  std::int64_t timers = 0;    // pending
};
enum class Counted : std::uint8_t { kv, timers, both };

// Walks the tenant's rows in steps: for Broker::look. Thread-safe.
TenantUse count_use(const StateReads& state, const std::string& tenant, Counted what);

}  // namespace queen::broker

// The timers that are due, as the commands that fire them (api-state.md TM-8).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "broker/broker.h"
#include "broker/payload_opener.h"
#include "store/store.h"

namespace queen::broker {

struct DueTimers {
  struct OfTenant {
    std::string tenant;
    machine::TimerFireCommand fire;
  };
  std::vector<OfTenant> tenants;  // by their first due timer; timers of two tenants share no command
};

// One step: the earliest that are due at `now_us` (stamp µs), at most as many and as large as `settings`
// allow, and together no larger than a push to one partition may be; the first one always. Under one read
// gate, and bounded, so that a thread with other duties may call it. `opener`: dead letters are stored opened
// (EN-5).
DueTimers due_timers(const store::Store& store, std::int64_t now_us, const TimerSettings& settings,
                     std::uint64_t entry_bytes_max, const PayloadOpener& opener = PayloadOpener(nullptr));

// What a timer's message holds: its payload, as a JSON text when it is none: `{"_raw_b64":"…"}`.
std::string timer_message(const store::TimerRow& row);
std::string raw_message(BytesView payload);

}  // namespace queen::broker

#include "broker/kv_sweep.h"

#include <algorithm>

#include "base/invariant.h"
#include "machine/apply.h"
#include "store/keys.h"

namespace queen::broker {
namespace {

constexpr std::int64_t kPauseUs = 5'000;  // between steps while there are more

}  // namespace

void KvSweep::start() {
  timers_.post_after(every_us_, [this] { tick(); });
}

bool KvSweep::more() const {
  bool found = false;
  const auto gate = store_.read_gate();
  const std::int64_t now = machine::safe_time_us(store_);
  store_.scan(store::Keyspace::kv_expiry, {}, {}, [&](BytesView key, BytesView) {
    const auto at = store::parse_kv_expiry_key(key);
    INVARIANT(at.has_value(), "a kv_expiry row has a broken key");
    found = at->expires_at <= now;
    return false;
  });
  return found;
}

void KvSweep::tick() {
  machine::Command step{std::string(kDefaultTenant), make_uuid_v7(clock_.wall_us(), random_),
                        machine::KvSweepCommand{step_rows_}};
  submit_(std::move(step), [this](const Answer<machine::Outcome>& answer) {
    timers_.post_after(answer && more() ? std::min(kPauseUs, every_us_) : every_us_, [this] { tick(); });
  });
}

}  // namespace queen::broker

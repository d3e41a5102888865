#include "sink/placement.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace queen::sink {

std::size_t ClaimLine::before(std::uint64_t ticket) const {
  return static_cast<std::size_t>(std::distance(tickets_.begin(), tickets_.lower_bound(ticket)));
}

std::size_t fair_share(std::size_t queues, std::size_t nodes) {
  const std::size_t by = std::max<std::size_t>(nodes, 1);
  return (queues + by - 1) / by;
}

std::int64_t claim_at_us(const Turn& turn) {
  const std::int64_t load = static_cast<std::int64_t>(std::min<std::size_t>(turn.node_load, 1'000'000));
  const std::int64_t at =
      turn.found_free_us + turn.jitter_us + std::min(load * 1'000'000, turn.lease_ttl_us / 2);
  const std::int64_t cool_at = turn.gave_back_at_us.value_or(0) + 2 * turn.lease_ttl_us;
  if (turn.gave_back_at_us && cool_at > turn.found_free_us) return std::max(at, cool_at);
  return turn.sink_load >= turn.share ? at + turn.lease_ttl_us : at;
}

std::int64_t look_again_us(std::int64_t lease_ttl_us, std::size_t held, std::size_t share,
                           std::int64_t jitter_us) {
  return (held < share ? lease_ttl_us / 3 : lease_ttl_us) + jitter_us;
}

std::optional<std::string> GiveBack::round(std::int64_t now_us, std::size_t share,
                                           const std::vector<HeldQueue>& held) {
  if (giving_) {
    if (!released_at_us_ || now_us - *released_at_us_ < ttl_us_) return std::nullopt;
    giving_.reset();
    released_at_us_.reset();
  }
  if (held.size() <= share) {
    above_since_us_.reset();
    return std::nullopt;
  }
  if (!above_since_us_) above_since_us_ = now_us;
  if (now_us - *above_since_us_ < ttl_us_) return std::nullopt;
  const auto least = std::min_element(held.begin(), held.end(), [](const HeldQueue& a, const HeldQueue& b) {
    return a.buffered != b.buffered ? a.buffered < b.buffered : a.name < b.name;
  });
  giving_ = least->name;
  return giving_;
}

void GiveBack::on_released(const std::string& queue, std::int64_t now_us) {
  if (giving_ == queue) released_at_us_ = now_us;
}

void GiveBack::on_held_elsewhere(const std::string& queue) {
  if (giving_ != queue || !released_at_us_) return;
  giving_.reset();
  released_at_us_.reset();
}

void GiveBack::on_abandoned(const std::string& queue) {
  if (giving_ != queue || released_at_us_) return;
  giving_.reset();
}

}  // namespace queen::sink

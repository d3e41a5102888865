#include "network.h"

namespace queen::sim {

const LinkFaults& Network::link(std::uint32_t from, std::uint32_t to) const {
  const auto found = links_.find({from, to});
  return found == links_.end() ? faults : found->second;
}

std::int64_t Network::delay(const LinkFaults& link) {
  if (dice_.chance(link.late_pct)) return dice_.between(link.delay_us_min, kLateUs);
  return dice_.between(link.delay_us_min, link.delay_us_max);
}

bool Network::gets_through(std::uint32_t from, std::uint32_t to) {
  return !cuts_.contains(std::minmax(from, to)) && !dice_.chance(link(from, to).lost_pct);
}

// A cut that comes while it is under way stops it too.
void Network::deliver(std::uint32_t from, std::uint32_t to, std::function<void()> arrive) {
  lane_.post_after(delay(link(from, to)), [this, from, to, arrive = std::move(arrive)] {
    if (!cuts_.contains(std::minmax(from, to))) arrive();
  });
}

void Network::send(std::uint32_t from, std::uint32_t to, std::function<void()> arrive) {
  if (dice_.chance(link(from, to).twice_pct) && gets_through(from, to)) deliver(from, to, arrive);
  if (gets_through(from, to)) deliver(from, to, std::move(arrive));
}

void Network::send_once(std::uint32_t from, std::uint32_t to, std::function<void()> arrive) {
  if (gets_through(from, to)) deliver(from, to, std::move(arrive));
}

}  // namespace queen::sim

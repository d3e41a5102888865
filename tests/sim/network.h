// The network between processes: each message takes its time, and may be lost, doubled or overtaken, and ends
// may be cut off from each other.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>

#include "world.h"

namespace queen::sim {

inline constexpr std::int64_t kLateUs = 3 * kSecondUs;  // the longest that a message is under way

struct LinkFaults {
  std::int64_t delay_us_min = 50, delay_us_max = 2 * kMsUs;
  std::uint64_t lost_pct = 0;   // per cent of messages
  std::uint64_t twice_pct = 0;  // arrive a second time
  std::uint64_t late_pct = 0;   // overtaken: take up to 3 s
};

// Ends are numbers that whoever uses it gives out. A message is what happens when it arrives.
class Network {
 public:
  Network(World& world, Executor& lane) : world_(world), lane_(lane), dice_(world.dice().next(), "network") {}

  // Of every link that has no faults of its own.
  LinkFaults faults;
  void set_link(std::uint32_t from, std::uint32_t to, LinkFaults link) { links_[{from, to}] = link; }
  // Cuts both ways until heal().
  void cut(std::uint32_t one, std::uint32_t other) { cuts_.insert(std::minmax(one, other)); }
  void heal() { cuts_.clear(); }
  void clear_links() { links_.clear(); }

  // A datagram: `arrive` runs never, once or twice.
  void send(std::uint32_t from, std::uint32_t to, std::function<void()> arrive);
  // A message on a connection: `arrive` runs at most once.
  void send_once(std::uint32_t from, std::uint32_t to, std::function<void()> arrive);

 private:
  const LinkFaults& link(std::uint32_t from, std::uint32_t to) const;
  std::int64_t delay(const LinkFaults& link);
  bool gets_through(std::uint32_t from, std::uint32_t to);
  void deliver(std::uint32_t from, std::uint32_t to, std::function<void()> arrive);

  World& world_;
  Executor& lane_;
  Dice dice_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, LinkFaults> links_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> cuts_;
};

}  // namespace queen::sim

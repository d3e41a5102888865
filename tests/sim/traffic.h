// Pushes that the ledger knows of and pops that the cursors do, as every workload makes them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "workload.h"

namespace queen::sim {

inline constexpr std::int64_t kCallTimeoutUs = 10 * kSecondUs;

// Transaction ids by partition.
using Batches = std::vector<std::pair<PartitionName, std::vector<std::string>>>;

machine::PushCommand push_command(Scene& scene, Client& client, const Batches& batches);
enum class Persist : std::uint8_t { one_try, some_tries, until_answered };
// Until it is answered or given up. The ledger is told what was sent, and what is stored. True: all of it is.
Task<bool> push_known(Scene& scene, Client& client, Batches batches, Persist persist = Persist::some_tries);

// A pop of the whole queue, from its start on; fields may be changed before it is used.
machine::PopCommand pop_command(Client& client, const std::string& queue, const std::string& group);
// Nothing: not answered, or refused. The ledger is told what was seen, and the cursors of each claim; when it
// commits on delivery, those are no claims.
Task<std::optional<std::vector<ClaimSeen>>> pop_known(Scene& scene, Client& client,
                                                      machine::PopCommand command, bool wait);

// Whether a group is drained: a pop that brought nothing had been sent when no lease was left that could have
// been taken before the last one that brought something, nor by a pop that was on its way when the drain
// began.
class Drain {
 public:
  explicit Drain(const World& world) : world_(world), last_us_(world.now_us()) {}
  bool ended() const { return ended_; }
  void asking() { asked_us_ = world_.now_us(); }
  // Its answer; nothing came of it when it was not answered.
  void told(bool empty) {
    if (empty)
      ended_ = asked_us_ - last_us_ >= kQuietUs;
    else
      last_us_ = world_.now_us();
  }

 private:
  static constexpr std::int64_t kQuietUs = 6 * kSecondUs;

  const World& world_;
  std::int64_t last_us_, asked_us_ = 0;
  bool ended_ = false;
};

// The ack of one message of a claim.
machine::AckItem ack_item(Scene& scene, Client& client, const ClaimSeen& claim, std::int64_t offset,
                          machine::AckStatus status);

}  // namespace queen::sim

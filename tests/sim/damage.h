// Damage done to the disk of a node that stands still, and what the contract says of it: a boot refuses it or
// serves what is right, reads report what they cannot give back, and the offline check says beforehand which
// it will be.
#pragma once

#include "ledger.h"
#include "node.h"

namespace queen::sim {

struct DamagePlan {
  enum class Kind : std::uint8_t {
    flip,     // one bit
    zeros,    // 512 bytes of zeros
    cut,      // the end of a file is missing
    removed,  // a file is
  };
  Kind kind = Kind::flip;
  bool store = false;  // of the store's file, else of the logs
};
DamagePlan draw_damage(Dice& dice);

// Damages a copy of what the node left behind, boots it and judges. The node is down.
void judge_damage(const DamagePlan& plan, const NodePlan& node, SimNode& whole, const Ledger& ledger);

}  // namespace queen::sim

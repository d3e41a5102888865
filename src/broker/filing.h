// What a dead letter needs of the log: the message that a nack may file, read before the command is planned,
// because the planner reads no files.
#pragma once

#include <cstdint>
#include <span>

#include "broker/reads.h"
#include "machine/commands.h"

namespace queen::broker {

enum class Filing : std::uint8_t {
  ready,
  too_large,   // the payloads are more than one entry holds
  unreadable,  // a message is there and cannot be read now
};

// Fills message_id and payload of the items that these acks of one call may file, and `cold` as far as they
// have no rows. Blocks on the disk. `bytes_max`: of all payloads.
Filing fill_payloads(Reads& reads, const std::string& tenant, std::span<machine::AckCommand> acks,
                     std::uint64_t bytes_max);

}  // namespace queen::broker

// Which messages a consumer group wants in a partition where it has no cursor.
#pragma once

#include <cstdint>

#include "store/rows.h"

namespace queen::machine {

// Stamp from which a message counts there (F-3); the lowest number when all do.
std::int64_t first_wanted_us(const store::GroupRow& group);

}  // namespace queen::machine

// What the halves of an ack share: where the named messages stand, and what settling them does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "machine/detail/cycle.h"

namespace queen::machine::detail {

// The items of one call that name the same partition and lease.
struct AckTarget {
  const AckCommand& command;
  std::string_view tenant;
  Pid pid;
  std::string_view lease_id;
  std::vector<std::size_t> items;  // indexes into the command, in request order
  store::PartitionRow partition;
  store::QueueRow queue;
  store::CursorRow cursor;
};

// The part of [from, to] that has no rows and may still be in the log, as a question to it; nothing when
// there is none.
std::optional<ColdAsk> cold_part(const AckTarget& target, std::int64_t from, std::int64_t to);
// Where the target's repeats may be that finished_before() does not see (DD-9).
std::optional<ColdAsk> cold_look_back(const AckTarget& target);

// For each of the target's items the offset of its message in [from, to], or nothing. The k-th item of a
// repeated id stands for its k-th message there, or for the last one when there are fewer.
std::vector<std::optional<std::int64_t>> resolve_between(const Cycle& cycle, const AckTarget& target,
                                                         std::int64_t from, std::int64_t to);
// For each of the target's items at `positions` whether the group finished a message with its id recently
// enough to know, as far as rows tell; false for the others.
std::vector<bool> finished_before(const Cycle& cycle, const AckTarget& target,
                                  const std::vector<std::size_t>& positions);

// One message that the call names, with what it says of it: the strongest of the items that name it.
struct Named {
  std::int64_t offset = 0;
  AckStatus status = AckStatus::completed;
  const AckItem* item = nullptr;
};

// What becomes of the cursor, computed before anything is written.
struct Settlement {
  store::CursorRow cursor;
  std::vector<const Named*> filed;  // dead letters, ascending by offset
  bool released = false;
  bool changed = false;
  std::uint32_t failed = 0;  // messages named `failed`
};
// `named` ascends by offset, each offset once, all behind the cursor's committed offset.
Settlement settle_leased(const AckTarget& target, const std::vector<Named>& named);
Settlement settle_unleased(const AckTarget& target, const std::vector<Named>& named);

}  // namespace queen::machine::detail

// What became of the messages of one partition: M-1 of api-messaging.md 11.1.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "broker/partition_figures.h"

namespace queen::broker {

class MessageStatuses {
 public:
  // Takes the read gate. Looks at the dead letters of offsets `from`..`to` only, in steps; keeps 8 bytes for
  // each.
  MessageStatuses(const store::Store& store, Clock& clock, Pid pid, std::int64_t from, std::int64_t to);

  MessageStatus of(std::int64_t offset) const;
  // In queue mode alone; nothing where it has no cursor.
  std::optional<MessageStatus> in_queue_mode(std::int64_t offset) const;
  // Offsets at or below are completed unless they are dead letters; above it none is.
  std::int64_t completed_to() const { return completed_to_; }
  // Any cursor holds a live lease: then what is not completed is processing. When the last one ends.
  std::optional<std::int64_t> leased_until() const { return leased_until_; }
  // Ascending, distinct, in the range that was looked at.
  const std::vector<std::int64_t>& dead() const { return dead_; }
  bool is_dead(std::int64_t offset) const;
  const std::vector<CursorState>& cursors() const { return cursors_; }

 private:
  std::vector<CursorState> cursors_;
  std::int64_t completed_to_ = -1;
  std::optional<std::int64_t> leased_until_;
  std::vector<std::int64_t> dead_;
};

}  // namespace queen::broker

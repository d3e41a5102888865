// Pushing: prepared messages, and what became of them (api-messaging.md 3).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "machine/effects.h"

namespace queen::machine {

inline constexpr std::string_view kQueueMode = "__QUEUE_MODE__";  // the group of pops that name none

// The items of one push that go to one partition, in request order.
struct PushBatch {
  std::string queue, partition;
  Bytes hashes;                           // 16 per item: xxh3_128 of each transactionId
  Bytes frames;                           // message frames, concatenated
  std::vector<std::uint32_t> frame_ends;  // end of each item's frame in `frames`
  bool sealed = false;                    // payloads are encrypted as far as their queue asks for it
  std::shared_ptr<const StoredPayload>
      stored;  // of all frames, ready for the log; used when no item is dropped
  std::size_t items() const { return frame_ends.size(); }
  // What it counts against batch_bytes_max (PL-4).
  static constexpr std::uint64_t kWeight = 256, kItemWeight = 32;  // beside its bytes, and of each item
  std::uint64_t weight() const { return frames.size() + hashes.size() + items() * kItemWeight + kWeight; }
};
struct PushCommand {
  std::vector<PushBatch> batches;  // distinct (queue, partition)
  std::uint64_t batch_bytes_max = 96ULL
                                  << 20;  // QUEEN_RAFT_ENTRY_MAX_BYTES; a batch above it answers too_large
};
struct PushItemOutcome {
  enum class Status : std::uint8_t { queued, duplicate, too_large };
  Status status = Status::queued;
  std::uint64_t offset = 0;                     // of the stored message, the original's for a duplicate
  std::optional<std::uint32_t> first_in_batch;  // a duplicate of this earlier item of the same batch (P-9)
};
struct PushBatchOutcome {
  Pid pid;  // 0 when nothing was ever stored there
  std::uint64_t queue_id = 0;
  std::vector<PushItemOutcome> items;
};
struct PushOutcome {
  std::vector<PushBatchOutcome> batches;  // aligned with the command's
};

}  // namespace queen::machine

// Which logs an entry leaves a record in (storage.md 3.2), and the message records it brings.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "machine/effects.h"
#include "qlog/compressor_pool.h"
#include "qlog/queue_logs.h"
#include "replica/replicator.h"
#include "store/view.h"

namespace queen::broker {

// The queue id of a partition: from the hint when there is one, else from the store; 0 when the partition is
// unknown.
std::uint64_t queue_id_of(Pid pid, std::uint64_t hint, const store::View& view);

// Whether a log is there now: a queue's log is removed when nothing is left in it (ID-3).
using LogExists = std::function<bool(LogId)>;

// Ascending, distinct; the system log alone when no effect touches a queue's. An effect that only takes away
// (a watermark, a deletion) is at home in the system log once the queue's log was removed.
std::vector<LogId> touched_logs(const machine::Entry& entry, const qlog::Layout& layout,
                                const store::View& view, const LogExists& exists);

// Where and how the records of an entry go; borrowed for the call.
struct Placing {
  const qlog::Layout& layout;
  const store::View& view;
  const LogExists& exists;
};

// Payloads that were put together anew, because duplicates were dropped, as the log gets them: by the number
// of the effect; null where a payload is stored as it is.
using Compressed = std::vector<std::shared_ptr<const Bytes>>;
// Takes milliseconds: not with a gate held.
Compressed compress_unsettled(const machine::Entry& entry, qlog::CompressorPool& compressors, int zstd_level);

// What the replicator needs of a planned entry; it owns `entry` and everything that its records borrow.
std::shared_ptr<replica::Proposal> make_proposal(std::shared_ptr<const machine::Entry> entry,
                                                 Compressed compressed, const Placing& placing);

// How recovery learns which message records an entry must have.
qlog::AppendsOf appends_of_entry();

}  // namespace queen::broker

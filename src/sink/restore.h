// What a new owner of a queue finds: the KV documents, the newest usable checkpoint, a finished upload
// (s3-sink.md 8.2, 10.4, 11; HD-12).
#pragma once

#include <cstdint>
#include <optional>
#include <tl/expected.hpp>

#include "sink/manifest.h"
#include "sink/sink_world.h"
#include "sink/window_engine.h"

namespace queen::sink {

struct Restored {
  RestorePoint point;
  std::uint64_t committed_version = 0;  // of the pointer's row, 0 = absent
  std::uint64_t intent_version = 0;     // of the intent's row, also when it does not parse
};

// Waits through retriable failures. A stop or a lost lease while waiting ends it as drained or fenced.
Task<tl::expected<Restored, RunStop>> restore(QueueContext& context, Lease& lease);

// The manifest of the finished upload of `intent`; nothing when there is none, or one that is not of this
// intent. A retriable failure is waited out and never read as "not there".
Task<tl::expected<std::optional<Manifest>, RunStop>> find_finished(QueueContext& context, Lease& lease,
                                                                   Intent intent);

// Warns, once in the life of the task, when the last committed window stands under a path of another form
// than this alignment writes: readers that take day and hour from the path would see two (HD-17). A window
// that cannot be looked at is passed over.
Task<void> compare_paths(QueueContext& context, Committed last);

}  // namespace queen::sink

// Opening a data directory: lock, store, logs, replay (storage.md 13). Every refusal is an Error whose text
// is what stands behind `FATAL: `.
#pragma once

#include <functional>
#include <memory>

#include "broker/broker.h"
#include "store/checkpoint_file.h"
#include "store/store.h"

namespace queen::broker {

struct Opened {
  std::unique_ptr<disk::LockHeld> lock;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<store::CheckpointFile> checkpoint;
  std::unique_ptr<qlog::QueueLogs> logs;
  qlog::DurableState durable;
  EntryIndex last;  // the next entry takes the index after it
};

// Whether the local replicator may open `directory` (BR-13). Errors: corrupt (it may not), unavailable.
Status check_owner(const std::string& directory, disk::Disk& disk);
// What the checkpoint in `store` says about the logs. Errors: corrupt (BR-5: rows that do not parse or
// contradict each other).
Result<qlog::DurableState> durable_state(const store::Store& store);

// Whether this build may read the store (BR-7). Errors: corrupt.
Status check_version(const store::Store& store);

Result<Opened> open_directory(const Settings& settings, disk::Disk& disk, qlog::ParallelRunner& runner,
                              Clock& clock, const std::function<void(double)>& progress, Logger log);

}  // namespace queen::broker

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

Result<Opened> open_directory(const Settings& settings, disk::Disk& disk, qlog::ParallelRunner& runner,
                              Clock& clock, const std::function<void(double)>& progress, Logger log);

}  // namespace queen::broker

// The gauges of a node, from where each is known.
#pragma once

#include "broker/checkpointer.h"
#include "broker/core.h"
#include "broker/disk_gate.h"
#include "broker/meter.h"
#include "broker/pop_flow.h"
#include "qlog/queue_logs.h"
#include "store/checkpoint_file.h"

namespace queen::broker {

struct GaugeSources {
  const Core& core;
  const qlog::QueueLogs& logs;
  const store::CheckpointFile& checkpoint;
  const Checkpointer& checkpointer;
  const PopFlow& pops;
  const DiskGate& gate;
};

// Any thread.
inline NodeGauges read_gauges(const GaugeSources& from) {
  NodeGauges out;
  const auto logs = from.logs.stats();
  const auto map = from.checkpoint.usage();
  // From the last to the first, so that none seems to be ahead of the one before it.
  out.durable = from.checkpointer.durable().value;
  out.applied = from.core.applied().value;
  out.committed = from.core.replicator().committed().value;
  out.log_index = from.core.replicator().next_index().value - 1;
  out.inflight = from.core.in_flight();
  out.log_files = logs.files;
  out.log_bytes = logs.bytes;
  out.map_used_pct = map.map_bytes == 0 ? 0 : map.used_bytes * 100 / map.map_bytes;
  out.waiting_pops = from.pops.waiting();
  out.storage_full = from.gate.closed();
  return out;
}

}  // namespace queen::broker

// Where an entry becomes durable and gets its place in the log. `local` is one node; a cluster is a second
// implementation of the same face (cluster.md 5, 12).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/executor.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "qlog/queue_logs.h"

namespace queen::replica {

enum class Role : std::uint8_t { leader, follower, learner, candidate, stopped };
std::string_view name_of(Role role);

// An entry on its way, with the bytes of its messages. Shared: the log reads it while apply waits for it.
struct Proposal {
  EntryIndex index;  // given by propose()
  std::int64_t now_us = 0;
  Bytes entry;  // payload-free encoding
  std::vector<qlog::MessageToWrite> messages;
  std::vector<LogId> touched;                       // ascending
  std::vector<std::shared_ptr<const Bytes>> owned;  // payloads that were compressed on the way
  std::shared_ptr<const void>
      decoded;  // what `entry` encodes, handed through to on_committed; owns what `messages` borrow
  std::uint64_t bytes = 0;  // for batching
};

struct Committed {
  EntryIndex index;
  std::uint64_t term = 0;
  std::shared_ptr<Proposal> proposal;
};

// What the replicator tells its owner. Calls come from one thread of the replicator, in order, and must not
// block for long.
struct Events {
  // Committed and durable on this node, in index order, each once.
  std::function<void(std::vector<Committed>)> on_committed;
  // The entries from `first` on were not written and never will be; nothing changed. `full`: the disk is;
  // `busy`: no descriptors while the node stops. The planner must forget them before it proposes again.
  std::function<void(EntryIndex first, Error cause)> on_lost;
  // A write or fsync failed: the node takes no more writes (GC-9). Once.
  std::function<void(Error cause)> on_stopped;
};

class Replicator {
 public:
  virtual ~Replicator() = default;
  // Hands an entry over. Index: the one after the last proposed. Never waits for the disk. Only from the
  // planner's thread. Errors: unavailable (not leading, stopped); full (entries were lost and not yet
  // accepted as such).
  virtual Result<EntryIndex> propose(std::shared_ptr<Proposal> proposal) = 0;
  // The owner has forgotten what on_lost() named; proposals are taken again. Until then propose() answers
  // `full`.
  virtual void accept_loss() = 0;
  // The index the next propose() gives.
  virtual EntryIndex next_index() const = 0;
  virtual Role role() const = 0;
  virtual std::uint64_t term() const = 0;
  virtual EntryIndex committed() const = 0;
  // Calls `done` once this node has committed everything that was committed anywhere when it was called.
  virtual void barrier(UniqueFunction<void(Status)> done) = 0;
  struct Member {
    std::uint64_t id = 0;
    std::string address;
    bool voter = true;
  };
  virtual std::vector<Member> members() const = 0;
  // The owner is about to stop: what cannot be written for want of descriptors is tried for two more seconds
  // and then lost (on_lost with Errc::busy) instead of waited out. Any thread.
  virtual void stop_waiting() = 0;
  // Returns once what was proposed is written and synced; nothing is taken any more. Idempotent.
  virtual void stop() = 0;
};

struct LocalSettings {
  std::size_t group_entries_max = 4096;
  std::uint64_t group_bytes_max = 4ULL << 20;
};
// Where the local replicator runs: one group is written while the one before is synced (GC-6). Both outlive
// it, and are stopped after its stop() and before its end.
struct LocalThreads {
  Executor& writer;
  Executor& syncer;
};
// One node: indexes from `next`, term 0; commit = own fsyncs.
std::unique_ptr<Replicator> make_local_replicator(qlog::QueueLogs& logs, EntryIndex next,
                                                  LocalSettings settings, LocalThreads threads, Events events,
                                                  Logger log);

}  // namespace queen::replica

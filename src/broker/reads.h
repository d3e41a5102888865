// Reads of this node's applied state: where things are from the store, the bytes from the queue logs.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "broker/broker.h"
#include "broker/cold_log.h"
#include "broker/payload_opener.h"
#include "store/store.h"

namespace queen::broker {

// Thread-safe; calls that return messages block on the disk. No read gate is held across I/O.
class Reads {
 public:
  // `cipher` outlives this; null: payloads stay as they are stored.
  Reads(const store::Store& store, qlog::QueueLogs& logs, Clock& clock,
        const auth::PayloadCipher* cipher = nullptr)
      : store_(store), logs_(logs), clock_(clock), cold_(logs), opener_(cipher) {}

  const ColdLog& cold() const { return cold_; }

  // Messages `first`..`last` of a partition, as far as they can be read one after the other: a damaged or
  // missing record ends the run before it (L-11).
  Messages range(Pid pid, std::uint64_t queue_id, std::uint64_t first, std::uint64_t last);
  // The id of the message at `offset`; nothing when it is gone, or is no longer retained and cannot be read.
  // Errors: corrupt, unavailable.
  Result<std::optional<Uuid>> id_of(Pid pid, std::uint64_t queue_id, std::uint64_t offset);
  // Messages from `first` on, not beyond `last`: as many as one read brings, at least one when it can be
  // read.
  Messages some(Pid pid, std::uint64_t queue_id, std::uint64_t first, std::uint64_t last);
  // Where the messages stand that nacks of a group name, above its cursor: the k-th mention of a hash is its
  // k-th message. Nothing for a partition that does not exist or is another tenant's. Errors: as
  // ColdLog::read().
  struct Named {
    Pid pid;
    std::uint64_t queue_id = 0;
    bool budget_left = false;  // a `failed` surely brings the message back instead of filing it
    std::vector<std::optional<std::uint64_t>> offsets;
    machine::ColdFacts cold;  // what had no rows, for the planner to see the same
  };
  Result<std::optional<Named>> named(const std::string& tenant, Pid pid, const std::string& group,
                                     const std::vector<Hash128>& hashes);

  Answer<std::vector<FetchEntryAnswer>> fetch(const std::string& tenant, std::span<const FetchEntry> entries);
  Answer<std::vector<OffsetEntryAnswer>> offsets(const std::string& tenant,
                                                 std::span<const OffsetEntry> entries);
  ChangedAnswer changed(const std::string& tenant, std::span<const ChangedEntry> entries);
  QueuesAnswer queues(const std::string& tenant, QueueDetail detail);

 private:
  // What the log gave, as readers get it.
  void append_messages(Messages& to, qlog::ReadBatch batch) const;
  struct Place {
    Pid pid;
    std::uint64_t queue_id = 0;
    std::uint64_t log_start = 0, end = 0;  // end exclusive
  };
  bool queue_exists(const std::string& tenant, const std::string& queue) const;
  // Offsets of a partition among which a nack names messages, both inclusive.
  struct Span {
    std::int64_t from = 0, to = 0;
  };
  Span named_span(const std::string& tenant, const store::PartitionRow& partition, const std::string& group,
                  Named& named) const;
  void each_hash(Pid pid, Span span, const machine::ColdFacts& cold,
                 const std::function<bool(std::int64_t offset, const Hash128& hash)>& visit) const;
  std::vector<std::optional<std::uint64_t>> offsets_of(Pid pid, Span span, const machine::ColdFacts& cold,
                                                       const std::vector<Hash128>& hashes) const;
  std::optional<Place> place(const std::string& tenant, const std::string& queue,
                             const std::string& partition) const;
  // Completes `answer`, which has no error yet, with the bounds and messages of the partition `at`.
  Answer<void> fetch_one(const FetchEntry& entry, const std::optional<Place>& at, FetchEntryAnswer& answer);
  Answer<OffsetEntryAnswer> offset_of(const std::string& tenant, const OffsetEntry& entry);
  ChangedEntryAnswer changed_one(const std::string& tenant, const ChangedEntry& entry);
  void count(const std::string& tenant, QueueSummary& summary);

  const store::Store& store_;
  qlog::QueueLogs& logs_;
  Clock& clock_;
  ColdLog cold_;
  PayloadOpener opener_;
};

}  // namespace queen::broker

// Commands: what a client call became after preparation, and what the planner answers (storage.md 7).
// A command carries everything that its decision needs: names, hashes, minted ids, prepared bytes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "machine/cold.h"
#include "machine/effects.h"
#include "machine/push_command.h"
#include "machine/state_commands.h"
#include "store/rows.h"

namespace queen::machine {

struct Subscription {
  enum class Mode : std::uint8_t { all = 0, fresh = 1, timestamp = 2 };  // stored numbers
  Mode mode = Mode::fresh;
  std::int64_t from_us = 0;  // timestamp: first stamp wanted; `now` is resolved by the planner when from_now
  bool from_now = false;
};
// The queues of a discovery pop: those that have every label that is given.
struct PopLabels {
  std::optional<std::string> namespace_name, task;
};
struct PopCommand {
  std::string queue;                     // empty for a discovery
  std::optional<std::string> partition;  // pinned
  std::optional<PopLabels> labels;       // discovery: all queues with these labels
  std::string group{kQueueMode};
  std::uint32_t batch = 200;
  std::uint32_t partitions_max = 1;
  std::int32_t lease_seconds = 0;  // 0: the queue's leaseTime, else 60
  bool commit_on_delivery = false;
  Subscription subscription;
  std::optional<bool> conflation;     // as asked
  bool autopilot_batch = false;       // the planner picks `batch`
  bool autopilot_partitions = false;  // the planner picks `partitions_max`
  Uuid lease_id;                      // minted by the receiver
  Uuid queue_uuid, group_uuid;        // minted, used when the pop creates them (F-1, F-2)
  ColdFacts cold;                     // what an earlier try asked for
};
struct PopClaim {
  Pid pid;
  std::uint64_t queue_id = 0;
  std::string queue;  // of a discovery; else empty: the command names it
  std::string partition;
  std::uint64_t first = 0, last = 0;  // offsets leased, inclusive
  std::uint64_t deliver_from = 0;     // first offset to hand out: `first`, or `last` when conflating
  std::uint32_t delivery_attempt = 1;
  bool cold = false;          // it begins with a message that has no row (CE-8)
  bool after_expiry = false;  // the lease before it ran out (HD-38)
};
struct PopOutcome {
  std::vector<PopClaim> claims;
  std::optional<std::int64_t>
      look_again_at;  // stamp µs at which a lease, delay or window ends; for parked pops
  bool conflation = false;
  bool conflation_conflict = false;
  std::uint32_t batch = 0, partitions_max = 0;  // what was used
  std::vector<ColdAsk> cold_asks;               // not empty: nothing was claimed; submit again with the facts
};
// What became of claims that are not simply left to their acks.
struct HandBackCommand {
  std::string group;
  Uuid lease_id;
  // Nobody received them (L-9): lease dropped, cursor unmoved, attempt not counted.
  std::vector<Pid> pids;
  struct End {
    Pid pid;
    std::int64_t delivered = -1;  // last offset that was handed out
  };
  // Handed out in part, because a message behind the part cannot be read (L-11): the lease ends there.
  std::vector<End> cuts;
  // Commit on delivery: settled up to there. Only now that they were read, so that a crash before it brings
  // them back and none is skipped (CR-5).
  std::vector<End> settled;
};
struct HandBackOutcome {
  std::vector<Pid> lost;  // of `settled`: somebody else has the lease by now, and nothing was settled
};

enum class AckStatus : std::uint8_t { completed, failed, retry, dlq };
struct AckItem {
  std::string partition_id;  // as sent; decimal digits
  std::string lease_id;      // as sent, empty = none
  Hash128 hash;              // xxh3_128 of the transactionId
  std::string transaction_id;
  AckStatus status = AckStatus::completed;
  std::optional<std::string> error;
  Uuid dlq_id;  // minted for every item that is not completed
  // For items that may be filed: the message as it stands in the log, when it could be read.
  std::optional<Uuid> message_id;
  std::optional<Bytes> payload;
};
struct AckCommand {
  std::string group{kQueueMode};
  std::vector<AckItem> items;
  ColdFacts cold;  // what an earlier try asked for
};
struct AckItemOutcome {
  bool success = false;
  std::string error;  // empty = null
  bool lease_released = false, dlq = false, noop = false;
};
struct AckOutcome {
  std::vector<AckItemOutcome> items;
  // Items answered as unresolvable because no row knows them. They are repeats all the same (A-11, DD-9) when
  // an append of the range holds their hash.
  struct LookBack {
    ColdAsk range;
    std::vector<std::size_t> items;
  };
  std::vector<LookBack> look_back;
  std::vector<ColdAsk> cold_asks;  // not empty: nothing was decided; submit again with the facts
};
// Answers those of `items` (indexes into `ack`) as repeats whose message `facts` hold in `range`, and takes
// them out of `items`.
void answer_looked_back(const AckCommand& ack, const ColdAsk& range, const ColdFacts& facts,
                        std::vector<std::size_t>& items, AckOutcome& outcome);

// Option values that were sent; nullopt inside = explicit null (restore the default).
struct ConfigureCommand {
  std::string queue;
  bool replace = false;
  std::map<std::string, std::optional<std::int64_t>>
      integers;  // keys as in api-messaging.md 10.2, e.g. "leaseTime"; booleans 0/1
  std::map<std::string, std::optional<std::string>> texts;  // "namespace", "task", "retentionSinkHold"
  Uuid queue_uuid;                                          // minted, used when the queue is made
};
struct ConfigureOutcome {
  store::QueueRow row;
};

// One partition whose watermarks may move (storage.md 17). The stamps and bytes are facts of appends, which
// never change; everything else is judged again at planning (RT-11).
struct RetentionMove {
  Pid pid;
  // log_start that the bytes below were counted from: another present value drops the log part of the move.
  std::int64_t log_start_from = 0;
  std::int64_t log_start = 0, txns_start = 0, rows_start = 0;  // proposed; ends of whole appends
  // created_at of the last append below each; 0 = not proposed.
  std::int64_t log_stamp = 0, txns_stamp = 0, rows_stamp = 0;
  std::uint64_t retained_bytes = 0;  // raw frame bytes of the appends in [log_start_from, log_start)
  std::optional<std::int64_t> oldest_live_at;  // stamp of the first append at or above log_start
  bool remove = false;                         // partition cleanup (RT-13); then nothing else counts
};
struct RetentionCommand {
  static constexpr std::size_t kMovesMax = 1'024;
  std::vector<RetentionMove> moves;
  std::int64_t txn_window_min_us = 0;
  std::int64_t cleanup_us = 0;         // without a write; 0 = partitions are kept
  bool rows_window = true;             // rows leave by the dedup window alone (RT-9)
  std::uint32_t dead_letters_max = 0;  // per watermark; 0 = dead letters are outside retention (D-3)
};
struct RetentionOutcome {
  std::uint32_t moved = 0, dropped = 0, removed = 0;
};

// One step of a queue's deletion; the broker repeats it until it is `done`. A queue of up to
// kDeleteChunkRowsMax partitions and dead letters goes in one step.
struct QueueDeleteCommand {
  std::string queue;
  std::uint64_t pid_end = 0;  // from the outcome of the first step; 0 = this is it
};
struct QueueDeleteOutcome {
  bool existed = false;
  bool done = true;
  std::uint64_t pid_end = 0;  // partitions below it go before the name does
};
// One step of a group's deletion on one queue: at most kDeleteChunkRowsMax cursors.
struct GroupDeleteCommand {
  std::string queue, group;
  bool keep_registration = false;
  std::uint64_t from_pid = 0;  // from the outcome of the step before
};
struct GroupDeleteOutcome {
  bool registration_deleted = false;
  std::uint32_t cursors = 0;           // deleted by this step
  std::optional<std::uint64_t> again;  // from_pid of the next step
};
// One step of setting a group's cursors on one queue by time: at most kStep partitions
// (api-messaging.md 9.2).
struct SeekCommand {
  static constexpr std::size_t kStep = 1'000;
  std::string queue, group;
  std::optional<std::string> partition;  // this one alone
  std::optional<std::int64_t> since_us;  // stamp of the first message wanted; nothing: to the end
  std::uint64_t from_pid = 0;            // both from the outcome of the step before
  std::uint64_t pid_end = 0;
  ColdFacts cold;  // what an earlier try of this step asked for
};
struct SeekOutcome {
  bool found = false;                  // the queue, and the partition when one is named
  std::uint32_t partitions = 0;        // whose cursors are where this step wants them
  std::optional<std::uint64_t> again;  // from_pid of the next step
  std::uint64_t pid_end = 0;           // partitions from it on were made after the first step: not moved
  std::vector<ColdAsk> cold_asks;      // not empty: nothing was moved; submit again with the facts
};
// One step of a new policy for a group on every queue where it is registered: "from that instant"
// (api-messaging.md 9.3): at most kStep queues are looked at and one registration is changed.
struct SubscribeCommand {
  static constexpr std::size_t kStep = 1'000;
  std::string group;
  std::int64_t from_us = 0;
  std::string from_queue;  // from the outcome of the step before
};
struct SubscribeOutcome {
  std::uint32_t rows = 0;            // registrations that have the policy now, of this step
  std::optional<std::string> again;  // from_queue of the next step
};
// Prolongs every live lease of one id (api-messaging.md 6).
struct RenewCommand {
  std::string lease_id;       // as sent
  std::int64_t seconds = 60;  // 1..2^31-1
};
struct RenewOutcome {
  std::uint32_t renewed = 0;               // partitions
  std::optional<std::int64_t> expires_at;  // the earliest of them
};
// Deletes rows of what is gone, at most kDeleteChunkRowsMax (storage.md RT-15).
struct GarbageCommand {};
struct GarbageOutcome {
  bool more = false;
};

// Sets where a group reads on in a partition, or forgets it (api-messaging.md 7.1).
struct Position {
  std::string queue, partition, group;
  std::optional<std::int64_t>
      offset;  // the next to read, at least 0 and maybe beyond the end; nothing: forget
  std::string metadata;
  Subscription subscription;  // of the registration, when this makes it
};
// Parts that take place together or not at all, in one entry (api-messaging.md 7).
struct TransactionCommand {
  std::vector<AckCommand> acks;  // one per group, in order of first appearance
  PushCommand push;
  std::vector<Position> positions;
  KvCommand kv;
  TimersCommand timers;
  std::uint64_t positions_bytes_max = 96ULL << 20;  // QUEEN_RAFT_ENTRY_MAX_BYTES
};
struct TransactionOutcome {
  std::string reason, error;  // why nothing took place (7.4); empty: all did, unless it is undecided
  // As the command's; complete when all took place. Of a rolled back one the parts up to the one that
  // refused.
  std::vector<AckOutcome> acks;
  PushOutcome push;
  KvOutcome kv;
  TimersOutcome timers;
  bool undecided = false;  // some of `acks` asks the log: submit again with the facts
};
// No effect: its outcome is answered once everything planned before it is applied (N-4).
struct BarrierCommand {};

// Removes dead letters of one queue by their ids; those that are gone are passed over. The broker splits what
// is more than kDeleteChunkRowsMax.
struct DeadLetterDeleteCommand {
  std::string queue;
  std::vector<Uuid> ids;
};
struct DeadLetterDeleteOutcome {
  std::uint64_t removed = 0;
};
// Appends a copy of a dead letter and removes the dead letter, both or neither (api-messaging.md D-1).
struct DeadLetterReplayCommand {
  std::string queue;  // of the dead letter
  Uuid dlq_id;
  PushCommand copy;  // one batch of one item; its transactionId is `dlq:` and the id (D-2)
};
struct DeadLetterReplayOutcome {
  enum class Verdict : std::uint8_t {
    moved,
    duplicate,  // the destination has that replay already: nothing changed
    gone,       // there is no such dead letter: nothing changed
  };
  Verdict verdict = Verdict::gone;
  std::uint64_t offset = 0;  // of the copy, or of the message it repeats
};

// Stores a trace event (api-messaging.md 13).
struct TraceCommand {
  std::optional<Pid> pid;
  std::string transaction_id;
  store::TraceRow row;  // without its stamp
};
struct TraceOutcome {
  bool stored = false;  // false: the tenant has no such partition
};
// Drops traces that are older than their retention, oldest first.
struct TraceExpireCommand {
  std::int64_t retention_us = 0;
  std::uint32_t limit = 512;
};
struct TraceExpireOutcome {
  bool more = false;
};

struct Nothing {};

// One command. `tenant` is 36 characters.
struct Command {
  std::string tenant;
  Uuid request_id;
  std::variant<PushCommand, PopCommand, HandBackCommand, AckCommand, ConfigureCommand, KvCommand,
               KvSweepCommand, RetentionCommand, QueueDeleteCommand, GroupDeleteCommand, GarbageCommand,
               TransactionCommand, BarrierCommand, DeadLetterDeleteCommand, DeadLetterReplayCommand,
               TraceCommand, TraceExpireCommand, SeekCommand, SubscribeCommand, RenewCommand, TimersCommand,
               TimerFireCommand, StreamsRegisterCommand, StreamsCycleCommand, FlagCommand, QuotaCommand,
               EphemeralConfigureCommand, EphemeralDeleteCommand>
      body;
  // When its caller stops waiting, by the monotonic clock; 0 = never. Not for the planner: until then the
  // command may wait for its turn (section 24).
  std::int64_t deadline_mono_us = 0;
};

// What the planner decided. `code` is not empty when the command was refused: an engine code of
// api-messaging.md 1.4.
struct Outcome {
  std::string code, error;
  std::variant<Nothing, PushOutcome, PopOutcome, AckOutcome, ConfigureOutcome, KvOutcome, RetentionOutcome,
               QueueDeleteOutcome, GroupDeleteOutcome, GarbageOutcome, TransactionOutcome,
               DeadLetterDeleteOutcome, DeadLetterReplayOutcome, TraceOutcome, TraceExpireOutcome,
               HandBackOutcome, SeekOutcome, SubscribeOutcome, RenewOutcome, TimersOutcome, TimerFireOutcome,
               StreamsRegisterOutcome, StreamsCycleOutcome, EphemeralConfigureOutcome, EphemeralDeleteOutcome>
      body;
};

// Bytes a command adds to an entry, estimated: for batch limits and admission.
std::uint64_t estimated_bytes(const Command& command);

}  // namespace queen::machine

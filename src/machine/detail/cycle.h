// What the plan_* files share while one entry is planned.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "machine/commands.h"
#include "machine/dedup_index.h"
#include "machine/detail/folding_view.h"
#include "machine/detail/lookup.h"
#include "machine/detail/ready_runs.h"
#include "machine/planner.h"

namespace queen::machine::detail {

// What the leader remembers of a (tenant, queue, group) to serve it evenly. It steers which partitions a pop
// looks at first and how much an autopilot pop asks for, never what is correct, so it may be forgotten at any
// time.
struct GroupHint {
  std::uint64_t next_pid = 0;                // where the next pop starts to look
  std::optional<double> drained_per_second;  // smoothed: messages acked per second of lease
  ReadyRuns runs;                            // partitions that need not be looked at yet
  std::string next_queue;                    // of a tenant's discovery pops: where the next one begins
};
class GroupHints final : public PendingWatch {
 public:
  // Borrowed until the next call.
  GroupHint& of(std::string_view tenant, std::string_view queue, std::string_view group);
  // The group was seen to work at this rate, in messages per second of lease.
  void drained(std::string_view tenant, std::string_view queue, std::string_view group, double per_second);
  // Takes over the rates of `other` as one sample each.
  void learn(const GroupHints& other);
  // What was learnt of a queue's groups does not hold for those that come after them.
  void forget(std::string_view tenant, std::string_view queue);
  // What was planned will not happen, or holds are over earlier than they were: nothing is known to be quiet.
  void forget_runs();
  void forget_runs(std::string_view tenant, std::string_view queue, std::string_view group);
  void pending(BytesView key, std::int64_t ready_at) override;

 private:
  GroupHint& at(const Bytes& key);
  static void smooth(GroupHint& hint, double per_second);
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(BytesView key) const { return std::hash<BytesView>{}(key); }
  };
  std::unordered_map<Bytes, GroupHint, Hash, std::equal_to<>> hints_;
};

// Finds repeats inside one batch without allocating per item. Kept between batches.
class RepeatFinder {
 public:
  // For each 16-byte hash the index of the first equal one before it, or nothing. Borrowed until the next
  // call.
  const std::vector<std::optional<std::uint32_t>>& find(BytesView hashes);

 private:
  struct Slot {
    std::uint32_t round = 0;  // of the call that wrote it
    std::uint32_t index = 0;
  };
  std::vector<Slot> slots_;
  std::vector<std::optional<std::uint32_t>> firsts_;
  std::uint32_t round_ = 0;
};

// Buffers of a push, kept between batches.
struct PushScratch {
  RepeatFinder repeats;
  std::vector<std::optional<std::uint64_t>> stored;
};

// Whether what a cycle emits is in the entry for good, or on trial and may be dropped (detail/trial.h).
enum class Standing : std::uint8_t { final, trial };

struct Cycle {
  FoldingView& view;
  std::int64_t now = 0;
  EntryIndex index;
  std::span<const Command* const> commands;
  LogState& log;
  DedupIndex& dedup;
  GroupHints& hints;
  PushScratch& push;
  Entry& entry;
  std::unordered_map<Bytes, std::size_t> pops_by_group;  // by group key; filled when first asked for
  Standing standing = Standing::final;

  // Runs the effect on the view and adds it to the entry. A refusal means that the planner and the rules of
  // effects disagree, which must end the process.
  void emit(Effect effect);
  std::uint64_t mint_kv_version() { return log.kv_version_next++; }
};

// Ids that a push has to mint carry the time and the chance of its request id, so that the planner needs
// none.
Uuid derived_uuid(const Uuid& request_id, std::string_view purpose, std::uint64_t number);
// A queue that a push or a pop makes (P-5, P-6).
store::QueueRow implicit_queue(std::string_view queue, const Uuid& uuid, std::int64_t now_us);

// Makes the queue and the partition where they are missing, as a push does. `ordinal`: of the place in its
// command.
Pid ensure_partition(Cycle& cycle, const Command& command, std::string_view queue, std::string_view partition,
                     std::size_t ordinal);
Outcome plan_push(Cycle& cycle, const Command& command, const PushCommand& push);
PopOutcome plan_pop(Cycle& cycle, const Command& command, const PopCommand& pop);
HandBackOutcome plan_hand_back(Cycle& cycle, const Command& command, const HandBackCommand& hand_back);
// Whether an ack under a lease that an equal ack released is answered as that one was, or refused.
enum class Repeats : std::uint8_t { answered, refused };
AckOutcome plan_ack(Cycle& cycle, const Command& command, const AckCommand& ack,
                    Repeats repeats = Repeats::answered);
Outcome plan_configure(Cycle& cycle, const Command& command, const ConfigureCommand& configure);
KvOutcome plan_kv(Cycle& cycle, const Command& command, const KvCommand& kv);
void plan_kv_sweep(Cycle& cycle, const KvSweepCommand& sweep);
RetentionOutcome plan_retention(Cycle& cycle, const RetentionCommand& command);
QueueDeleteOutcome plan_queue_delete(Cycle& cycle, const Command& command, const QueueDeleteCommand& body);
GroupDeleteOutcome plan_group_delete(Cycle& cycle, const Command& command, const GroupDeleteCommand& body);
GarbageOutcome plan_garbage(Cycle& cycle);
SeekOutcome plan_seek(Cycle& cycle, const Command& command, const SeekCommand& seek);
SubscribeOutcome plan_subscribe(Cycle& cycle, const Command& command, const SubscribeCommand& subscribe);
// Refuses with `encryption_required` what its queue wants sealed; then nothing was emitted.
Outcome plan_timers(Cycle& cycle, const Command& command, const TimersCommand& timers);
TimerFireOutcome plan_timer_fire(Cycle& cycle, const Command& command, const TimerFireCommand& fire);
StreamsRegisterOutcome plan_streams_register(Cycle& cycle, const Command& command,
                                             const StreamsRegisterCommand& body);
StreamsCycleOutcome plan_streams_cycle(Cycle& cycle, const Command& command, const StreamsCycleCommand& body);
void plan_flag(Cycle& cycle, const FlagCommand& body);
void plan_quota(Cycle& cycle, const QuotaCommand& body);
EphemeralConfigureOutcome plan_ephemeral_configure(Cycle& cycle, const Command& command,
                                                   const EphemeralConfigureCommand& body);
EphemeralDeleteOutcome plan_ephemeral_delete(Cycle& cycle, const Command& command,
                                             const EphemeralDeleteCommand& body);
RenewOutcome plan_renew(Cycle& cycle, const Command& command, const RenewCommand& renew);

// Up to `most` partitions of a queue from pid `from` on, below `end`, in the order of their pids.
std::vector<Pid> partitions_of(const View& view, std::string_view tenant, std::string_view queue,
                               std::uint64_t from, std::uint64_t end, std::size_t most);
TransactionOutcome plan_transaction(Cycle& cycle, const Command& command, const TransactionCommand& body);

// Bytes that a position adds to an entry, estimated.
std::uint64_t position_bytes(const Position& position);
// `ordinal`: of the position in its command. False, and nothing done, when its queue does not exist.
bool plan_position(Cycle& cycle, const Command& command, const Position& position, std::size_t ordinal);
DeadLetterDeleteOutcome plan_dead_letter_delete(Cycle& cycle, const Command& command,
                                                const DeadLetterDeleteCommand& body);
TraceOutcome plan_trace(Cycle& cycle, const Command& command, const TraceCommand& body);
TraceExpireOutcome plan_trace_expire(Cycle& cycle, const TraceExpireCommand& body);
Outcome plan_dead_letter_replay(Cycle& cycle, const Command& command, const DeadLetterReplayCommand& body);

}  // namespace queen::machine::detail

#include "machine/planner.h"

#include <algorithm>
#include <unordered_set>

#include "base/planted_bugs.h"
#include "machine/detail/cycle.h"
#include "store/overlay.h"

namespace queen::machine {
namespace {

using namespace detail;

// Groups remembered; beyond it all are forgotten, which costs a few uneven pops.
constexpr std::size_t kHintsMax = 65'536;
// Of a new sample of a group's rate against what was known.
constexpr double kSampleWeight = 0.25;
// Estimated bytes of a command's own and of one row in an entry.
constexpr std::uint64_t kCommandBytes = 256;
constexpr std::uint64_t kItemBytes = 32;
constexpr std::uint64_t kWatermarkBytes = 64;
constexpr std::uint64_t kDeletionBytes = 128;      // a dead letter or a cursor by name
constexpr std::uint64_t kLeasePartitionsMax = 64;  // that share one lease id

struct UuidHash {
  std::size_t operator()(const Uuid& id) const { return load_le<std::uint64_t>(id.view().data() + 8); }
};

struct Planned {
  Cycle& cycle;
  const Command& command;

  Outcome operator()(const PushCommand& body) const { return plan_push(cycle, command, body); }
  Outcome operator()(const PopCommand& body) const { return {{}, {}, plan_pop(cycle, command, body)}; }
  Outcome operator()(const AckCommand& body) const { return {{}, {}, plan_ack(cycle, command, body)}; }
  Outcome operator()(const ConfigureCommand& body) const { return plan_configure(cycle, command, body); }
  Outcome operator()(const KvCommand& body) const { return {{}, {}, plan_kv(cycle, command, body)}; }
  Outcome operator()(const HandBackCommand& body) const {
    return {{}, {}, plan_hand_back(cycle, command, body)};
  }
  Outcome operator()(const KvSweepCommand& body) const {
    plan_kv_sweep(cycle, body);
    return {};
  }
  Outcome operator()(const RetentionCommand& body) const { return {{}, {}, plan_retention(cycle, body)}; }
  Outcome operator()(const QueueDeleteCommand& body) const {
    return {{}, {}, plan_queue_delete(cycle, command, body)};
  }
  Outcome operator()(const GroupDeleteCommand& body) const {
    return {{}, {}, plan_group_delete(cycle, command, body)};
  }
  Outcome operator()(const GarbageCommand&) const { return {{}, {}, plan_garbage(cycle)}; }
  Outcome operator()(const SeekCommand& body) const { return {{}, {}, plan_seek(cycle, command, body)}; }
  Outcome operator()(const SubscribeCommand& body) const {
    return {{}, {}, plan_subscribe(cycle, command, body)};
  }
  Outcome operator()(const RenewCommand& body) const { return {{}, {}, plan_renew(cycle, command, body)}; }
  Outcome operator()(const TransactionCommand& body) const {
    return {{}, {}, plan_transaction(cycle, command, body)};
  }
  Outcome operator()(const BarrierCommand&) const { return {}; }
  Outcome operator()(const DeadLetterDeleteCommand& body) const {
    return {{}, {}, plan_dead_letter_delete(cycle, command, body)};
  }
  Outcome operator()(const DeadLetterReplayCommand& body) const {
    return plan_dead_letter_replay(cycle, command, body);
  }
  Outcome operator()(const TraceCommand& body) const { return {{}, {}, plan_trace(cycle, command, body)}; }
  Outcome operator()(const TraceExpireCommand& body) const {
    return {{}, {}, plan_trace_expire(cycle, body)};
  }
  Outcome operator()(const TimersCommand& body) const { return plan_timers(cycle, command, body); }
  Outcome operator()(const TimerFireCommand& body) const {
    return {{}, {}, plan_timer_fire(cycle, command, body)};
  }
  Outcome operator()(const StreamsRegisterCommand& body) const {
    return {{}, {}, plan_streams_register(cycle, command, body)};
  }
  Outcome operator()(const StreamsCycleCommand& body) const {
    return {{}, {}, plan_streams_cycle(cycle, command, body)};
  }
  Outcome operator()(const FlagCommand& body) const {
    plan_flag(cycle, body);
    return {};
  }
  Outcome operator()(const QuotaCommand& body) const {
    plan_quota(cycle, body);
    return {};
  }
  Outcome operator()(const EphemeralConfigureCommand& body) const {
    return {{}, {}, plan_ephemeral_configure(cycle, command, body)};
  }
  Outcome operator()(const EphemeralDeleteCommand& body) const {
    return {{}, {}, plan_ephemeral_delete(cycle, command, body)};
  }
};

struct Estimate {
  std::uint64_t operator()(const PushCommand& push) const {
    std::uint64_t bytes = kCommandBytes;
    for (const PushBatch& batch : push.batches)
      bytes += batch.frames.size() + batch.hashes.size() + batch.items() * kItemBytes + kCommandBytes;
    return bytes;
  }
  std::uint64_t operator()(const PopCommand& pop) const {
    return kCommandBytes * (1 + std::uint64_t{pop.partitions_max});
  }
  std::uint64_t operator()(const HandBackCommand& back) const {
    return kCommandBytes * (1 + back.pids.size() + back.cuts.size() + back.settled.size());
  }
  std::uint64_t operator()(const AckCommand& ack) const {
    std::uint64_t bytes = kCommandBytes;
    for (const AckItem& item : ack.items)
      bytes += kItemBytes + (item.payload ? kCommandBytes + item.payload->size() : 0);
    return bytes;
  }
  std::uint64_t operator()(const ConfigureCommand&) const { return 2 * kCommandBytes; }
  std::uint64_t operator()(const KvCommand& kv) const {
    std::uint64_t bytes = kCommandBytes;
    for (const KvOp& op : kv.ops) bytes += kCommandBytes + op.key.size() + op.value.size();
    return bytes;
  }
  std::uint64_t operator()(const KvSweepCommand& sweep) const {
    return kCommandBytes * (1 + std::uint64_t{sweep.limit});
  }
  std::uint64_t operator()(const RetentionCommand& retention) const {
    return kCommandBytes + retention.moves.size() * kWatermarkBytes;
  }
  // Steps are planned against what is there: their bound stands for them.
  std::uint64_t operator()(const QueueDeleteCommand&) const {
    return kCommandBytes + kDeleteChunkRowsMax * kDeletionBytes;
  }
  std::uint64_t operator()(const GroupDeleteCommand&) const {
    return kCommandBytes + kDeleteChunkRowsMax * kDeletionBytes;
  }
  std::uint64_t operator()(const GarbageCommand&) const {
    return kCommandBytes + kDeleteChunkRowsMax * sizeof(Pid);
  }
  std::uint64_t operator()(const SeekCommand& seek) const {
    return kCommandBytes * (1 + (seek.partition ? 1 : SeekCommand::kStep));
  }
  std::uint64_t operator()(const SubscribeCommand&) const { return 2 * kCommandBytes; }
  std::uint64_t operator()(const RenewCommand&) const { return kCommandBytes * (1 + kLeasePartitionsMax); }
  std::uint64_t operator()(const TransactionCommand& transaction) const {
    std::uint64_t bytes = (*this)(transaction.push) + (*this)(transaction.kv) + (*this)(transaction.timers);
    for (const AckCommand& ack : transaction.acks) bytes += (*this)(ack);
    for (const Position& position : transaction.positions) bytes += detail::position_bytes(position);
    return bytes;
  }
  std::uint64_t operator()(const BarrierCommand&) const { return 0; }
  std::uint64_t operator()(const DeadLetterDeleteCommand& body) const {
    return kCommandBytes + body.ids.size() * (kDeletionBytes + body.queue.size());
  }
  std::uint64_t operator()(const DeadLetterReplayCommand& body) const {
    return kDeletionBytes + (*this)(body.copy);
  }
  std::uint64_t operator()(const TraceCommand& body) const {
    std::uint64_t bytes = kCommandBytes + body.transaction_id.size() + body.row.data.size();
    for (const std::string& name : body.row.names) bytes += kItemBytes + name.size();
    return bytes;
  }
  std::uint64_t operator()(const TraceExpireCommand&) const { return kCommandBytes; }
  std::uint64_t operator()(const TimersCommand& timers) const {
    std::uint64_t bytes = kCommandBytes;
    for (const TimerOp& op : timers.ops)
      bytes += kCommandBytes + op.queue.size() + op.key.size() + op.transaction_id.size() + op.payload.size();
    return bytes;
  }
  std::uint64_t operator()(const TimerFireCommand& fire) const {
    std::uint64_t bytes = (*this)(fire.push) + fire.timers.size() * kCommandBytes;
    for (const TimerFireCommand::One& timer : fire.timers) bytes += timer.letter ? timer.letter->size() : 0;
    return bytes;
  }
  std::uint64_t operator()(const StreamsRegisterCommand& body) const {
    return kCommandBytes + body.name.size() + body.source.size() + body.config_hash.size();
  }
  std::uint64_t operator()(const StreamsCycleCommand& body) const {
    std::uint64_t bytes = 2 * kCommandBytes + (*this)(body.push);
    for (const StreamsStateOp& op : body.state)
      bytes += kItemBytes + op.key.size() + (op.value ? op.value->size() : 0);
    return bytes;
  }
  std::uint64_t operator()(const FlagCommand&) const { return kCommandBytes; }
  std::uint64_t operator()(const QuotaCommand&) const { return kCommandBytes; }
  std::uint64_t operator()(const EphemeralConfigureCommand&) const { return kCommandBytes; }
  std::uint64_t operator()(const EphemeralDeleteCommand&) const { return kCommandBytes; }
};

std::vector<std::string> groups_of(const View& view, std::string_view tenant, std::string_view queue) {
  std::vector<std::string> out;
  view.scan(Keyspace::groups, store::groups_prefix(tenant, queue), {}, [&](BytesView key, BytesView) {
    if (auto name = store::parse_group_key(key)) out.push_back(std::move(name->group));
    return true;
  });
  return out;
}

}  // namespace

namespace detail {

GroupHint& GroupHints::of(std::string_view tenant, std::string_view queue, std::string_view group) {
  return at(store::group_key(tenant, queue, group));
}

GroupHint& GroupHints::at(const Bytes& key) {
  if (const auto found = hints_.find(key); found != hints_.end()) return found->second;
  if (hints_.size() >= kHintsMax) hints_.clear();
  return hints_[key];
}

void GroupHints::forget_runs() {
  for (auto& [key, hint] : hints_) hint.runs.clear();
}

void GroupHints::forget_runs(std::string_view tenant, std::string_view queue, std::string_view group) {
  const auto found = hints_.find(store::group_key(tenant, queue, group));
  if (found != hints_.end()) found->second.runs.clear();
}

void GroupHints::pending(BytesView key, std::int64_t ready_at) {
  const auto group = store::pending_group(key);
  INVARIANT(group.has_value(), "a pending row has a key of {} bytes", key.size());
  const auto found = hints_.find(group->group_key);
  if (found != hints_.end()) found->second.runs.note(group->pid.value, ready_at);
}

void GroupHints::forget(std::string_view tenant, std::string_view queue) {
  const Bytes prefix = store::groups_prefix(tenant, queue);
  std::erase_if(hints_, [&](const auto& hint) { return hint.first.starts_with(prefix); });
}

void GroupHints::drained(std::string_view tenant, std::string_view queue, std::string_view group,
                         double per_second) {
  smooth(of(tenant, queue, group), per_second);
}

void GroupHints::learn(const GroupHints& other) {
  for (const auto& [key, hint] : other.hints_)
    if (hint.drained_per_second) smooth(at(key), *hint.drained_per_second);
}

void GroupHints::smooth(GroupHint& hint, double per_second) {
  auto& smoothed = hint.drained_per_second;
  smoothed = smoothed ? *smoothed + kSampleWeight * (per_second - *smoothed) : per_second;
}

void Cycle::emit(Effect effect) {
  const auto ordinal = static_cast<std::uint32_t>(entry.effects.size());
  const Status status = run_effect(view, effect, index, ordinal, now);
  INVARIANT(status.has_value(), "planned an effect that cannot be applied: {}", status.error().what);
  if (const auto* queue = std::get_if<QueueUpsert>(&effect)) {
    // Settings may hold messages back for a shorter time now.
    for (const std::string& group : groups_of(view, queue->tenant, queue->queue))
      hints.forget_runs(queue->tenant, queue->queue, group);
  }
  if (const auto* append = std::get_if<Append>(&effect)) {
    log.max_created_at_us = std::max(log.max_created_at_us, append->created_at);
    if (standing == Standing::final) dedup.appended(append->pid, append->base_offset, append->hashes);
  }
  entry.effects.push_back(std::move(effect));
}

Uuid derived_uuid(const Uuid& request_id, std::string_view purpose, std::uint64_t number) {
  Bytes seed(request_id.view());
  seed.append(purpose);
  append_le(seed, number);
  const Hash128 hash = xxh3_128(seed);
  Uuid out{hash.canonical};
  std::copy_n(request_id.bytes.begin(), 6, out.bytes.begin());
  out.bytes[6] = static_cast<std::uint8_t>(0x70 | (out.bytes[6] & 0x0F));
  out.bytes[8] = static_cast<std::uint8_t>(0x80 | (out.bytes[8] & 0x3F));
  return out;
}

store::QueueRow implicit_queue(std::string_view queue, const Uuid& uuid, std::int64_t now_us) {
  store::QueueRow row;
  row.uuid = uuid;
  row.created_at = now_us;
  const std::size_t dot = queue.find('.');
  row.namespace_name = std::string(queue.substr(0, dot));
  if (dot == std::string_view::npos) return row;
  const std::string_view rest = queue.substr(dot + 1);
  const std::string_view task = rest.substr(0, rest.find('.'));
  if (!task.empty()) row.task = std::string(task);
  return row;
}

}  // namespace detail

struct Planner::State {
  explicit State(const store::Store& from) : store(from), overlay(from) {}

  const store::Store& store;
  store::Overlay overlay;
  DedupIndex dedup;
  GroupHints hints;
  PushScratch push;
  std::int64_t last_now_us = 0;  // of every cycle, also of those that made no entry

  // The clock of the next entry (PL-5).
  std::int64_t next_now(const LogState& log, std::int64_t wall_us) const {
    if (planted(PlantedBug::broker_log_time_goes_back)) return std::max(wall_us, last_now_us + 1);
    return std::max({wall_us, log.last_now_us + 1, log.max_created_at_us + 1, last_now_us + 1});
  }
};

Planner::Planner(const store::Store& store) : state_(std::make_unique<State>(store)) {}
Planner::~Planner() = default;

PlannedCycle Planner::plan(std::span<const Command* const> commands, EntryIndex index, std::int64_t wall_us) {
  const auto gate = state_->store.read_gate();
  state_->overlay.set_epoch(index.value);
  FoldingView view(state_->overlay, &state_->hints);
  LogState log = must(LogState::load(view));
  Entry entry;
  entry.now_us = state_->last_now_us = state_->next_now(log, wall_us);
  entry.pid_base = log.next_pid;
  entry.kv_version_base = log.kv_version_next;
  Cycle cycle{view,         entry.now_us, index, commands,       log, state_->dedup, state_->hints,
              state_->push, entry,        {},    Standing::final};

  PlannedCycle out;
  out.outcomes.reserve(commands.size());
  std::unordered_set<Uuid, UuidHash> logged;
  for (const Command* command : commands) {
    // Request ids of one entry are distinct: a repeat is asked to come again, when the first one's effects
    // are there.
    if (logged.contains(command->request_id)) {
      out.outcomes.push_back({"retry", "the same request is being planned", {}});
      continue;
    }
    const auto first = static_cast<std::uint32_t>(entry.effects.size());
    out.outcomes.push_back(std::visit(Planned{cycle, *command}, command->body));
    const auto count = static_cast<std::uint32_t>(entry.effects.size()) - first;
    if (count == 0) continue;
    entry.commands.push_back({command->request_id, first, count});
    logged.insert(command->request_id);
  }
  if (entry.effects.empty()) return out;
  log.last_now_us = entry.now_us;
  view.flush();
  log.save(state_->overlay);
  out.entry = std::move(entry);
  return out;
}

void Planner::applied(EntryIndex index) {
  state_->overlay.prune(index.value);
}

void Planner::reset() {
  state_->overlay.clear();
  state_->dedup.clear();
  state_->hints.forget_runs();
}

std::uint64_t estimated_bytes(const Command& command) {
  return std::visit(Estimate{}, command.body);
}

}  // namespace queen::machine

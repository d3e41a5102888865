// Pop: which queues and partitions, in which order, and how much of them (api-messaging.md 4). What becomes
// of one partition is in pop_claim.cc, registration of groups in plan_group.cc.
#include <algorithm>
#include <cmath>

#include "machine/detail/pop.h"

namespace queen::machine::detail {
namespace {

constexpr std::uint32_t kPartitionsMax = 64;
// Autopilot (api-state.md 9): a batch is what the group drains in this time, between the two bounds.
constexpr double kDrainSeconds = 0.2;
constexpr double kBatchMin = 100;
constexpr double kBatchMax = 1000;
// Ready partitions looked for at a time; more are while the pop is not full.
constexpr std::size_t kLookAhead = 16;
constexpr std::uint64_t kPidEnd = ~0ULL;

struct Range {
  std::uint64_t from = 0;
  std::uint64_t end = 0;  // exclusive
};

// Reads pending rows from `range.from` on, up to the next run that is remembered: those that are ready now go
// to `pids`, the stretches between them are remembered.
void read_stretch(Collecting& pop, ReadyRuns& runs, Range& range, std::size_t most, std::vector<Pid>& pids) {
  const PopTarget& target = pop.target;
  const std::uint64_t end = runs.next_run(range.from, range.end);
  std::uint64_t reached = end;
  std::size_t read = 0;
  struct {
    std::uint64_t from = 0;
    std::int64_t earliest = ReadyRuns::kNever;
    std::size_t rows = 0;
  } quiet{range.from};
  const auto remember = [&](std::uint64_t to) { runs.learn(quiet.from, to, quiet.earliest, quiet.rows); };
  const Bytes start = store::pending_key(target.tenant, target.name, target.pop.group, Pid{range.from});
  const Bytes prefix = store::pending_prefix(target.tenant, target.name, target.pop.group);
  pop.cycle.view.scan(Keyspace::pending, prefix, start, [&](BytesView key, BytesView value) {
    const auto pid = store::pending_pid(key);
    INVARIANT(pid.has_value(), "a pending row of queue {} has a broken key", target.name);
    if (pid->value >= end) return false;
    if (read == ReadyRuns::kRowsMax || pids.size() == most) {
      reached = pid->value;
      return false;
    }
    ++read;
    const std::int64_t ready_at = must(store::decode_i64_row(value));
    if (ready_at <= pop.cycle.now) {
      remember(pid->value);
      quiet = {pid->value + 1, ReadyRuns::kNever, 0};
      pids.push_back(*pid);
      return true;
    }
    pop.look_again(ready_at);
    quiet.earliest = std::min(quiet.earliest, ready_at);
    ++quiet.rows;
    return true;
  });
  remember(reached);
  range.from = reached;
}

// Pending partitions of the range: those ready now go to `pids`, at most `most`; gives false when there are
// no more. What is known not to be ready is stepped over, so that the cost does not grow with it.
bool next_ready(Collecting& pop, ReadyRuns& runs, Range& range, std::size_t most, std::vector<Pid>& pids) {
  pids.clear();
  std::int64_t earliest = ReadyRuns::kNever;
  while (pids.size() < most) {
    range.from = runs.step_over(range.from, range.end, pop.cycle.now, earliest);
    if (range.from >= range.end) break;
    read_stretch(pop, runs, range, most, pids);
  }
  if (earliest != ReadyRuns::kNever) pop.look_again(earliest);
  return range.from < range.end;
}

// Goes once around the group's pending partitions, from where the pop before stopped (S-2).
void collect(Collecting& pop, GroupHint& hint) {
  const std::uint64_t start = hint.next_pid;
  std::vector<Pid> pids;
  for (Range range : {Range{start, kPidEnd}, Range{0, start}}) {
    bool more = range.from < range.end;
    while (more && !pop.full()) {
      more = next_ready(pop, hint.runs, range, kLookAhead, pids);
      for (std::size_t i = 0; i < pids.size() && !pop.full(); ++i) {
        // A row may say that it is ready while a newer message or a setting holds it back.
        if (const auto until = try_claim(pop, pids[i]))
          hint.runs.learn(pids[i].value, pids[i].value + 1, *until, 1);
        hint.next_pid = pids[i].value + (pop.budget.cut_short ? 0 : 1);
      }
    }
  }
  if (!pop.out.cold_asks.empty()) hint.next_pid = start;
}

// The partitions that an earlier try had to ask about: first and in that order, so that others do not keep
// them from being served.
void collect_asked(Collecting& pop, GroupHint& hint) {
  std::vector<Pid> pids;
  const auto add = [&](Pid pid) {
    if (std::find(pids.begin(), pids.end(), pid) == pids.end()) pids.push_back(pid);
  };
  for (const ColdStart& known : pop.target.pop.cold.starts) add(known.ask.pid);
  for (const ColdFacts::Range& range : pop.target.pop.cold.covered) add(range.pid);
  for (const Pid pid : pids) {
    if (pop.full()) return;
    const Bytes key = store::queue_partition_key(pop.target.tenant, pop.target.name, pid);
    if (!pop.cycle.view.get(Keyspace::queue_partitions, key)) continue;
    try_claim(pop, pid);
    hint.next_pid = pid.value + 1;
  }
}

// Pops of the same group in this cycle: those that share what is ready. Counted once per cycle.
std::size_t pops_alongside(Cycle& cycle, const PopTarget& target) {
  if (cycle.pops_by_group.empty()) {
    for (const Command* command : cycle.commands)
      if (const auto* pop = std::get_if<PopCommand>(&command->body))
        ++cycle.pops_by_group[store::group_key(command->tenant, pop->queue, pop->group)];
  }
  return std::max<std::size_t>(
      cycle.pops_by_group[store::group_key(target.tenant, target.name, target.pop.group)], 1);
}

void choose_dimensions(Cycle& cycle, const PopTarget& target, GroupHint& hint, PopOutcome& out) {
  const PopCommand& command = target.pop;
  out.batch = std::max<std::uint32_t>(command.batch, 1);
  out.partitions_max = std::clamp<std::uint32_t>(command.partitions_max, 1, kPartitionsMax);
  if (command.partition) out.partitions_max = 1;
  if (command.partition || command.labels || target.conflation) return;
  if (command.autopilot_batch)
    out.batch = static_cast<std::uint32_t>(
        std::lround(std::clamp(hint.drained_per_second.value_or(0) * kDrainSeconds, kBatchMin, kBatchMax)));
  if (!command.autopilot_partitions) return;
  const std::size_t pops = pops_alongside(cycle, target);
  std::vector<Pid> ready;
  Range all{0, kPidEnd};
  PopOutcome aside;  // counting must not touch what the pop answers
  PopBudget none;
  Collecting counting{cycle, target, aside, none};
  next_ready(counting, hint.runs, all, pops * kPartitionsMax, ready);
  const std::size_t share = (ready.size() + pops - 1) / pops;
  out.partitions_max = std::clamp<std::uint32_t>(static_cast<std::uint32_t>(share), 1, kPartitionsMax);
}

bool matches(const std::optional<std::string>& wanted, const std::optional<std::string>& label) {
  return !wanted || wanted == label;
}

// The tenant's queues that have every given label, by name, from the one named on and then around.
std::vector<std::string> labelled_queues(const Cycle& cycle, std::string_view tenant, const PopLabels& labels,
                                         const std::string& from) {
  std::vector<std::string> names;
  cycle.view.scan(Keyspace::queues, store::queues_prefix(tenant), {}, [&](BytesView key, BytesView value) {
    const auto row = must(store::QueueRow::decode(value));
    if (!matches(labels.namespace_name, row.namespace_name) || !matches(labels.task, row.task)) return true;
    auto parsed = store::parse_queue_key(key);
    INVARIANT(parsed.has_value(), "a queue of tenant {} has a broken key", tenant);
    names.push_back(std::move(parsed->queue));
    return true;
  });
  std::rotate(names.begin(), std::lower_bound(names.begin(), names.end(), from), names.end());
  return names;
}

// S-8. Every matching queue is met, also when earlier ones filled the pop: a group that starts at its
// registration must not miss what is pushed until it gets there.
PopOutcome discover(Cycle& cycle, const Command& command, const PopCommand& pop) {
  PopOutcome out;
  out.batch = std::max<std::uint32_t>(pop.batch, 1);
  out.partitions_max = std::clamp<std::uint32_t>(pop.partitions_max, 1, kPartitionsMax);
  const std::string from = cycle.hints.of(command.tenant, "", pop.group).next_queue;
  PopBudget budget{out.batch};
  std::optional<std::string> last;  // that gave something
  std::size_t claims = 0;
  const auto names = labelled_queues(cycle, command.tenant, *pop.labels, from);
  for (const std::string& name : names) {
    PopTarget target{command.tenant, pop, name, queue_id(command.tenant, name), {}, {}, {}};
    contact(cycle, target, out);
    Collecting collecting{cycle, target, out, budget};
    if (collecting.full()) continue;
    GroupHint& hint = cycle.hints.of(command.tenant, name, pop.group);
    collect_asked(collecting, hint);
    collect(collecting, hint);
    if (out.claims.size() > claims) last = name;
    claims = out.claims.size();
  }
  // Names without a match: the answer shows what a registration would hold (C-4).
  const bool named = pop.group != kQueueMode;
  if (names.empty()) out.conflation = named && pop.conflation.value_or(false);
  // The next one begins behind the queue that this one ended in.
  if (last) cycle.hints.of(command.tenant, "", pop.group).next_queue = *last + '\0';
  return out;
}

}  // namespace

PopOutcome plan_pop(Cycle& cycle, const Command& command, const PopCommand& pop) {
  if (pop.labels) return discover(cycle, command, pop);
  PopTarget target{command.tenant, pop, pop.queue, queue_id(command.tenant, pop.queue), {}, {}, {}};
  PopOutcome out;
  contact(cycle, target, out);
  if (!out.cold_asks.empty()) return out;
  GroupHint none;
  GroupHint& hint = target.queue ? cycle.hints.of(command.tenant, pop.queue, pop.group) : none;
  choose_dimensions(cycle, target, hint, out);
  if (!target.queue) return out;
  PopBudget budget{out.batch};
  Collecting collecting{cycle, target, out, budget};
  if (!pop.partition) {
    collect_asked(collecting, hint);
    collect(collecting, hint);
  } else if (target.pinned) {
    try_claim(collecting, *target.pinned);
  }
  return out;
}

}  // namespace queen::machine::detail

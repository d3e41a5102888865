// First contact of a group: registration, policy, and where it starts in a partition
// (api-messaging.md 4.5, 4.7).
#include <algorithm>

#include "machine/detail/cycle.h"
#include "machine/detail/pop.h"

namespace queen::machine::detail {
namespace {

// What the pop asks for, as a registration made now would hold it; queue mode never conflates (C-2).
store::GroupRow registration(const Cycle& cycle, const PopTarget& target) {
  const PopCommand& pop = target.pop;
  // A discovery registers in many queues with one minted id.
  const Uuid uuid = pop.labels ? derived_uuid(pop.group_uuid, target.name, 0) : pop.group_uuid;
  store::GroupRow row = new_group(cycle, pop.group, uuid, pop.subscription);
  row.conflation = pop.group != kQueueMode && pop.conflation.value_or(false);
  return row;
}

void register_group(Cycle& cycle, const PopTarget& target) {
  cycle.emit(
      GroupUpsert{std::string(target.tenant), std::string(target.name), target.pop.group, *target.group});
}

// A conflating pinned pop registers its group and gives it a cursor in every partition there is (F-5). All at
// once: it registers nothing while it has to ask for one of them.
void register_pinned(Cycle& cycle, PopTarget& target, PopOutcome& out) {
  target.group = registration(cycle, target);
  target.group->seeded = true;
  std::vector<Pid> pids;
  cycle.view.scan(Keyspace::queue_partitions, store::queue_partitions_prefix(target.tenant, target.name), {},
                  [&](BytesView key, BytesView) {
                    if (const auto pid = store::parse_queue_partition_key(key)) pids.push_back(*pid);
                    return true;
                  });
  std::vector<CursorSet> cursors;
  for (const Pid pid : pids) {
    if (must(cursor_row(cycle.view, pid, target.pop.group))) continue;
    const auto partition = must(partition_row(cycle.view, pid));
    INVARIANT(partition.has_value(), "partition {} of queue {} has no row", pid.value, target.name);
    ColdAsk ask;
    const auto cursor = first_cursor(cycle, target, pid, *partition, ask);
    if (cursor)
      cursors.push_back({pid, target.pop.group, *cursor, 0, target.queue_id});
    else
      out.cold_asks.push_back(ask);
  }
  if (!out.cold_asks.empty()) return target.group.reset();
  register_group(cycle, target);
  for (CursorSet& cursor : cursors) cycle.emit(std::move(cursor));
}

bool pinned_registers(const Cycle& cycle, const PopTarget& target) {
  const PopCommand& pop = target.pop;
  if (target.group || !target.queue || pop.group == kQueueMode || !pop.conflation.value_or(false))
    return false;
  return !target.pinned || !must(cursor_row(cycle.view, *target.pinned, pop.group));
}

void decide_policy(PopTarget& target, PopOutcome& out) {
  const bool named = target.pop.group != kQueueMode;
  const bool asked = target.pop.conflation.value_or(false);
  // Without a queue nothing can be registered yet: the answer shows what a registration would hold.
  const bool effective = target.group ? target.group->conflation : asked && !target.queue;
  target.conflation = named && effective;
  out.conflation = out.conflation || target.conflation;
  const bool conflict = target.pop.conflation.has_value() && asked != target.conflation;
  out.conflation_conflict = out.conflation_conflict || conflict;
}

}  // namespace

store::GroupRow new_group(const Cycle& cycle, std::string_view group, const Uuid& uuid,
                          const Subscription& subscription) {
  store::GroupRow row;
  row.uuid = uuid;
  row.registered_at = cycle.now;
  if (group == kQueueMode) return row;
  row.mode = static_cast<store::GroupMode>(subscription.mode);
  if (row.mode == store::GroupMode::timestamp)
    row.subscription_ts = subscription.from_now ? cycle.now : subscription.from_us;
  return row;
}

void contact(Cycle& cycle, PopTarget& target, PopOutcome& out) {
  const PopCommand& pop = target.pop;
  target.queue = must(queue_row(cycle.view, target.tenant, target.name));
  target.group = must(group_row(cycle.view, target.tenant, target.name, pop.group));
  if (pop.partition) {
    target.pinned = must(pid_of(cycle.view, target.tenant, target.name, *pop.partition));
    if (pinned_registers(cycle, target)) register_pinned(cycle, target, out);
  } else {
    if (!target.queue) {
      target.queue = implicit_queue(pop.queue, pop.queue_uuid, cycle.now);
      cycle.emit(QueueUpsert{std::string(target.tenant), pop.queue, *target.queue});
    }
    if (!target.group) {
      target.group = registration(cycle, target);
      register_group(cycle, target);
    }
  }
  decide_policy(target, out);
}

std::optional<store::CursorRow> first_cursor(const Cycle& cycle, const PopTarget& target, Pid pid,
                                             const store::PartitionRow& partition, ColdAsk& ask) {
  store::CursorRow row;
  row.created_at = cycle.now;
  const store::GroupRow group = target.group ? *target.group : registration(cycle, target);
  row.committed = partition.log_start - 1;
  if (target.pop.group == kQueueMode || group.mode == store::GroupMode::all) return row;
  row.committed = partition.last_offset;
  if (!target.group && group.mode == store::GroupMode::from_now) return row;
  const auto first = first_stamped(cycle.view, target.pop.cold, {pid, target.queue_id, partition},
                                   first_wanted_us(group), ask);
  if (!first) return std::nullopt;
  row.committed = *first - 1;
  return row;
}

std::optional<std::int64_t> first_stamped(const View& view, const ColdFacts& known, const PartitionAt& at,
                                          std::int64_t since, ColdAsk& ask) {
  const store::PartitionRow& partition = at.row;
  const StampSearch found = search_stamp(view, at.pid, partition, partition.log_start, since);
  if (!found.cold) return found.offset;
  ask = {ColdAsk::Kind::start, at.pid, at.queue_id, partition.log_start, partition.rows_start - 1, since, 0};
  for (const ColdStart& fact : known.starts) {
    if (fact.ask.kind != ask.kind || fact.ask.pid != at.pid || fact.ask.since_us != since) continue;
    // Nothing so late below where the rows began then: they may begin later by now.
    if (fact.offset > fact.ask.to && fact.ask.to < ask.to) continue;
    return std::max(fact.offset, partition.log_start);
  }
  return std::nullopt;
}

}  // namespace queen::machine::detail

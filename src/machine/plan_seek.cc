// Moving a group on one queue to a point in time, and what its registrations say of partitions that it did
// not read yet (api-messaging.md 9.2, 9.3).
#include "machine/detail/cycle.h"
#include "machine/detail/pop.h"

namespace queen::machine::detail {
namespace {

std::vector<Pid> targets(const Cycle& cycle, const Command& command, const SeekCommand& seek,
                         SeekOutcome& out) {
  if (seek.partition) {
    const auto pid = must(pid_of(cycle.view, command.tenant, seek.queue, *seek.partition));
    return pid ? std::vector<Pid>{*pid} : std::vector<Pid>{};
  }
  auto pids = partitions_of(cycle.view, command.tenant, seek.queue, seek.from_pid, out.pid_end,
                            SeekCommand::kStep + 1);
  if (pids.size() <= SeekCommand::kStep) return pids;
  out.again = pids[SeekCommand::kStep].value;
  pids.resize(SeekCommand::kStep);
  return pids;
}

}  // namespace

SeekOutcome plan_seek(Cycle& cycle, const Command& command, const SeekCommand& seek) {
  SeekOutcome out;
  out.pid_end = seek.pid_end == 0 ? cycle.log.next_pid : seek.pid_end;
  if (!must(queue_row(cycle.view, command.tenant, seek.queue))) return out;
  const std::vector<Pid> pids = targets(cycle, command, seek, out);
  out.found = !pids.empty();
  out.partitions = static_cast<std::uint32_t>(pids.size());
  const std::uint64_t queue = queue_id(command.tenant, seek.queue);
  std::vector<CursorSet> moves;
  for (const Pid pid : pids) {
    const auto partition = must(partition_row(cycle.view, pid));
    INVARIANT(partition.has_value(), "partition {} of queue {} has no row", pid.value, seek.queue);
    std::int64_t committed = partition->last_offset;
    if (seek.since_us) {
      ColdAsk ask;
      const auto first = first_stamped(cycle.view, seek.cold, {pid, queue, *partition}, *seek.since_us, ask);
      if (!first) {
        out.cold_asks.push_back(ask);
        continue;
      }
      committed = *first - 1;
    }
    const auto cursor = must(cursor_row(cycle.view, pid, seek.group));
    store::CursorRow row = moved_to(cursor, committed, cycle.now);
    if (cursor != row) moves.push_back({pid, seek.group, std::move(row), 0, queue});
  }
  if (!out.cold_asks.empty()) return out;
  for (CursorSet& move : moves) cycle.emit(std::move(move));
  return out;
}

SubscribeOutcome plan_subscribe(Cycle& cycle, const Command& command, const SubscribeCommand& subscribe) {
  SubscribeOutcome out;
  // Queue mode starts at the oldest message whatever anybody asks for (F-4).
  if (subscribe.group == kQueueMode) return out;
  std::vector<std::string> queues;
  cycle.view.scan(Keyspace::queues, store::queues_prefix(command.tenant),
                  store::queue_key(command.tenant, subscribe.from_queue), [&](BytesView key, BytesView) {
                    auto name = store::parse_queue_key(key);
                    INVARIANT(name.has_value(), "a queue key is damaged");
                    if (queues.size() < SubscribeCommand::kStep) {
                      queues.push_back(std::move(name->queue));
                      return true;
                    }
                    out.again = std::move(name->queue);
                    return false;
                  });
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const auto registered = must(group_row(cycle.view, command.tenant, queues[i], subscribe.group));
    if (!registered) continue;
    ++out.rows;
    store::GroupRow row = *registered;
    row.mode = store::GroupMode::timestamp;
    row.subscription_ts = subscribe.from_us;
    if (row == *registered) continue;
    row.reg_index = row.reg_effect = 0;  // apply keeps those of the first registration
    // Apply looks at every partition of the queue for it: one queue is enough for an entry.
    if (i + 1 < queues.size()) out.again = queues[i + 1];
    cycle.emit(GroupUpsert{command.tenant, std::move(queues[i]), subscribe.group, std::move(row)});
    break;
  }
  return out;
}

}  // namespace queen::machine::detail

// Deleting queues and groups in bounded steps, and what is left of them (storage.md RT-15; api-messaging.md
// 9.4, 10.4).
#include <algorithm>

#include "machine/detail/cycle.h"

namespace queen::machine::detail {
namespace {

constexpr std::size_t kStep = kDeleteChunkRowsMax;
// Garbage named by one chunk: a partition has at least a row or two, so more could not be done anyway.
constexpr std::size_t kChunkPids = kStep / 2;

std::vector<Uuid> dead_letters_of(const View& view, std::string_view tenant, std::string_view queue,
                                  std::size_t most) {
  std::vector<Uuid> ids;
  view.scan(Keyspace::dlq, store::dlq_prefix(tenant, queue), {}, [&](BytesView key, BytesView) {
    const auto letter = store::parse_dlq_key(key);
    INVARIANT(letter.has_value(), "a dead letter key of queue {} is damaged", queue);
    if (ids.size() == most) return false;
    ids.push_back(letter->dlq_id);
    return true;
  });
  return ids;
}

void forget(Cycle& cycle, const std::vector<Pid>& pids) {
  for (const Pid pid : pids) cycle.dedup.forget(pid);
}

}  // namespace

std::vector<Pid> partitions_of(const View& view, std::string_view tenant, std::string_view queue,
                               std::uint64_t from, std::uint64_t end, std::size_t most) {
  std::vector<Pid> pids;
  view.scan(Keyspace::queue_partitions, store::queue_partitions_prefix(tenant, queue),
            store::queue_partition_key(tenant, queue, Pid{from}), [&](BytesView key, BytesView) {
              const auto pid = store::parse_queue_partition_key(key);
              INVARIANT(pid.has_value(), "a partition key of queue {} is damaged", queue);
              if (pids.size() == most || pid->value >= end) return false;
              pids.push_back(*pid);
              return true;
            });
  return pids;
}

// A large queue is emptied before its name goes: dead letters first, then its partitions from the oldest on.
// Those made meanwhile go with the name, so that pushes cannot keep a deletion from ending.
QueueDeleteOutcome plan_queue_delete(Cycle& cycle, const Command& command, const QueueDeleteCommand& body) {
  const auto row = must(queue_row(cycle.view, command.tenant, body.queue));
  if (!row) return {body.pid_end != 0, true, body.pid_end};
  QueueDeleteOutcome out{true, true, body.pid_end == 0 ? cycle.log.next_pid : body.pid_end};
  const auto letters = dead_letters_of(cycle.view, command.tenant, body.queue, kStep + 1);
  auto pids = partitions_of(cycle.view, command.tenant, body.queue, 0, out.pid_end, kStep + 1);
  if (letters.size() + pids.size() <= kStep) {
    forget(cycle, partitions_of(cycle.view, command.tenant, body.queue, 0, ~0ULL, ~std::size_t{0}));
    cycle.emit(QueueDelete{command.tenant, body.queue});
    cycle.hints.forget(command.tenant, body.queue);
    return out;
  }
  out.done = false;
  const std::size_t letters_now = std::min(letters.size(), kStep);
  for (std::size_t i = 0; i < letters_now; ++i) cycle.emit(DlqDelete{command.tenant, body.queue, letters[i]});
  pids.resize(std::min(pids.size(), kStep - letters_now));
  if (pids.empty()) return out;
  forget(cycle, pids);
  cycle.emit(GarbageAdd{row->uuid, cycle.now, std::move(pids)});
  return out;
}

// Cursors follow the registration: a pop of the group that comes in between registers it anew, and may read
// on from an old cursor for the last time.
GroupDeleteOutcome plan_group_delete(Cycle& cycle, const Command& command, const GroupDeleteCommand& body) {
  GroupDeleteOutcome out;
  const bool first = body.from_pid == 0;
  if (first && !body.keep_registration &&
      must(group_row(cycle.view, command.tenant, body.queue, body.group))) {
    cycle.emit(GroupDelete{command.tenant, body.queue, body.group});
    cycle.hints.forget(command.tenant, body.queue);
    out.registration_deleted = true;
  }
  const auto pids = partitions_of(cycle.view, command.tenant, body.queue, body.from_pid, ~0ULL, kStep + 1);
  const std::size_t now = std::min(pids.size(), kStep);
  for (std::size_t i = 0; i < now; ++i) {
    if (!cycle.view.get(Keyspace::cursors, store::cursor_key(pids[i], body.group))) continue;
    cycle.emit(CursorDelete{pids[i], body.group, queue_id(command.tenant, body.queue)});
    ++out.cursors;
  }
  if (pids.size() > kStep) out.again = pids[kStep].value;
  return out;
}

GarbageOutcome plan_garbage(Cycle& cycle) {
  DeleteChunk chunk;
  chunk.limit = kDeleteChunkRowsMax;
  cycle.view.scan(Keyspace::garbage, {}, {}, [&](BytesView key, BytesView) {
    const auto pid = store::parse_garbage_key(key);
    INVARIANT(pid.has_value(), "a garbage key is damaged");
    chunk.pids.push_back(*pid);
    return chunk.pids.size() < kChunkPids;
  });
  if (chunk.pids.empty()) return {};
  cycle.emit(std::move(chunk));
  bool more = false;
  cycle.view.scan(Keyspace::garbage, {}, {}, [&](BytesView, BytesView) {
    more = true;
    return false;
  });
  return {more};
}

}  // namespace queen::machine::detail

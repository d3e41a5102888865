// Pop: which partitions, which run of offsets, under which lease (api-messaging.md 4). Registration of groups
// is in plan_group.cc.
#include <algorithm>
#include <cmath>

#include "machine/detail/cycle.h"
#include "machine/detail/pop.h"

namespace queen::machine::detail {
namespace {

constexpr std::uint32_t kPartitionsMax = 64;
constexpr std::int64_t kDefaultLeaseSeconds = 60;
// Autopilot (api-state.md 9): a batch is what the group drains in this time, between the two bounds.
constexpr double kDrainSeconds = 0.2;
constexpr double kBatchMin = 100;
constexpr double kBatchMax = 1000;
// Pending rows read at a time; more are read while the pop is not full.
constexpr std::size_t kLookAhead = 16;

std::int64_t lease_us(const PopCommand& pop, const std::optional<store::QueueRow>& queue) {
  std::int64_t seconds = queue ? queue->lease_time : kDefaultLeaseSeconds;
  if (pop.lease_seconds > 0) seconds = pop.lease_seconds;
  return std::max<std::int64_t>(seconds, 1) * kSecondUs;
}

// Frame bytes that one pop hands out, however large its batch: an answer is built in memory. The first
// message always goes.
constexpr std::uint64_t kPopBytesMax = 32ULL << 20;

// A pop while it collects.
struct Collecting {
  Cycle& cycle;
  const PopTarget& target;
  PopOutcome& out;
  std::uint64_t left = 0;  // messages
  std::uint64_t bytes_left = kPopBytesMax;

  bool full() const { return left == 0 || bytes_left == 0 || out.claims.size() >= out.partitions_max; }
  void look_again(std::int64_t at) {
    if (!out.look_again_at || *out.look_again_at > at) out.look_again_at = at;
  }
};

// A partition as one pop finds it.
struct Candidate {
  Pid pid;
  store::PartitionRow partition;
  std::optional<store::CursorRow> cursor;
  std::int64_t first = 0;  // first offset to hand out
};

// The newest offset from `first` on whose delay has run out; first - 1 when none has.
std::int64_t newest_due(const Collecting& pop, const Candidate& at) {
  const std::int64_t delay = std::int64_t{std::max(pop.target.queue->delayed_processing, 0)} * kSecondUs;
  const std::int64_t held_from = pop.cycle.now - delay + 1;  // stamps at or after this are still held
  if (delay == 0 || at.partition.last_created_at < held_from) return at.partition.last_offset;
  const std::int64_t oldest_row = std::max(at.first, at.partition.rows_start);
  return first_stamped_at_or_after(pop.cycle.view, at.pid, at.partition, oldest_row, held_from) - 1;
}

std::int64_t due_at(const Collecting& pop, const Candidate& at) {
  const auto head = append_at(pop.cycle.view, at.pid, at.first);
  const std::int64_t stamp = head ? head->row.created_at : at.partition.last_created_at;
  return stamp + std::int64_t{pop.target.queue->delayed_processing} * kSecondUs;
}

void count_attempt(store::CursorRow& row, std::int64_t first) {
  row.attempt_count = row.attempt_offset == first ? row.attempt_count + 1 : 1;
  row.attempt_offset = first;
}

void lease(const Collecting& pop, store::CursorRow& row, const Candidate& at, std::int64_t last) {
  const PopCommand& command = pop.target.pop;
  count_attempt(row, at.first);
  row.batch_end = last;
  row.worker = command.lease_id.str();
  row.lease_acquired = pop.cycle.now;
  row.lease_expires = pop.cycle.now + lease_us(command, pop.target.queue);
  row.lease_conflated = pop.out.conflation;
  row.delivered.clear();
  if (!pop.out.conflation) return;
  const auto append = append_at(pop.cycle.view, at.pid, last);
  if (append) row.delivered.push_back(append->row.hash(static_cast<std::size_t>(last - append->base)));
}

// Settles everything up to `last` at once: commit on delivery.
void settle(store::CursorRow& row, std::int64_t last) {
  row.total_consumed += static_cast<std::uint64_t>(last - row.committed);
  row.committed = last;
  clear_lease(row);
  row.batch_retry_count = 0;
  row.attempt_offset.reset();
  row.attempt_count = 0;
}

// The last offset up to `last` that the pop has bytes for; lowers them. Messages of one append count alike.
std::int64_t within_bytes(Collecting& pop, const Candidate& at, std::int64_t last) {
  const auto start = append_at(pop.cycle.view, at.pid, at.first);
  if (!start) return last;  // the row has left RAM, the message has not
  std::int64_t fits = at.first - 1;
  const Bytes from = store::txns_key(at.pid, start->base);
  pop.cycle.view.scan(Keyspace::txns, store::txns_prefix(at.pid), from, [&](BytesView key, BytesView value) {
    const std::int64_t base = store::parse_txns_key(key)->base_offset;
    const auto row = must(store::AppendRowView::decode(value));
    const std::uint64_t each =
        std::max<std::uint64_t>(1, row.retained_bytes.value_or(0) / std::max<std::size_t>(1, row.count()));
    const std::int64_t end = std::min(last, row.end);
    for (std::int64_t offset = std::max(at.first, base); offset <= end; ++offset) {
      const bool first_of_all = pop.out.claims.empty() && offset == at.first;
      if (each > pop.bytes_left && !first_of_all) {
        pop.bytes_left = 0;
        return false;
      }
      pop.bytes_left -= std::min(each, pop.bytes_left);
      fits = offset;
    }
    return row.end < last;
  });
  return fits;
}

void claim(Collecting& pop, Candidate& at, std::int64_t newest) {
  const bool conflating = pop.out.conflation;
  const std::int64_t room = static_cast<std::int64_t>(std::min<std::uint64_t>(pop.left, 1ULL << 62));
  std::int64_t last = conflating ? newest : std::min(newest, at.first - 1 + room);
  if (!conflating) last = within_bytes(pop, at, last);
  if (last < at.first) return;
  store::CursorRow& row = *at.cursor;
  std::uint32_t attempt = 1;
  if (pop.target.pop.commit_on_delivery) {
    settle(row, last);
  } else {
    lease(pop, row, at, last);
    attempt = row.attempt_count;
  }
  PopClaim out;
  out.pid = at.pid;
  out.queue_id = pop.target.queue_id;
  out.partition = at.partition.partition;
  out.first = static_cast<std::uint64_t>(at.first);
  out.last = static_cast<std::uint64_t>(last);
  out.deliver_from = conflating ? out.last : out.first;
  out.delivery_attempt = attempt;
  pop.left -= conflating ? 1 : out.last - out.first + 1;
  pop.out.claims.push_back(std::move(out));
  pop.cycle.emit(CursorSet{at.pid, pop.target.pop.group, row, 0, pop.target.queue_id});
}

// Nothing is left to hand out. The cursor still moves when retention took what it had before it (S-6), and
// where a pinned pop of a group that is not registered starts at the end (F-5).
void pass_over(Collecting& pop, Candidate& at, bool first_contact) {
  const bool emptied = at.cursor->committed < at.partition.last_offset ||
                       (first_contact && at.partition.log_start > at.partition.last_offset);
  const bool from_here =
      first_contact && !pop.target.group && pop.target.pop.subscription.mode == Subscription::Mode::fresh;
  if (!emptied && !from_here) return;
  at.cursor->committed = std::max(at.cursor->committed, at.partition.last_offset);
  clear_lease(*at.cursor);
  pop.cycle.emit(CursorSet{at.pid, pop.target.pop.group, *at.cursor, 0, pop.target.queue_id});
}

// Claims what the partition has for the group, or notes when to look again. Checks in the order of DP-3.
void try_claim(Collecting& pop, Pid pid) {
  auto partition = must(partition_row(pop.cycle.view, pid));
  if (!partition || partition->last_offset < 0) return;
  Candidate at{pid, std::move(*partition), must(cursor_row(pop.cycle.view, pid, pop.target.pop.group)), 0};
  const std::int64_t window = std::int64_t{std::max(pop.target.queue->window_buffer, 0)} * kSecondUs;
  if (window > 0 && at.partition.last_created_at + window > pop.cycle.now)
    return pop.look_again(at.partition.last_created_at + window);
  if (at.cursor && lease_live(*at.cursor, pop.cycle.now)) return pop.look_again(*at.cursor->lease_expires);
  const bool first_contact = !at.cursor;
  if (first_contact) at.cursor = first_cursor(pop.cycle, pop.target, pid, at.partition);
  at.first = std::max(at.cursor->committed + 1, at.partition.log_start);
  if (at.first > at.partition.last_offset) return pass_over(pop, at, first_contact);
  const std::int64_t newest = newest_due(pop, at);
  if (newest < at.first) return pop.look_again(due_at(pop, at));
  claim(pop, at, newest);
}

// Pending partitions from `from` on, below `end`: those ready now go to `pids`, at most `most`; gives false
// when there are no more.
struct Range {
  std::uint64_t from = 0;
  std::uint64_t end = 0;  // exclusive
};
bool next_ready(Collecting& pop, Range& range, std::size_t most, std::vector<Pid>& pids) {
  const PopTarget& target = pop.target;
  bool more = false;
  pids.clear();
  const Bytes start = store::pending_key(target.tenant, target.pop.queue, target.pop.group, Pid{range.from});
  const Bytes prefix = store::pending_prefix(target.tenant, target.pop.queue, target.pop.group);
  pop.cycle.view.scan(Keyspace::pending, prefix, start, [&](BytesView key, BytesView value) {
    const auto pid = store::pending_pid(key);
    INVARIANT(pid.has_value(), "a pending row of queue {} has a broken key", target.pop.queue);
    if (pid->value >= range.end) return false;
    more = pids.size() == most;
    if (more) return false;
    range.from = pid->value + 1;
    const std::int64_t ready_at = must(store::decode_i64_row(value));
    if (ready_at <= pop.cycle.now)
      pids.push_back(*pid);
    else
      pop.look_again(ready_at);
    return true;
  });
  return more;
}

constexpr std::uint64_t kPidEnd = ~0ULL;

// Goes once around the group's pending partitions, from where the pop before stopped (S-2).
void collect(Collecting& pop, GroupHint& hint) {
  const std::uint64_t start = hint.next_pid;
  std::vector<Pid> pids;
  for (Range range : {Range{start, kPidEnd}, Range{0, start}}) {
    bool more = range.from < range.end;
    while (more && !pop.full()) {
      more = next_ready(pop, range, kLookAhead, pids);
      for (std::size_t i = 0; i < pids.size() && !pop.full(); ++i) {
        try_claim(pop, pids[i]);
        hint.next_pid = pids[i].value + 1;
      }
    }
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
      cycle.pops_by_group[store::group_key(target.tenant, target.pop.queue, target.pop.group)], 1);
}

void choose_dimensions(Collecting& pop, const GroupHint& hint) {
  const PopCommand& command = pop.target.pop;
  PopOutcome& out = pop.out;
  out.batch = std::max<std::uint32_t>(command.batch, 1);
  out.partitions_max = std::clamp<std::uint32_t>(command.partitions_max, 1, kPartitionsMax);
  if (command.partition) out.partitions_max = 1;
  if (command.partition || out.conflation) return;
  if (command.autopilot_batch)
    out.batch = static_cast<std::uint32_t>(
        std::lround(std::clamp(hint.drained_per_second.value_or(0) * kDrainSeconds, kBatchMin, kBatchMax)));
  if (!command.autopilot_partitions) return;
  const std::size_t pops = pops_alongside(pop.cycle, pop.target);
  std::vector<Pid> ready;
  Range all{0, kPidEnd};
  PopOutcome aside;  // counting must not touch what the pop answers
  Collecting counting{pop.cycle, pop.target, aside, 1};
  next_ready(counting, all, pops * kPartitionsMax, ready);
  const std::size_t share = (ready.size() + pops - 1) / pops;
  out.partitions_max = std::clamp<std::uint32_t>(static_cast<std::uint32_t>(share), 1, kPartitionsMax);
}

}  // namespace

void clear_lease(store::CursorRow& row) {
  row.batch_end.reset();
  row.worker.reset();
  row.lease_expires.reset();
  row.lease_acquired.reset();
  row.lease_conflated = false;
  row.delivered.clear();
}

PopOutcome plan_pop(Cycle& cycle, const Command& command, const PopCommand& pop) {
  PopTarget target{command.tenant, pop, queue_id(command.tenant, pop.queue), {}, {}, {}};
  PopOutcome out;
  contact(cycle, target, out);
  Collecting collecting{cycle, target, out, 0};
  if (!target.queue) {
    choose_dimensions(collecting, {});
    return out;
  }
  GroupHint& hint = cycle.hints.of(command.tenant, pop.queue, pop.group);
  choose_dimensions(collecting, hint);
  collecting.left = out.batch;
  if (!pop.partition)
    collect(collecting, hint);
  else if (target.pinned)
    try_claim(collecting, *target.pinned);
  return out;
}

void plan_hand_back(Cycle& cycle, const Command& command, const HandBackCommand& hand_back) {
  const std::string lease_id = hand_back.lease_id.str();
  for (const Pid pid : hand_back.pids) {
    const auto partition = must(partition_row(cycle.view, pid));
    auto cursor = must(cursor_row(cycle.view, pid, hand_back.group));
    if (!partition || partition->tenant != command.tenant || !cursor || cursor->worker != lease_id) continue;
    clear_lease(*cursor);
    if (cursor->attempt_count > 0) --cursor->attempt_count;
    if (cursor->attempt_count == 0) cursor->attempt_offset.reset();
    cycle.emit(CursorSet{pid, hand_back.group, *cursor, 0, queue_id(partition->tenant, partition->queue)});
  }
}

}  // namespace queen::machine::detail

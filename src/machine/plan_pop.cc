// Pop: which partitions, which run of offsets, under which lease (api-messaging.md 4). Registration of groups
// is in plan_group.cc.
#include <algorithm>
#include <cmath>

#include "machine/detail/appends.h"
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
  std::size_t passed = 0;  // partitions that would have been claimed, had the pop not had to ask
  bool cut_short = false;  // what it claimed goes out without waiting for the log

  bool full() const {
    return cut_short || left == 0 || bytes_left == 0 ||
           out.claims.size() + out.cold_asks.size() + passed >= out.partitions_max;
  }
  // Only the log knows: with claims in hand the pop ends here, else it claims nothing and asks.
  void ask(const ColdAsk& about) {
    if (out.claims.empty())
      out.cold_asks.push_back(about);
    else
      cut_short = true;
  }
  void look_again(std::int64_t at) {
    if (!out.look_again_at || *out.look_again_at > at) out.look_again_at = at;
  }
};

// A partition as one pop finds it.
struct Candidate {
  Pid pid;
  store::PartitionRow partition;
  std::optional<store::CursorRow> cursor;
  std::int64_t first = 0;                  // first offset to hand out
  std::optional<std::int64_t> head_stamp;  // of the message at `first`, when the log was asked for it

  bool starts_cold() const { return first < partition.rows_start; }
};

// The newest offset from `first` on whose delay has run out; first - 1 when none has; nothing when the log
// has to be asked, which takes a delay that was raised after rows had left.
std::optional<std::int64_t> newest_due(Collecting& pop, Candidate& at) {
  const std::int64_t delay = std::int64_t{std::max(pop.target.queue->delayed_processing, 0)} * kSecondUs;
  const std::int64_t held_from = pop.cycle.now - delay + 1;  // stamps at or after this are still held
  if (delay == 0 || at.partition.last_created_at < held_from) return at.partition.last_offset;
  const StampSearch found = search_stamp(pop.cycle.view, at.pid, at.partition, at.first, held_from);
  if (!found.cold) return found.offset - 1;
  // The clock went on since the log was asked: what was due then is due now.
  for (const ColdStart& known : pop.target.pop.cold.starts) {
    if (known.ask.kind != ColdAsk::Kind::due || known.ask.pid != at.pid || known.ask.from != at.first)
      continue;
    if (known.offset == at.first) at.head_stamp = known.stamp;
    return known.offset - 1;
  }
  pop.ask(
      {ColdAsk::Kind::due, at.pid, pop.target.queue_id, at.first, at.partition.rows_start - 1, held_from, 0});
  return std::nullopt;
}

std::int64_t due_at(const Collecting& pop, const Candidate& at) {
  const auto head = append_at(pop.cycle.view, at.pid, at.first);
  const std::int64_t stamp = at.head_stamp ? *at.head_stamp
                             : head        ? head->row.created_at
                                           : at.partition.last_created_at;
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
  each_append(pop.cycle.view, command.cold, at.pid, last, last, [&](const SeenAppend& append) {
    if (!append.hashes.empty()) row.delivered.push_back(append.hash(last));
    return false;
  });
}

// The last offset up to `last` that the pop has bytes for; lowers them. Messages of one append count alike.
std::int64_t within_bytes(Collecting& pop, const Candidate& at, std::int64_t last) {
  std::optional<std::int64_t> fits;
  each_append(pop.cycle.view, pop.target.pop.cold, at.pid, at.first, last, [&](const SeenAppend& append) {
    const auto count = static_cast<std::uint64_t>(append.end - append.base + 1);
    const std::uint64_t each = std::max<std::uint64_t>(1, append.raw_bytes / count);
    const std::int64_t from = std::max(at.first, append.base);
    const std::int64_t end = std::min(last, append.end);
    const auto asked = static_cast<std::uint64_t>(std::max<std::int64_t>(end - from + 1, 0));
    if (!fits) fits = at.first - 1;
    // Whatever its size, the first message of all goes.
    const bool first_of_all = pop.out.claims.empty() && from == at.first;
    const std::uint64_t taken =
        std::min(asked, std::max<std::uint64_t>(pop.bytes_left / each, first_of_all ? 1 : 0));
    if (taken > 0) fits = from + static_cast<std::int64_t>(taken) - 1;
    pop.bytes_left -= taken < asked ? pop.bytes_left : std::min(taken * each, pop.bytes_left);
    return taken == asked && append.end < last;
  });
  return fits.value_or(last);  // no append is known any more: the read of the claim will say so
}

// As within_bytes(), where the run begins with messages that have no row: only the log knows their sizes.
// Nothing when it is asked.
std::optional<std::int64_t> within_bytes_cold(Collecting& pop, const Candidate& at, std::int64_t last) {
  const ColdFacts& facts = pop.target.pop.cold;
  const auto known = std::find_if(
      facts.covered.begin(), facts.covered.end(),
      [&](const ColdFacts::Range& range) { return range.pid == at.pid && range.from == at.first; });
  const std::int64_t cold_end = std::min(last, at.partition.rows_start - 1);
  if (known != facts.covered.end()) return within_bytes(pop, at, known->to < cold_end ? known->to : last);
  // Whatever its size, the first message goes.
  if (pop.left == 1 && pop.out.claims.empty()) return last;
  pop.ask({ColdAsk::Kind::appends, at.pid, pop.target.queue_id, at.first, cold_end, 0, kPopBytesMax});
  pop.left -= std::min<std::uint64_t>(pop.left, static_cast<std::uint64_t>(last - at.first + 1));
  return std::nullopt;
}

// The last offset that the pop takes of [first, newest]; nothing when it has to ask.
std::optional<std::int64_t> last_to_claim(Collecting& pop, const Candidate& at, std::int64_t newest) {
  if (pop.out.conflation) {
    const bool known =
        newest >= at.partition.rows_start || pop.target.pop.cold.covers(at.pid, newest, newest);
    if (known) return newest;
    pop.ask({ColdAsk::Kind::appends, at.pid, pop.target.queue_id, newest, newest, 0, 0});
    return std::nullopt;
  }
  const std::int64_t room = static_cast<std::int64_t>(std::min<std::uint64_t>(pop.left, 1ULL << 62));
  const std::int64_t last = std::min(newest, at.first - 1 + room);
  return at.starts_cold() ? within_bytes_cold(pop, at, last) : within_bytes(pop, at, last);
}

void claim(Collecting& pop, Candidate& at, std::int64_t newest) {
  const bool conflating = pop.out.conflation;
  const auto taken = last_to_claim(pop, at, newest);
  if (!taken || *taken < at.first) return;
  const std::int64_t last = *taken;
  if (!pop.out.cold_asks.empty()) {
    ++pop.passed;
    pop.left -= conflating ? 1 : static_cast<std::uint64_t>(last - at.first + 1);
    return;
  }
  store::CursorRow& row = *at.cursor;
  lease(pop, row, at, last);
  PopClaim out;
  out.pid = at.pid;
  out.queue_id = pop.target.queue_id;
  out.partition = at.partition.partition;
  out.first = static_cast<std::uint64_t>(at.first);
  out.last = static_cast<std::uint64_t>(last);
  out.deliver_from = conflating ? out.last : out.first;
  out.delivery_attempt = row.attempt_count;
  out.cold = at.starts_cold();
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
  Candidate at{pid, std::move(*partition), must(cursor_row(pop.cycle.view, pid, pop.target.pop.group)), 0,
               std::nullopt};
  const std::int64_t window = std::int64_t{std::max(pop.target.queue->window_buffer, 0)} * kSecondUs;
  if (window > 0 && at.partition.last_created_at + window > pop.cycle.now)
    return pop.look_again(at.partition.last_created_at + window);
  if (at.cursor && lease_live(*at.cursor, pop.cycle.now)) return pop.look_again(*at.cursor->lease_expires);
  const bool first_contact = !at.cursor;
  if (first_contact) {
    ColdAsk ask;
    at.cursor = first_cursor(pop.cycle, pop.target, pid, at.partition, ask);
    if (!at.cursor) return pop.ask(ask);
  }
  at.first = std::max(at.cursor->committed + 1, at.partition.log_start);
  if (at.first > at.partition.last_offset) return pass_over(pop, at, first_contact);
  const auto newest = newest_due(pop, at);
  if (!newest) return;
  if (*newest < at.first) return pop.look_again(due_at(pop, at));
  claim(pop, at, *newest);
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
        hint.next_pid = pids[i].value + (pop.cut_short ? 0 : 1);
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
    const Bytes key = store::queue_partition_key(pop.target.tenant, pop.target.pop.queue, pid);
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
  if (!out.cold_asks.empty()) return out;
  Collecting collecting{cycle, target, out, 0};
  if (!target.queue) {
    choose_dimensions(collecting, {});
    return out;
  }
  GroupHint& hint = cycle.hints.of(command.tenant, pop.queue, pop.group);
  choose_dimensions(collecting, hint);
  collecting.left = out.batch;
  if (!pop.partition) {
    collect_asked(collecting, hint);
    collect(collecting, hint);
  } else if (target.pinned) {
    try_claim(collecting, *target.pinned);
  }
  return out;
}

namespace {

// The cursor that still has the lease of a claim, with its partition's queue.
struct Claimed {
  store::CursorRow cursor;
  std::uint64_t queue_id = 0;
};
std::optional<Claimed> claimed(Cycle& cycle, const Command& command, const HandBackCommand& back, Pid pid) {
  const auto partition = must(partition_row(cycle.view, pid));
  auto cursor = must(cursor_row(cycle.view, pid, back.group));
  if (!partition || partition->tenant != command.tenant || !cursor || cursor->worker != back.lease_id.str())
    return std::nullopt;
  return Claimed{std::move(*cursor), queue_id(partition->tenant, partition->queue)};
}

// Settles everything up to `last`.
void settle(store::CursorRow& row, std::int64_t last) {
  row.total_consumed += static_cast<std::uint64_t>(last - row.committed);
  row.committed = last;
  clear_lease(row);
  row.batch_retry_count = 0;
  row.attempt_offset.reset();
  row.attempt_count = 0;
}

void give_back(store::CursorRow& row) {
  clear_lease(row);
  if (row.attempt_count > 0) --row.attempt_count;
  if (row.attempt_count == 0) row.attempt_offset.reset();
}

}  // namespace

HandBackOutcome plan_hand_back(Cycle& cycle, const Command& command, const HandBackCommand& hand_back) {
  HandBackOutcome out;
  const auto change = [&](Pid pid, const auto& how) {
    auto claim = claimed(cycle, command, hand_back, pid);
    if (!claim || !how(claim->cursor)) return claim.has_value();
    cycle.emit(CursorSet{pid, hand_back.group, claim->cursor, 0, claim->queue_id});
    return true;
  };
  for (const auto& cut : hand_back.cuts)
    change(cut.pid, [&](store::CursorRow& row) {
      if (cut.delivered <= row.committed) return false;
      row.batch_end = cut.delivered;
      return true;
    });
  for (const auto& end : hand_back.settled) {
    const bool ours = change(end.pid, [&](store::CursorRow& row) {
      if (end.delivered > row.committed)
        settle(row, end.delivered);
      else
        give_back(row);
      return true;
    });
    if (!ours) out.lost.push_back(end.pid);
  }
  for (const Pid pid : hand_back.pids)
    change(pid, [](store::CursorRow& row) {
      give_back(row);
      return true;
    });
  return out;
}

}  // namespace queen::machine::detail

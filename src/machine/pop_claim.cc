// One partition of a pop: whether it is ready, and which run of it is claimed under which lease
// (api-messaging.md 4.4, 4.6 to 4.8).
#include <algorithm>

#include "base/planted_bugs.h"
#include "machine/detail/appends.h"
#include "machine/detail/pop.h"

namespace queen::machine::detail {
namespace {

constexpr std::int64_t kDefaultLeaseSeconds = 60;

std::int64_t lease_us(const PopCommand& pop, const std::optional<store::QueueRow>& queue) {
  std::int64_t seconds = queue && !pop.labels ? queue->lease_time : kDefaultLeaseSeconds;
  if (pop.lease_seconds > 0) seconds = pop.lease_seconds;
  return std::max<std::int64_t>(seconds, 1) * kSecondUs;
}

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
  row.batch_start.reset();
  row.worker = command.lease_id.str();
  row.lease_acquired = pop.cycle.now;
  row.lease_expires = pop.cycle.now + lease_us(command, pop.target.queue);
  row.lease_conflated = pop.target.conflation;
  row.delivered.clear();
  if (!pop.target.conflation) return;
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
    std::uint64_t& left = pop.budget.bytes;
    const std::uint64_t taken = std::min(asked, std::max<std::uint64_t>(left / each, first_of_all ? 1 : 0));
    if (taken > 0) fits = from + static_cast<std::int64_t>(taken) - 1;
    left -= taken < asked ? left : std::min(taken * each, left);
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
  if (pop.budget.messages == 1 && pop.out.claims.empty()) return last;
  pop.ask({ColdAsk::Kind::appends, at.pid, pop.target.queue_id, at.first, cold_end, 0, kPopBytesMax});
  pop.budget.messages -=
      std::min<std::uint64_t>(pop.budget.messages, static_cast<std::uint64_t>(last - at.first + 1));
  return std::nullopt;
}

// The last offset that the pop takes of [first, newest]; nothing when it has to ask.
std::optional<std::int64_t> last_to_claim(Collecting& pop, const Candidate& at, std::int64_t newest) {
  if (pop.target.conflation) {
    const bool known =
        newest >= at.partition.rows_start || pop.target.pop.cold.covers(at.pid, newest, newest);
    if (known) return newest;
    pop.ask({ColdAsk::Kind::appends, at.pid, pop.target.queue_id, newest, newest, 0, 0});
    return std::nullopt;
  }
  const std::int64_t room =
      static_cast<std::int64_t>(std::min<std::uint64_t>(pop.budget.messages, 1ULL << 62));
  const std::int64_t last = std::min(newest, at.first - 1 + room);
  return at.starts_cold() ? within_bytes_cold(pop, at, last) : within_bytes(pop, at, last);
}

void claim(Collecting& pop, Candidate& at, std::int64_t newest) {
  const bool conflating = pop.target.conflation;
  const auto taken = last_to_claim(pop, at, newest);
  if (!taken || *taken < at.first) return;
  const std::int64_t last = *taken;
  if (!pop.out.cold_asks.empty()) {
    ++pop.budget.passed;
    pop.budget.messages -= conflating ? 1 : static_cast<std::uint64_t>(last - at.first + 1);
    return;
  }
  store::CursorRow& row = *at.cursor;
  const bool after_expiry = row.worker.has_value();
  lease(pop, row, at, last);
  PopClaim out;
  out.pid = at.pid;
  out.queue_id = pop.target.queue_id;
  if (pop.target.pop.labels) out.queue = pop.target.name;
  out.partition = at.partition.partition;
  out.first = static_cast<std::uint64_t>(at.first);
  out.last = static_cast<std::uint64_t>(last);
  out.deliver_from = conflating ? out.last : out.first;
  out.delivery_attempt = pop.target.pop.commit_on_delivery ? 1 : row.attempt_count;  // L-8
  out.cold = at.starts_cold();
  out.after_expiry = after_expiry;
  pop.budget.messages -= conflating ? 1 : out.last - out.first + 1;
  pop.out.claims.push_back(std::move(out));
  pop.cycle.emit(CursorSet{at.pid, pop.target.pop.group, row, 0, pop.target.queue_id});
}

// A pinned pop of a group that is not registered, asking for what is new, starts at the end as it is now
// (F-5).
bool starts_at_end(const Collecting& pop) {
  return !pop.target.group && pop.target.pop.group != kQueueMode &&
         pop.target.pop.subscription.mode == Subscription::Mode::fresh;
}

// Nothing is left to hand out. The cursor still moves when retention took what it had before it (S-6), and
// where a pinned pop of a group that is not registered starts at the end (F-5).
void pass_over(Collecting& pop, Candidate& at, bool first_contact) {
  const bool emptied = at.cursor->committed < at.partition.last_offset ||
                       (first_contact && at.partition.log_start > at.partition.last_offset);
  if (!emptied && !(first_contact && starts_at_end(pop))) return;
  at.cursor->committed = std::max(at.cursor->committed, at.partition.last_offset);
  clear_lease(*at.cursor);
  pop.cycle.emit(CursorSet{at.pid, pop.target.pop.group, *at.cursor, 0, pop.target.queue_id});
}

// When the window lets go of the first waiting message, however much follows it (D4). Rows stay for that
// long: a message without one has waited enough.
std::int64_t window_limit(const Collecting& pop, const Candidate& at) {
  const auto head = append_at(pop.cycle.view, at.pid, at.first);
  if (!head) return pop.cycle.now;
  return head->row.created_at + std::int64_t{pop.target.queue->window_buffer_max_seconds} * kSecondUs;
}

std::optional<std::int64_t> held(Collecting& pop, std::int64_t until) {
  pop.look_again(until);
  return until;
}

}  // namespace

// Checks in the order of DP-3.
std::optional<std::int64_t> try_claim(Collecting& pop, Pid pid) {
  auto partition = must(partition_row(pop.cycle.view, pid));
  if (!partition || partition->last_offset < 0) return std::nullopt;
  Candidate at{pid, std::move(*partition), must(cursor_row(pop.cycle.view, pid, pop.target.pop.group)), 0,
               std::nullopt};
  const store::QueueRow& queue = *pop.target.queue;
  const std::int64_t quiet_at =
      at.partition.last_created_at + std::int64_t{std::max(queue.window_buffer, 0)} * kSecondUs;
  const bool in_window = queue.window_buffer > 0 && quiet_at > pop.cycle.now;
  const bool from_here = !at.cursor && starts_at_end(pop);  // noted whatever holds the messages back
  if (in_window && queue.window_buffer_max_seconds == 0 && !from_here) return held(pop, quiet_at);
  const bool taken = planted(PlantedBug::machine_lease_not_exclusive) && pop.target.pinned;
  if (at.cursor && lease_live(*at.cursor, pop.cycle.now) && !taken)
    return held(pop, *at.cursor->lease_expires);
  const bool first_contact = !at.cursor;
  if (first_contact) {
    ColdAsk ask;
    at.cursor = first_cursor(pop.cycle, pop.target, pid, at.partition, ask);
    if (!at.cursor) pop.ask(ask);
    if (!at.cursor) return std::nullopt;
  }
  at.first = std::max(at.cursor->committed + 1, at.partition.log_start);
  if (at.first > at.partition.last_offset) {
    pass_over(pop, at, first_contact);
    return std::nullopt;
  }
  if (in_window) {
    const std::int64_t ends = std::min(quiet_at, window_limit(pop, at));
    if (ends > pop.cycle.now) return held(pop, ends);
  }
  const auto newest = newest_due(pop, at);
  if (!newest) return std::nullopt;
  if (*newest < at.first) return held(pop, due_at(pop, at));
  claim(pop, at, *newest);
  return std::nullopt;
}

void clear_lease(store::CursorRow& row) {
  row.batch_end.reset();
  row.batch_start.reset();
  row.worker.reset();
  row.lease_expires.reset();
  row.lease_acquired.reset();
  row.lease_conflated = false;
  row.delivered.clear();
}

}  // namespace queen::machine::detail

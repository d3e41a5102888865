// What an ack does to a cursor: api-messaging.md 5.1, A-1 to A-9. Pure: computes a new cursor, writes
// nothing.
#include <algorithm>

#include "base/planted_bugs.h"
#include "machine/detail/ack.h"
#include "machine/detail/pop.h"

namespace queen::machine::detail {
namespace {

bool is_signal(const Named& named) {
  return named.status != AckStatus::completed;
}

bool keeps_dead_letters(const store::QueueRow& queue) {
  return queue.dead_letter_queue || queue.dlq_after_max_retries;
}

// Moves the cursor; the attempt marker follows to the first message that is not finished (L-8).
void advance(store::CursorRow& row, std::int64_t to) {
  if (to <= row.committed && !planted(PlantedBug::machine_ack_moves_back)) return;
  row.total_consumed += static_cast<std::uint64_t>(to - row.committed);
  row.committed = to;
  if (row.attempt_offset) row.attempt_offset = to + 1;
}

void start_afresh(store::CursorRow& row) {
  row.batch_retry_count = 0;
  row.attempt_offset.reset();
  row.attempt_count = 0;
}

// Ends the lease. Settling the whole batch is remembered, so that a repeat of this ack can be answered
//
void release(Settlement& out, std::int64_t first) {
  store::CursorRow& row = out.cursor;
  if (row.committed >= *row.batch_end)
    row.released = store::ReleasedLease{*row.worker, row.batch_start.value_or(first), *row.batch_end};
  clear_lease(row);
  out.released = true;
}

struct Settling {
  const AckTarget& target;
  const std::vector<Named>& named;
  bool budget_spent = false;  // when the call began

  void file(Settlement& out, const Named& message) const {
    if (message.status == AckStatus::dlq || keeps_dead_letters(target.queue)) out.filed.push_back(&message);
  }

  // goes up contiguously from the filed head and gives the last offset that is settled.
  std::int64_t settle_above(Settlement& out, std::size_t head) const {
    std::int64_t last_completed = -1;
    for (const Named& message : named)
      if (message.status == AckStatus::completed) last_completed = message.offset;
    std::int64_t settled = named[head].offset;
    for (std::size_t i = head + 1; i < named.size(); ++i) {
      const Named& message = named[i];
      // Unnamed messages in between are done only below a `completed`.
      if (message.offset > settled + 1 && last_completed < message.offset) return settled;
      settled = message.offset - 1;
      if (message.status == AckStatus::retry) return settled;
      if (message.status == AckStatus::failed && !budget_spent) return settled;
      if (is_signal(message)) file(out, message);
      settled = message.offset;
    }
    return settled;
  }
};

}  // namespace

Settlement settle_leased(const AckTarget& target, const std::vector<Named>& named) {
  Settlement out{target.cursor, {}, false, true, 0};
  const std::int64_t first = target.cursor.committed + 1;
  const std::int64_t limit = std::max(target.queue.retry_limit, 0);
  const Settling settling{target, named, target.cursor.batch_retry_count >= limit};
  for (const Named& message : named) out.failed += message.status == AckStatus::failed ? 1 : 0;
  const auto head = std::find_if(named.begin(), named.end(), is_signal);
  if (head != named.begin()) advance(out.cursor, std::prev(head)->offset);
  if (head == named.end()) {
    if (out.cursor.committed < *out.cursor.batch_end) {  // the lease stays
      out.cursor.batch_start = out.cursor.batch_start.value_or(first);
      return out;
    }
    release(out, first);
    start_afresh(out.cursor);
    return out;
  }
  const bool redeliver =
      head->status == AckStatus::retry || (head->status == AckStatus::failed && !settling.budget_spent);
  if (redeliver) {
    const bool counted = !planted(PlantedBug::machine_retry_not_counted);
    if (head->status == AckStatus::failed && counted) ++out.cursor.batch_retry_count;
    release(out, first);
    return out;
  }
  settling.file(out, *head);
  advance(out.cursor, settling.settle_above(out, static_cast<std::size_t>(head - named.begin())));
  release(out, first);
  start_afresh(out.cursor);
  return out;
}

// a `completed` moves the cursor; anything else does nothing, and holds back what is above it.
Settlement settle_unleased(const AckTarget& target, const std::vector<Named>& named) {
  Settlement out{target.cursor, {}, false, false, 0};
  const auto head = std::find_if(named.begin(), named.end(), is_signal);
  if (head == named.begin()) return out;
  out.changed = true;
  advance(out.cursor, std::prev(head)->offset);
  const bool whole = !out.cursor.batch_end || out.cursor.committed >= *out.cursor.batch_end;
  clear_lease(out.cursor);  // an expired one: what it covered has moved
  if (whole) start_afresh(out.cursor);
  return out;
}

}  // namespace queen::machine::detail

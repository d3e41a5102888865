#include "broker/message_status.h"

#include <algorithm>

#include "broker/store_steps.h"

namespace queen::broker {
namespace {

MessageStatus judged(std::int64_t offset, std::int64_t completed_to, bool leased) {
  if (offset <= completed_to) return MessageStatus::completed;
  return leased ? MessageStatus::processing : MessageStatus::pending;
}

}  // namespace

MessageStatuses::MessageStatuses(const store::Store& store, Clock& clock, Pid pid, std::int64_t from,
                                 std::int64_t to) {
  {
    const auto gate = store.read_gate();
    cursors_ = cursors_of(store, pid, lease_now_us(store, clock));
  }
  completed_to_ = consumed_to(cursors_);
  for (const CursorState& cursor : cursors_)
    if (cursor.lease_expires)
      leased_until_ = std::max(leased_until_.value_or(*cursor.lease_expires), *cursor.lease_expires);
  each_row(store, store::Keyspace::dlq_by_pos, store::dlq_by_pos_prefix(pid), [&](BytesView key, BytesView) {
    const auto place = store::parse_dlq_by_pos_key(key);
    INVARIANT(place.has_value(), "a dlq_by_pos key does not parse");
    if (place->offset >= from && place->offset <= to) dead_.push_back(place->offset);
    return true;
  });
  std::sort(dead_.begin(), dead_.end());
  dead_.erase(std::unique(dead_.begin(), dead_.end()), dead_.end());
}

bool MessageStatuses::is_dead(std::int64_t offset) const {
  return std::binary_search(dead_.begin(), dead_.end(), offset);
}

MessageStatus MessageStatuses::of(std::int64_t offset) const {
  if (is_dead(offset)) return MessageStatus::dead_letter;
  return judged(offset, completed_to_, leased_until_.has_value());
}

std::optional<MessageStatus> MessageStatuses::in_queue_mode(std::int64_t offset) const {
  for (const CursorState& cursor : cursors_)
    if (cursor.queue_mode()) return judged(offset, cursor.committed, cursor.lease_expires.has_value());
  return std::nullopt;
}

}  // namespace queen::broker

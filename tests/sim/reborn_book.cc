#include "reborn_book.h"

#include <algorithm>
#include <limits>

namespace queen::sim {

void RebornBook::sending(const std::string& partition, const std::string& id) {
  ++messages_[{partition, id}].open;
}

void RebornBook::refused(const std::string& partition, const std::string& id) {
  --messages_[{partition, id}].open;
}

// Whether a queue with what was stamped so was deleted before log time passed `by_us`.
bool RebornBook::surely_gone(std::int64_t stamp_us, std::int64_t by_us) const {
  return std::any_of(deletions_.begin(), deletions_.end(), [&](const Times& deletion) {
    return deletion.before_us >= stamp_us && deletion.after_us <= by_us;
  });
}

// Whether a deletion can have come between two calls.
bool RebornBook::may_be_deleted(Times first, Times second) const {
  if (deletions_open_ > 0) return true;
  return std::any_of(deletions_.begin(), deletions_.end(), [&](const Times& deletion) {
    return deletion.after_us > first.before_us && deletion.before_us < second.after_us;
  });
}

void RebornBook::stored(const std::string& partition, const std::string& id, std::uint64_t offset,
                        bool repeat, Times times) {
  Message& message = messages_[{partition, id}];
  --message.open;
  if (!repeat) {
    message.stored.push_back({offset, times});
    return;
  }
  // The original must be of the queue as it was made last.
  const bool gone = std::all_of(message.stored.begin(), message.stored.end(), [&](const Push& push) {
    return surely_gone(push.times.after_us, times.before_us);
  });
  if (message.open == 0 && gone)
    story_.violate("a new queue starts empty", "{} in {} repeats what was deleted, at {}", id, partition,
                   offset);
}

void RebornBook::deleted(bool existed, Times times) {
  --deletions_open_;
  if (existed) {
    deletions_.push_back(times);
    return;
  }
  for (const auto& [place, message] : messages_)
    for (const Push& push : message.stored)
      if (push.times.after_us <= times.before_us && !may_be_deleted(push.times, times))
        story_.violate("queues stay", "{} was stored in ({}, {}], no queue in ({}, {}]", place.second,
                       push.times.before_us, push.times.after_us, times.before_us, times.after_us);
}

void RebornBook::given(const std::string& partition, const std::string& group, const LogRecord& record,
                       Times times) {
  if (!messages_.contains({partition, record.transaction_id}))
    return story_.violate("nothing that nobody sent", "{} offset {}: {}", partition, record.offset,
                          record.transaction_id);
  if (record.payload != payload_of(record.transaction_id))
    story_.violate("payloads are as sent", "{} offset {}: {}", partition, record.offset,
                   record.transaction_id);
  if (surely_gone(record.ts_us, times.before_us))
    story_.violate("what is deleted is gone", "{} offset {} {} stamped {}, given in ({}, {}]", partition,
                   record.offset, record.transaction_id, record.ts_us, times.before_us, times.after_us);
  given_[{partition, group}].emplace(record.transaction_id, record.ts_us);
}

void RebornBook::check(const std::map<std::string, PartitionRead>& logs,
                       const std::set<std::string>& groups) {
  for (const auto& [partition, log] : logs) check_log(partition, log, groups);
  for (const auto& [place, message] : messages_) check_stored(place.first, place.second, message, logs);
  check_orders();
}

void RebornBook::check_log(const std::string& partition, const PartitionRead& log,
                           const std::set<std::string>& groups) {
  std::uint64_t next = 0;
  std::set<std::string> once;
  for (const auto& record : log.records) {
    if (record.offset != next++)
      return story_.violate("offsets from 0 without a gap", "{}: {} instead of {}", partition, record.offset,
                            next - 1);
    if (!once.insert(record.transaction_id).second)
      story_.violate("stored once", "{} in {} twice", record.transaction_id, partition);
    given(partition, "", record,
          {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max()});
    for (const auto& group : groups)
      if (!given_[{partition, group}].contains({record.transaction_id, record.ts_us}))
        story_.violate("everything is delivered", "{} group {}: offset {} {} never was", partition, group,
                       record.offset, record.transaction_id);
  }
  if (log.end != next)
    story_.violate("offsets from 0 without a gap", "{}: ends at {}, read to {}", partition, log.end, next);
}

// What was stored when no deletion could follow must be there.
void RebornBook::check_stored(const std::string& partition, const std::string& id, const Message& message,
                              const std::map<std::string, PartitionRead>& logs) {
  for (const Push& push : message.stored) {
    if (may_be_deleted(push.times, {0, std::numeric_limits<std::int64_t>::max()})) continue;
    const auto log = logs.find(partition);
    const bool there = log != logs.end() && push.offset < log->second.records.size() &&
                       log->second.records[push.offset].transaction_id == id;
    if (!there)
      story_.violate("nothing answered is lost", "{} in {} at offset {}", id, partition, push.offset);
  }
}

// Without a deletion between them a later push has a higher offset.
void RebornBook::check_orders() {
  std::map<std::string, std::vector<Push>> by_partition;
  for (const auto& [place, message] : messages_)
    for (const Push& push : message.stored) by_partition[place.first].push_back(push);
  for (const auto& [partition, pushes] : by_partition) {
    for (const Push& first : pushes) {
      for (const Push& second : pushes) {
        const bool later = first.times.after_us <= second.times.before_us;
        if (later && second.offset <= first.offset && !may_be_deleted(first.times, second.times))
          story_.violate("offsets are never reused", "{}: {} in ({}, {}] and {} in ({}, {}]", partition,
                         first.offset, first.times.before_us, first.times.after_us, second.offset,
                         second.times.before_us, second.times.after_us);
      }
    }
  }
}

void RebornBook::check_letter(const std::string& transaction_id, std::int64_t failed_at) {
  if (surely_gone(failed_at, std::numeric_limits<std::int64_t>::max()))
    story_.violate("what is deleted is gone", "the dead letter of {}, filed at {}", transaction_id,
                   failed_at);
}

}  // namespace queen::sim

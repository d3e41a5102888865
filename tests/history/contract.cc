#include "contract.h"

#include <fmt/format.h>

#include <algorithm>

namespace queen::history {

using machine::AckStatus;

namespace {
constexpr std::int64_t kSecond = 1'000'000;
}

std::string Contract::pushed(const machine::PushCommand& push,
                             const std::vector<std::vector<std::uint32_t>>& ids,
                             const machine::PushOutcome& outcome, std::int64_t now) {
  using Status = machine::PushItemOutcome::Status;
  for (std::size_t b = 0; b < push.batches.size(); ++b) {
    const auto& batch = push.batches[b];
    const auto& result = outcome.batches.at(b);
    const auto known = pids_.find({batch.queue, batch.partition});
    PartitionLog fresh{batch.queue, batch.partition, {}};
    PartitionLog& log = known == pids_.end() ? fresh : partitions_.at(known->second);
    const std::int64_t stamp =
        log.messages.empty() ? now : std::max(now, log.messages.back().stamp + 1);  // P-3
    const std::int64_t window = rules(batch.queue).dedup_window * kSecond;
    const std::size_t before = log.messages.size();
    for (std::size_t i = 0; i < ids[b].size(); ++i) {
      std::set<std::uint64_t> originals;  // P-8, P-9
      for (std::size_t at = 0; at < log.messages.size(); ++at) {
        const bool inside = at >= before || log.messages[at].stamp >= now - window;
        if (log.messages[at].id == ids[b][i] && (at >= before || (window > 0 && inside)))
          originals.insert(at);
      }
      const auto& item = result.items.at(i);
      const bool duplicate = item.status == Status::duplicate;
      if (duplicate != !originals.empty() || item.status == Status::too_large)
        return fmt::format("push of {}: duplicate {} where {} originals are", ids[b][i], duplicate,
                           originals.size());
      if (duplicate && !originals.contains(item.offset))
        return fmt::format("push of {}: a duplicate of offset {}", ids[b][i], item.offset);
      if (duplicate) continue;
      if (item.offset != log.messages.size())
        return fmt::format("push: offset {} where {} is next", item.offset, log.messages.size());  // P-1, P-2
      log.messages.push_back({ids[b][i], stamp});
    }
    if (known != pids_.end()) {
      if (result.pid.value != known->second) return "push: another partition id than before";
    } else if (!log.messages.empty()) {
      pids_[{batch.queue, batch.partition}] = result.pid.value;
      partitions_[result.pid.value] = std::move(fresh);
    }
  }
  return {};
}

std::int64_t Contract::deliverable_to(const PartitionLog& partition, std::int64_t now) const {
  const auto found = queues_.find(partition.queue);
  const QueueRules rules = found == queues_.end() ? QueueRules() : found->second;
  if (partition.messages.empty()) return -1;
  if (rules.window > 0 && now - partition.messages.back().stamp < rules.window * kSecond) return -1;
  auto last = std::ssize(partition.messages) - 1;
  while (last >= 0 && now - partition.messages[static_cast<std::size_t>(last)].stamp < rules.delay * kSecond)
    --last;
  return last;
}

void Contract::contact(const machine::PopCommand& pop, std::int64_t now) {
  // F-1: queue pops register; F-5: plain pinned pops do not.
  if (pop.partition) return;
  queues_[pop.queue];
  groups_.try_emplace({pop.queue, pop.group},
                      Registration{pop.group == machine::kQueueMode ||
                                       pop.subscription.mode == machine::Subscription::Mode::all,
                                   now});
}

GroupCursor& Contract::cursor_of(std::uint64_t pid, const machine::PopCommand& pop, std::int64_t now) {
  const CursorKey key{pid, pop.group};
  if (const auto found = cursors_.find(key); found != cursors_.end()) return found->second;  // F-6
  GroupCursor cursor;
  const auto& messages = partitions_.at(pid).messages;
  const auto group = groups_.find({pop.queue, pop.group});
  const bool all = pop.group == machine::kQueueMode ||
                   (group != groups_.end() ? group->second.all
                                           : pop.subscription.mode == machine::Subscription::Mode::all);
  if (!all && group == groups_.end()) cursor.committed = std::ssize(messages) - 1;  // F-5
  if (!all && group != groups_.end())                                               // F-3
    cursor.committed = std::count_if(messages.begin(), messages.end(),
                                     [&](const auto& m) { return m.stamp < group->second.at; }) -
                       1;
  (void)now;
  return cursors_[key] = cursor;
}

void Contract::forget_unset(const std::function<bool(const CursorKey&)>& unset) {
  std::erase_if(cursors_, [&](const auto& row) {
    const auto& [key, cursor] = row;
    return cursor.committed == -1 && !cursor.lease &&
           !groups_.contains({partitions_.at(key.first).queue, key.second}) && unset(key);
  });
}

std::string Contract::check_claim(const machine::PopCommand& pop, const machine::PopClaim& claim,
                                  std::int64_t now, std::uint32_t& room) {
  const auto partition = partitions_.find(claim.pid.value);
  if (partition == partitions_.end() || partition->second.queue != pop.queue)
    return fmt::format("claim of pid {}: not a partition of {}", claim.pid.value, pop.queue);
  if (pop.partition && *pop.partition != partition->second.name)
    return "claim of another partition than asked";
  GroupCursor& cursor = cursor_of(claim.pid.value, pop, now);
  if (cursor.lease && cursor.lease->live_at(now)) return "claim of a leased partition";  // L-1
  const std::int64_t first = cursor.committed + 1;
  const std::int64_t last =
      std::min(deliverable_to(partition->second, now), first + static_cast<std::int64_t>(room) - 1);
  if (last < first) return fmt::format("claim of pid {} where nothing is deliverable", claim.pid.value);
  if (static_cast<std::int64_t>(claim.first) != first || static_cast<std::int64_t>(claim.last) != last)
    return fmt::format("claim of {}..{} instead of {}..{}", claim.first, claim.last, first, last);
  room -= static_cast<std::uint32_t>(last - first + 1);
  if (pop.commit_on_delivery) {  // L-10
    if (claim.delivery_attempt != 1) return "an attempt above 1 with commit at delivery";
    cursor.committed = last;
    cursor.lease.reset();
    cursor.attempts_known = cursor.retries_known = false;
    return {};
  }
  before_[{{claim.pid.value, pop.group}, pop.lease_id.str()}] = {cursor.attempt_offset, cursor.attempts,
                                                                 cursor.attempts_known};
  const std::uint32_t attempt = cursor.attempt_offset == first ? cursor.attempts + 1 : 1;  // L-8
  if (cursor.attempts_known && claim.delivery_attempt != attempt)
    return fmt::format("attempt {} instead of {}", claim.delivery_attempt, attempt);
  cursor.attempt_offset = first;
  cursor.attempts = claim.delivery_attempt;
  cursor.attempts_known = true;
  const std::int64_t seconds = pop.lease_seconds > 0 ? pop.lease_seconds : rules(pop.queue).lease_time;
  cursor.lease =
      HeldLease{pop.lease_id.str(), first, last, now + std::max<std::int64_t>(seconds, 1) * kSecond};
  return {};
}

std::string Contract::popped(const machine::PopCommand& pop, const machine::PopOutcome& outcome,
                             std::int64_t now) {
  contact(pop, now);
  std::uint32_t room = pop.batch;
  std::set<std::uint64_t> claimed;
  for (const auto& claim : outcome.claims) {
    if (!claimed.insert(claim.pid.value).second) return "a partition claimed twice";
    if (auto text = check_claim(pop, claim, now, room); !text.empty()) return text;
  }
  const std::size_t most = pop.partition ? 1 : pop.partitions_max;
  if (claimed.size() > most) return "more partitions than asked for";
  // Nothing that is ready is left behind while there is room for it (W-1, S-2).
  if (room == 0 || claimed.size() == most) return {};
  for (const auto& [pid, partition] : partitions_) {
    if (partition.queue != pop.queue || claimed.contains(pid)) continue;
    if (pop.partition && *pop.partition != partition.name) continue;
    const GroupCursor& cursor = cursor_of(pid, pop, now);
    if (cursor.lease && cursor.lease->live_at(now)) continue;
    if (deliverable_to(partition, now) > cursor.committed)
      return fmt::format("pid {} is ready for {} and was not claimed", pid, pop.group);
  }
  return {};
}

void Contract::handed_back(const std::string& group, const std::string& lease_id) {
  for (auto& [key, cursor] : cursors_) {
    if (key.second != group || !cursor.lease || cursor.lease->id != lease_id) continue;
    cursor.lease.reset();
    const Attempts& before = before_.at({key, lease_id});
    cursor.attempt_offset = before.offset;
    cursor.attempts = before.count;
    cursor.attempts_known = before.known;
  }
}

std::string Contract::sought(const machine::SeekCommand& seek, const machine::SeekOutcome& outcome) {
  std::uint32_t count = 0;
  for (const auto& [pid, partition] : partitions_) {
    if (partition.queue != seek.queue || (seek.partition && *seek.partition != partition.name)) continue;
    ++count;
    const auto& messages = partition.messages;
    const auto wanted = std::find_if(messages.begin(), messages.end(), [&](const StoredMessage& message) {
      return seek.since_us && message.stamp >= *seek.since_us;
    });
    GroupCursor& cursor = cursors_[{pid, seek.group}];  // G-2
    cursor.committed = wanted - messages.begin() - 1;   // G-1
    cursor.lease.reset();                               // G-3
    cursor.retries_known = cursor.attempts_known = false;
  }
  if (outcome.found != (count > 0) && !(count == 0 && !seek.partition))
    return fmt::format("seek: found {} where {} partitions are", outcome.found, count);
  return outcome.partitions == count
             ? ""
             : fmt::format("seek: {} partitions instead of {}", outcome.partitions, count);
}

std::string Contract::renewed(const machine::RenewCommand& renew, const machine::RenewOutcome& outcome,
                              std::int64_t now) {
  std::uint32_t count = 0;
  std::optional<std::int64_t> earliest;
  for (auto& [key, cursor] : cursors_) {
    if (!cursor.lease || cursor.lease->id != renew.lease_id || !cursor.lease->live_at(now)) continue;
    cursor.lease->expires = std::max(cursor.lease->expires, now + renew.seconds * kSecond);
    earliest = std::min(earliest.value_or(cursor.lease->expires), cursor.lease->expires);
    ++count;
  }
  if (outcome.renewed != count) return fmt::format("renewed {} instead of {}", outcome.renewed, count);
  return outcome.expires_at == earliest ? "" : "renewed until another time";
}

void Contract::group_deleted(const machine::GroupDeleteCommand& deletion) {
  std::erase_if(cursors_, [&](const auto& row) {
    return row.first.second == deletion.group && partitions_.at(row.first.first).queue == deletion.queue;
  });
  if (!deletion.keep_registration) groups_.erase({deletion.queue, deletion.group});
}

struct Contract::Target {
  std::uint64_t pid = 0;
  std::string lease_id;
  std::vector<std::size_t> items;
};

namespace {

constexpr std::string_view kLease = "lease", kUnresolvable = "unresolvable";

int strength(AckStatus status) {
  return status == AckStatus::dlq ? 3 : status == AckStatus::failed ? 2 : status == AckStatus::retry ? 1 : 0;
}

// What one item must be answered.
struct Expected {
  std::string_view error;  // a word of it, empty = success
  bool dlq = false, noop = false;
};

std::string compare(const machine::AckItemOutcome& got, const Expected& want, bool released) {
  if (got.success != want.error.empty() || got.error.find(want.error) == std::string::npos)
    return fmt::format("ack: success {} error '{}', not '{}'", got.success, got.error, want.error);
  if (got.dlq != want.dlq) return fmt::format("ack: dlq {}", got.dlq);
  if (got.noop != want.noop) return fmt::format("ack: noop {}", got.noop);
  if (got.lease_released != released) return fmt::format("ack: leaseReleased {}", got.lease_released);
  return {};
}

// for a leased batch: where the cursor ends and what is filed.
struct Settled {
  std::int64_t cursor = -1;
  bool released = false, fresh_start = false;
  std::uint32_t retries = 0;
  std::vector<std::int64_t> filed, dropped;
};
Settled settle(const GroupCursor& cursor, const QueueRules& rules,
               const std::map<std::int64_t, AckStatus>& named) {
  Settled out{cursor.committed, false, false, cursor.retries, {}, {}};
  const auto head = std::find_if(named.begin(), named.end(),
                                 [](const auto& item) { return item.second != AckStatus::completed; });
  for (auto at = named.begin(); at != head; ++at) out.cursor = at->first;
  if (head == named.end()) {
    out.released = out.fresh_start = out.cursor == cursor.lease->last;
    return out;
  }
  out.released = true;
  const bool spent = cursor.retries >= static_cast<std::uint32_t>(std::max(rules.retry_limit, 0));
  if (head->second == AckStatus::retry) return out;
  if (head->second == AckStatus::failed && !spent) {
    ++out.retries;
    return out;
  }
  out.fresh_start = true;
  const auto give_up = [&](std::int64_t offset, AckStatus status) {
    (status == AckStatus::dlq || rules.dead_letters ? out.filed : out.dropped).push_back(offset);
    out.cursor = offset;
  };
  give_up(head->first, head->second);
  const std::int64_t covered =
      std::find_if(named.rbegin(), named.rend(),
                   [](const auto& item) { return item.second == AckStatus::completed; }) == named.rend()
          ? -1
          : std::find_if(named.rbegin(), named.rend(), [](const auto& item) {
              return item.second == AckStatus::completed;
            })->first;
  for (std::int64_t offset = head->first + 1; offset <= cursor.lease->last; ++offset) {
    const auto item = named.find(offset);
    if (item == named.end() && offset > covered) break;
    if (item == named.end() || item->second == AckStatus::completed) {
      out.cursor = offset;
      continue;
    }
    if (item->second == AckStatus::retry || (item->second == AckStatus::failed && !spent)) break;
    give_up(offset, item->second);
  }
  return out;
}

}  // namespace

std::string Contract::check_target(const Target& target, const machine::AckCommand& ack,
                                   const std::vector<std::uint32_t>& ids, const machine::AckOutcome& outcome,
                                   std::int64_t now) {
  const auto answer_all = [&](std::string_view error) {
    std::string text;
    for (const std::size_t item : target.items)
      if (text.empty()) text = compare(outcome.items[item], {error, false, false}, false);
    return text;
  };
  const auto found = cursors_.find({target.pid, ack.group});
  if (found == cursors_.end() || !found->second.stored) {
    for (const std::size_t item : target.items)
      if (outcome.items[item].success) return "an ack of a group without a cursor succeeded";
    return {};
  }
  GroupCursor& cursor = found->second;
  const auto& messages = partitions_.at(target.pid).messages;
  const bool live = cursor.lease && cursor.lease->live_at(now);
  // The message with the id in [from, to]: the `mention`-th of them from 0, or the last one there is.
  const auto find = [&](std::uint32_t id, std::int64_t from, std::int64_t to,
                        std::size_t mention = 0) -> std::optional<std::int64_t> {
    std::optional<std::int64_t> at;
    for (std::int64_t offset = std::max<std::int64_t>(from, 0); offset <= to && offset < std::ssize(messages);
         ++offset) {
      if (messages[static_cast<std::size_t>(offset)].id != id) continue;
      at = offset;
      if (mention-- == 0) break;
    }
    return at;
  };
  if (!target.lease_id.empty() && !(live && cursor.lease->id == target.lease_id)) {
    if (!cursor.settled || cursor.settled->id != target.lease_id) return answer_all(kLease);
    for (const std::size_t item : target.items) {
      const bool inside = find(ids[item], cursor.settled->first, cursor.settled->last).has_value();
      const auto& got = outcome.items[item];
      if (got.success != inside || (inside && !got.lease_released))
        return "the repeat of an ack is answered otherwise";
    }
    return {};
  }
  const std::int64_t to = live ? cursor.lease->last : std::ssize(messages) - 1;
  std::map<std::int64_t, AckStatus> named;
  std::map<std::size_t, std::int64_t> offsets;
  std::map<std::uint32_t, std::size_t> mentions;
  for (const std::size_t item : target.items) {
    const auto offset = find(ids[item], cursor.committed + 1, to, mentions[ids[item]]++);
    if (!offset) continue;
    offsets[item] = *offset;
    auto& status = named.try_emplace(*offset, ack.items[item].status).first->second;
    if (strength(ack.items[item].status) > strength(status)) status = ack.items[item].status;
  }
  const std::int64_t committed = cursor.committed;
  Settled settled{committed, false, false, cursor.retries, {}, {}};
  if (live && !named.empty()) {
    // The counter may be unknown to the contract; then its node says what it is (see history.cc).
    settled = settle(cursor, rules(partitions_.at(target.pid).queue), named);
  } else if (!named.empty()) {
    for (const auto& [offset, status] : named) {
      if (status != AckStatus::completed) break;
      settled.cursor = offset;
    }
  }
  for (const std::size_t item : target.items) {
    Expected want;
    const auto offset = offsets.find(item);
    if (offset != offsets.end())
      want.dlq = ack.items[item].status != AckStatus::completed &&
                 std::find(settled.filed.begin(), settled.filed.end(), offset->second) != settled.filed.end();
    else if (ack.items[item].status == AckStatus::completed && find(ids[item], 0, committed))
      want.noop = true;
    else
      want.error = kUnresolvable;
    if (auto text = compare(outcome.items[item], want, settled.released); !text.empty())
      return fmt::format("{} (item {} of id {})", text, item, ids[item]);
  }
  for (const std::int64_t offset : settled.filed)
    filed_.insert({target.pid, ack.group, offset, cursor.retries});
  const bool moved = settled.cursor != committed;
  cursor.committed = settled.cursor;
  if (moved && cursor.attempt_offset) cursor.attempt_offset = settled.cursor + 1;
  if (!live && moved) {
    cursor.lease.reset();
    cursor.attempts_known = cursor.retries_known = false;
    return {};
  }
  cursor.retries = settled.retries;
  if (moved && settled.released && !settled.fresh_start) cursor.attempts_known = false;
  if (settled.fresh_start) {
    cursor.retries = cursor.attempts = 0;
    cursor.attempt_offset.reset();
    cursor.attempts_known = true;
  }
  if (settled.released) {
    if (settled.cursor == cursor.lease->last) cursor.settled = cursor.lease;
    cursor.lease.reset();
  }
  return {};
}

std::string Contract::acked(const machine::AckCommand& ack, const std::vector<std::uint32_t>& ids,
                            const machine::AckOutcome& outcome, std::int64_t now) {
  std::vector<Target> targets;
  for (std::size_t i = 0; i < ack.items.size(); ++i) {
    const std::uint64_t pid = std::stoull(ack.items[i].partition_id);
    const auto at = std::find_if(targets.begin(), targets.end(), [&](const Target& target) {
      return target.pid == pid && target.lease_id == ack.items[i].lease_id;
    });
    if (at == targets.end())
      targets.push_back({pid, ack.items[i].lease_id, {i}});
    else
      at->items.push_back(i);
  }
  for (const Target& target : targets)
    if (auto text = check_target(target, ack, ids, outcome, now); !text.empty()) return text;
  return {};
}

}  // namespace queen::history

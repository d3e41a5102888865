// Ack: who may settle which messages, and what each item is answered (api-messaging.md 5).
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/planted_bugs.h"
#include "machine/detail/ack.h"

namespace queen::machine::detail {
namespace {

constexpr std::string_view kBadLease = "invalid or expired lease";
constexpr std::string_view kUnresolvable =
    "transaction is unresolvable, already committed, or acknowledgment is stale";
constexpr std::string_view kNoError = "Retries exhausted";
// A lease that lived longer says nothing about how fast the group works (api-state.md 9, AP-2).
constexpr std::int64_t kSampleLeaseUs = 300 * kSecondUs;
// How far ahead of its cursor an ack without a lease looks among messages that have no row.
constexpr std::int64_t kColdAheadMessages = 65'536;

struct Acking {
  Cycle& cycle;
  const Command& command;
  const AckCommand& ack;
  Repeats repeats;
  AckOutcome& out;

  void fail(const std::vector<std::size_t>& items, std::string_view text) const {
    for (const std::size_t item : items) out.items[item].error = text;
  }
};

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The partition's number; nothing when it does not fit, which no partition's does.
std::optional<Pid> parse_pid(std::string_view text) {
  Pid pid;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid.value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return pid;
}

// dlq beats failed beats retry beats completed.
int strength(AckStatus status) {
  switch (status) {
    case AckStatus::dlq:
      return 3;
    case AckStatus::failed:
      return 2;
    case AckStatus::retry:
      return 1;
    case AckStatus::completed:
      break;
  }
  return 0;
}

// The offsets among which resolve_ahead() or answer_repeat() will look, as far as they have no rows.
std::optional<ColdAsk> cold_ahead(const Acking& acking, const AckTarget& target) {
  const store::CursorRow& cursor = target.cursor;
  const bool live = lease_live(cursor, acking.cycle.now);
  if (!target.lease_id.empty() && !(live && *cursor.worker == target.lease_id)) {
    const auto& released = cursor.released;
    if (acking.repeats == Repeats::refused || !released || released->worker != target.lease_id)
      return std::nullopt;
    return cold_part(target, released->first, released->last);
  }
  const std::int64_t from = cursor.committed + 1;
  if (!live) return cold_part(target, from, from + kColdAheadMessages - 1);
  if (cursor.lease_conflated) return std::nullopt;
  return cold_part(target, from, *cursor.batch_end);
}

// Offsets of the target's items in front of the cursor.
std::vector<std::optional<std::int64_t>> resolve_ahead(const Acking& acking, const AckTarget& target,
                                                       bool leased) {
  const store::CursorRow& cursor = target.cursor;
  const std::int64_t from = cursor.committed + 1;
  if (!leased) return resolve_between(acking.cycle, target, from, target.partition.last_offset);
  const bool back = planted(PlantedBug::machine_ack_moves_back) && cursor.batch_start;
  if (!cursor.lease_conflated)
    return resolve_between(acking.cycle, target, back ? *cursor.batch_start : from, *cursor.batch_end);
  // A conflated lease handed out its last message alone.
  std::vector<std::optional<std::int64_t>> offsets(target.items.size());
  for (std::size_t i = 0; i < offsets.size(); ++i)
    if (std::find(cursor.delivered.begin(), cursor.delivered.end(), acking.ack.items[target.items[i]].hash) !=
        cursor.delivered.end())
      offsets[i] = cursor.batch_end;
  return offsets;
}

std::vector<Named> named_messages(const Acking& acking, const AckTarget& target,
                                  const std::vector<std::optional<std::int64_t>>& offsets) {
  std::map<std::int64_t, Named> by_offset;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (!offsets[i]) continue;
    const AckItem& item = acking.ack.items[target.items[i]];
    const auto [at, fresh] = by_offset.try_emplace(*offsets[i], Named{*offsets[i], item.status, &item});
    if (!fresh && strength(item.status) > strength(at->second.status))
      at->second = {*offsets[i], item.status, &item};
  }
  std::vector<Named> named;
  named.reserve(by_offset.size());
  for (const auto& [offset, message] : by_offset) named.push_back(message);
  return named;
}

// What a dead letter says whose own item gives no error: the first error among the call's other nacks.
std::string common_error(const AckCommand& ack) {
  for (const AckItem& other : ack.items)
    if (other.status != AckStatus::completed && other.error && !other.error->empty()) return *other.error;
  return std::string(kNoError);
}

void file(const Acking& acking, const AckTarget& target, const Named& message, const std::string& common) {
  DlqInsert effect;
  effect.dlq_id = message.item->dlq_id;
  effect.tenant = target.partition.tenant;
  effect.queue = target.partition.queue;
  effect.row.pid = target.pid;
  effect.row.group = acking.ack.group;
  effect.row.offset = message.offset;
  effect.row.message_id = message.item->message_id;
  effect.row.transaction_id = message.item->transaction_id;
  effect.row.payload = message.item->payload.value_or(Bytes());
  const auto& own = message.item->error;
  effect.row.error = own && !own->empty() ? *own : common;
  effect.row.retry_count = target.cursor.batch_retry_count;
  effect.row.failed_at = acking.cycle.now;
  acking.cycle.emit(std::move(effect));
}

// How fast the group works, for autopilot pops.
void sample_drain(const Acking& acking, const AckTarget& target, const Settlement& settlement) {
  const std::int64_t held = acking.cycle.now - target.cursor.lease_acquired.value_or(acking.cycle.now);
  const std::int64_t moved = settlement.cursor.committed - target.cursor.committed;
  if (!settlement.released || moved <= 0 || held <= 0 || held > kSampleLeaseUs) return;
  acking.cycle.hints.drained(target.tenant, target.partition.queue, acking.ack.group,
                             static_cast<double>(moved) * kSecondUs / static_cast<double>(held));
}

void write(const Acking& acking, const AckTarget& target, const Settlement& settlement) {
  const std::string common = settlement.filed.empty() ? std::string() : common_error(acking.ack);
  for (const Named* message : settlement.filed) file(acking, target, *message, common);
  if (settlement.changed)
    acking.cycle.emit(CursorSet{target.pid, acking.ack.group, settlement.cursor, settlement.failed,
                                queue_id(target.tenant, target.partition.queue)});
}

// The answers of the items: those ahead were understood, those behind are repeats or too late.
void answer(const Acking& acking, const AckTarget& target,
            const std::vector<std::optional<std::int64_t>>& offsets, const Settlement& settlement) {
  const auto filed = [&](std::int64_t offset) {
    const auto at =
        std::lower_bound(settlement.filed.begin(), settlement.filed.end(), offset,
                         [](const Named* message, std::int64_t wanted) { return message->offset < wanted; });
    return at != settlement.filed.end() && (*at)->offset == offset;
  };
  std::vector<std::size_t> behind;
  for (std::size_t i = 0; i < offsets.size(); ++i)
    if (!offsets[i] && acking.ack.items[target.items[i]].status == AckStatus::completed) behind.push_back(i);
  const std::vector<bool> finished =
      behind.empty() ? std::vector<bool>(offsets.size()) : finished_before(acking.cycle, target, behind);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const AckItem& item = acking.ack.items[target.items[i]];
    AckItemOutcome& out = acking.out.items[target.items[i]];
    out.lease_released = settlement.released;
    out.success = offsets[i].has_value();
    if (out.success)
      out.dlq = item.status != AckStatus::completed && filed(*offsets[i]);
    else if (finished[i])
      out.success = out.noop = true;
    if (!out.success) out.error = kUnresolvable;
  }
  const auto range = behind.empty() ? std::nullopt : cold_look_back(target);
  if (!range) return;
  AckOutcome::LookBack look_back{*range, {}};
  for (const std::size_t i : behind)
    if (!finished[i]) look_back.items.push_back(target.items[i]);
  if (!look_back.items.empty()) acking.out.look_back.push_back(std::move(look_back));
}

// the lease is gone because this very ack settled its batch; its items are answered as they were.
bool answer_repeat(const Acking& acking, const AckTarget& target) {
  const auto& released = target.cursor.released;
  if (acking.repeats == Repeats::refused || !released || released->worker != target.lease_id) return false;
  const auto offsets = resolve_between(acking.cycle, target, released->first, released->last);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    AckItemOutcome& out = acking.out.items[target.items[i]];
    out.success = out.lease_released = offsets[i].has_value();
    if (!out.success) out.error = kUnresolvable;
  }
  return true;
}

void ack_target(const Acking& acking, AckTarget& target) {
  const bool live = lease_live(target.cursor, acking.cycle.now);
  const bool fenced = !target.lease_id.empty();
  const bool any = planted(PlantedBug::machine_ack_under_any_lease);
  if (fenced && !(live && (any || *target.cursor.worker == target.lease_id))) {
    if (!answer_repeat(acking, target)) acking.fail(target.items, kBadLease);
    return;
  }
  const auto offsets = resolve_ahead(acking, target, live);
  const std::vector<Named> named = named_messages(acking, target, offsets);
  Settlement settlement{target.cursor, {}, false, false, 0};
  if (!named.empty()) settlement = live ? settle_leased(target, named) : settle_unleased(target, named);
  answer(acking, target, offsets, settlement);
  if (live) sample_drain(acking, target, settlement);
  write(acking, target, settlement);
}

struct TargetKey {
  Pid pid;
  std::string_view lease_id;
  bool operator==(const TargetKey&) const = default;
};

// The target with its rows; nothing, and its items answered, when there is nothing to act on.
std::optional<AckTarget> load_target(const Acking& acking, const TargetKey& key,
                                     const std::vector<std::size_t>& items) {
  const std::string missing = "no partition " + acking.ack.items[items.front()].partition_id;
  auto partition = must(partition_row(acking.cycle.view, key.pid));
  std::optional<store::QueueRow> queue;
  if (partition && partition->tenant == acking.command.tenant)
    queue = must(queue_row(acking.cycle.view, partition->tenant, partition->queue));
  auto cursor = queue ? must(cursor_row(acking.cycle.view, key.pid, acking.ack.group)) : std::nullopt;
  if (!queue)
    acking.fail(items, missing);
  else if (!cursor)
    acking.fail(items, key.lease_id.empty() ? kUnresolvable : kBadLease);
  if (!cursor) return std::nullopt;
  return AckTarget{acking.ack, acking.command.tenant, key.pid,           key.lease_id,
                   items,      std::move(*partition), std::move(*queue), std::move(*cursor)};
}

// The call's targets in order of first appearance; items that name none are answered.
std::vector<std::pair<TargetKey, std::vector<std::size_t>>> group_items(const Acking& acking) {
  std::vector<std::pair<TargetKey, std::vector<std::size_t>>> targets;
  std::map<std::pair<std::uint64_t, std::string_view>, std::size_t> known;
  for (std::size_t i = 0; i < acking.ack.items.size(); ++i) {
    const AckItem& item = acking.ack.items[i];
    if (!is_number(item.partition_id)) {
      acking.out.items[i].error = "partitionId is not a partition id";
      continue;
    }
    const auto pid = parse_pid(item.partition_id);
    if (!pid) {
      acking.out.items[i].error = "no partition " + item.partition_id;
      continue;
    }
    const auto [at, fresh] = known.try_emplace({pid->value, item.lease_id}, targets.size());
    if (fresh) targets.push_back({{*pid, item.lease_id}, {}});
    targets[at->second].second.push_back(i);
  }
  return targets;
}

}  // namespace

AckOutcome plan_ack(Cycle& cycle, const Command& command, const AckCommand& ack, Repeats repeats) {
  AckOutcome out;
  out.items.resize(ack.items.size());
  const Acking acking{cycle, command, ack, repeats, out};
  std::vector<AckTarget> targets;
  for (const auto& [key, items] : group_items(acking)) {
    auto target = load_target(acking, key, items);
    if (!target) continue;
    const auto range = cold_ahead(acking, *target);
    if (range && !ack.cold.covers(range->pid, range->from, range->to)) out.cold_asks.push_back(*range);
    targets.push_back(std::move(*target));
  }
  // A call is decided as a whole, or not at all.
  if (!out.cold_asks.empty()) return out;
  std::set<std::uint64_t> moved;
  for (AckTarget& target : targets) {
    // Two leases of one partition in one call: the first may have moved the cursor.
    if (!moved.insert(target.pid.value).second)
      target.cursor = must(cursor_row(cycle.view, target.pid, ack.group)).value();
    ack_target(acking, target);
  }
  return out;
}

}  // namespace queen::machine::detail

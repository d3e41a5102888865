#include "history.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::history {

using machine::AckStatus;
using store::Keyspace;

namespace {

// Waits are whole tenths that no lease, delay or window is a multiple of: what the contract leaves to the
// microsecond does not come up.
constexpr std::int64_t kWaitUs = 300'000;

std::string queue_name(int number) {
  return "q" + std::to_string(number % 2);
}
std::string partition_name(int number) {
  return "p" + std::to_string(number % 3);
}
std::string group_name(int number) {
  return number % 3 == 0 ? std::string(machine::kQueueMode) : "g" + std::to_string(number % 3);
}

crash::NodeOptions small_files() {
  crash::NodeOptions options;
  options.logs.segment_bytes = 4096;
  options.logs.prealloc_bytes = 0;
  options.logs.precreate = false;
  return options;
}

}  // namespace

std::string to_string(const Step& step) {
  constexpr std::array kNames = {"push",      "pop",     "ack",  "wait",  "hand back",
                                 "configure", "restart", "seek", "renew", "delete group"};
  return fmt::format("{}({},{},{},{})", kNames.at(static_cast<std::size_t>(step.kind)), step.a, step.b,
                     step.c, step.d);
}

History::History() : node_(disk_, clock_, small_files()) {}
History::~History() = default;

Uuid History::uuid() {
  Uuid id;
  const std::uint64_t number = ++uuids_;
  for (std::size_t i = 0; i < 8; ++i) id.bytes[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
  return id;
}

std::string History::submit(machine::Command command, machine::Outcome& outcome, std::int64_t& now) {
  const auto planned = node_.plan({command});
  now = planned.entry ? planned.entry->now_us : clock_.wall_us();
  outcome = planned.outcomes.at(0);
  if (!outcome.code.empty()) return "refused: " + outcome.code + ": " + outcome.error;
  if (planned.index == 0) return {};
  if (auto done = node_.write_and_sync({planned}); !done) return done.error().what;
  if (auto done = node_.apply({planned}); !done) return done.error().what;
  return {};
}

std::string History::push(const Step& step) {
  machine::PushCommand body;
  std::vector<std::vector<std::uint32_t>> ids;
  const int batches = step.d % 4 == 3 ? 2 : 1;
  for (int b = 0; b < batches; ++b) {
    std::vector<std::uint32_t> own;
    for (int i = 0; i <= step.c % 4; ++i)
      own.push_back((step.d + i) % 3 == 0 ? static_cast<std::uint32_t>((step.c + i * step.d) % 5) : ++ids_);
    const std::string queue = queue_name(step.a), partition = partition_name(step.b + b);
    body.batches.push_back(crash::message_batch(queue, partition, own));
    ids.push_back(std::move(own));
  }
  machine::Outcome outcome;
  std::int64_t now = 0;
  if (auto text = submit(command(body), outcome, now); !text.empty()) return text;
  return contract_.pushed(body, ids, std::get<machine::PushOutcome>(outcome.body), now);
}

std::string History::pop(const Step& step) {
  machine::PopCommand body;
  body.queue = queue_name(step.a);
  if (step.d % 4 == 1) body.partition = partition_name(step.c);
  body.group = group_name(step.b);
  body.batch = 1 + static_cast<std::uint32_t>(step.c % 6);
  body.partitions_max = body.partition ? 1 : 1 + static_cast<std::uint32_t>(step.d % 3);
  body.lease_seconds = step.c % 3 == 0 ? 1 + step.d % 2 : 0;
  body.commit_on_delivery = step.d % 9 == 5;
  body.subscription.mode =
      (step.b + step.d) % 2 == 0 ? machine::Subscription::Mode::all : machine::Subscription::Mode::fresh;
  body.lease_id = uuid();
  body.queue_uuid = uuid();
  body.group_uuid = uuid();
  machine::Outcome outcome;
  std::int64_t now = 0;
  if (auto text = submit(command(body), outcome, now); !text.empty()) return text;
  const auto& popped = std::get<machine::PopOutcome>(outcome.body);
  if (!popped.claims.empty() && !body.commit_on_delivery)
    held_.push_back({body.group, body.lease_id.str(), popped.claims});
  // As a broker that has read the claims before it answers.
  if (body.commit_on_delivery && !popped.claims.empty()) {
    machine::HandBackCommand settle;
    settle.group = body.group;
    settle.lease_id = body.lease_id;
    for (const auto& claim : popped.claims)
      settle.settled.push_back({claim.pid, static_cast<std::int64_t>(claim.last)});
    machine::Outcome settled;
    std::int64_t later = 0;
    if (auto text = submit(command(settle), settled, later); !text.empty()) return text;
  }
  return contract_.popped(body, popped, now);
}

// Acks messages of one of the last claims, or of some partition without a lease; sometimes more than there
// is.
std::string History::ack(const Step& step) {
  if (held_.empty()) return {};
  const Held& held =
      held_[held_.size() - 1 - static_cast<std::size_t>(step.a) % std::min<std::size_t>(held_.size(), 3)];
  machine::AckCommand body;
  body.group = held.group;
  std::vector<std::uint32_t> ids;
  const bool fenced = step.b % 5 != 0;
  // Without a lease what is said of a batch is one thing: mixtures are left open by the contract.
  const auto status_of = [&](int item) {
    const int draw = step.c % 2 == 0 ? 0 : (step.d + (fenced ? item * (1 + step.b % 3) : 0)) % 8;
    return draw < 4    ? AckStatus::completed
           : draw < 6  ? AckStatus::failed
           : draw == 6 ? AckStatus::retry
                       : AckStatus::dlq;
  };
  int number = 0;
  for (const auto& claim : held.claims) {
    const auto& messages = contract_.partitions().at(claim.pid.value).messages;
    const auto count = static_cast<int>(claim.last - claim.first) + 1;
    const int named = step.d % 3 == 0 ? 1 + step.b % count : count;
    for (int i = 0; i < named; ++i, ++number) {
      machine::AckItem item;
      item.partition_id = std::to_string(claim.pid.value);
      if (fenced) item.lease_id = held.lease_id;
      ids.push_back(messages.at(claim.first + static_cast<std::uint64_t>(i)).id);
      if (step.d % 7 == 6 && i == 0) ids.back() = 999'999;  // no such message
      item.transaction_id = crash::transaction_id(ids.back());
      item.hash = xxh3_128(item.transaction_id);
      item.status = status_of(number);
      item.dlq_id = uuid();
      body.items.push_back(std::move(item));
    }
  }
  // What the contract does not say of a counter, the node does: taken over before it is needed.
  if (auto text = compare_rows(); !text.empty()) return text;
  machine::Outcome outcome;
  std::int64_t now = 0;
  if (auto text = submit(command(body), outcome, now); !text.empty()) return text;
  const auto& acked = std::get<machine::AckOutcome>(outcome.body);
  return contract_.acked(body, ids, acked, now);
}

std::string History::hand_back(const Step& step) {
  if (held_.empty()) return {};
  const Held held =
      held_[held_.size() - 1 - static_cast<std::size_t>(step.a) % std::min<std::size_t>(held_.size(), 2)];
  machine::HandBackCommand body;
  body.group = held.group;
  for (const auto& claim : held.claims) body.pids.push_back(claim.pid);
  const auto number = held.lease_id;
  body.lease_id = Uuid::parse(number).value();
  machine::Outcome outcome;
  std::int64_t now = 0;
  // Only an answer that nobody got is handed back: nothing of it was acked.
  for (const auto& claim : held.claims) {
    const auto found = contract_.cursors().find({claim.pid.value, held.group});
    if (found == contract_.cursors().end()) return {};
    const auto& cursor = found->second;
    if (!cursor.lease || cursor.lease->id != held.lease_id || !cursor.lease->live_at(clock_.wall_us()) ||
        cursor.committed + 1 != static_cast<std::int64_t>(claim.first))
      return {};
  }
  if (auto text = submit(command(body), outcome, now); !text.empty()) return text;
  contract_.handed_back(held.group, held.lease_id);
  return {};
}

std::string History::configure(const Step& step) {
  QueueRules rules;
  rules.lease_time = std::array{1, 2, 4, 5}.at(static_cast<std::size_t>(step.b % 4));
  rules.retry_limit = step.c % 3;
  rules.delay = step.d % 5 == 4 ? 1 : 0;
  rules.window = step.d % 7 == 6 ? 1 : 0;
  rules.dedup_window = step.b % 3 == 0 ? 0 : step.b % 3 == 1 ? 2 : 3600;
  rules.dead_letters = step.c % 4 != 3;
  machine::ConfigureCommand body;
  body.queue = queue_name(step.a);
  body.queue_uuid = uuid();
  body.integers = {{"leaseTime", rules.lease_time},
                   {"retryLimit", rules.retry_limit},
                   {"delayedProcessing", rules.delay},
                   {"windowBuffer", rules.window},
                   {"dedupWindowSeconds", rules.dedup_window},
                   {"deadLetterQueue", rules.dead_letters},
                   {"dlqAfterMaxRetries", rules.dead_letters}};
  machine::Outcome outcome;
  std::int64_t now = 0;
  if (auto text = submit(command(body), outcome, now); !text.empty()) return text;
  contract_.configured(body.queue, rules);
  return {};
}

std::string History::seek(const Step& step) {
  machine::SeekCommand body;
  body.queue = queue_name(step.a);
  body.group = group_name(step.b);
  if (step.d % 3 == 1) body.partition = partition_name(step.c);
  if (step.d % 2 == 0) {
    // The stamp of some message there: it is wanted itself.
    body.since_us = 0;
    for (const auto& [pid, partition] : contract_.partitions())
      if (partition.queue == body.queue && !partition.messages.empty())
        body.since_us =
            partition.messages[static_cast<std::size_t>(step.c) % partition.messages.size()].stamp;
  }
  machine::Outcome outcome;
  std::int64_t now = 0;
  if (auto text = submit(command(body), outcome, now); !text.empty()) return text;
  return contract_.sought(body, std::get<machine::SeekOutcome>(outcome.body));
}

std::string History::renew(const Step& step) {
  if (held_.empty()) return {};
  machine::RenewCommand body;
  body.lease_id = held_[held_.size() - 1 - static_cast<std::size_t>(step.a) % held_.size()].lease_id;
  body.seconds = std::array{1, 2, 4, 5}.at(static_cast<std::size_t>(step.b % 4));
  machine::Outcome outcome;
  std::int64_t now = 0;
  if (auto text = submit(command(body), outcome, now); !text.empty()) return text;
  return contract_.renewed(body, std::get<machine::RenewOutcome>(outcome.body), now);
}

std::string History::delete_group(const Step& step) {
  machine::GroupDeleteCommand body;
  body.queue = queue_name(step.a);
  body.group = group_name(step.b);
  body.keep_registration = step.c % 2 == 0;
  machine::Outcome outcome;
  std::int64_t now = 0;
  if (auto text = submit(command(body), outcome, now); !text.empty()) return text;
  contract_.group_deleted(body);
  return {};
}

std::string History::restart(bool checkpoint) {
  if (checkpoint) node_.checkpoint();
  node_.kill();
  if (auto done = node_.open(); !done) return "boot refused: " + done.error().what;
  return {};
}

std::string History::step(const Step& step) {
  switch (step.kind) {
    case 0:
      return push(step);
    case 1:
      return pop(step);
    case 2:
      return ack(step);
    case 3:
      clock_.advance(kWaitUs * (1 + step.a % 8));
      return {};
    case 4:
      return hand_back(step);
    case 5:
      return configure(step);
    case 7:
      return seek(step);
    case 8:
      return renew(step);
    case 9:
      return delete_group(step);
    default:
      return restart(step.a % 2 == 0);
  }
}

// Cursors, leases, counters and dead letters as the node holds them.
std::string History::compare_rows() {
  contract_.forget_unset([&](const Contract::CursorKey& key) {
    return !node_.store().get(Keyspace::cursors, store::cursor_key(Pid{key.first}, key.second)).has_value();
  });
  for (auto& [key, cursor] : contract_.cursors()) {
    const auto bytes = node_.store().get(Keyspace::cursors, store::cursor_key(Pid{key.first}, key.second));
    cursor.stored = bytes.has_value();
    if (!bytes) continue;  // not looked at yet: where it starts is known
    const auto row = store::CursorRow::decode(*bytes);
    if (!row) return row.error().what;
    const std::string where = fmt::format("pid {} group {}: ", key.first, key.second);
    if (row->committed != cursor.committed)
      return fmt::format("{}cursor {} instead of {}", where, row->committed, cursor.committed);
    const std::int64_t now = clock_.wall_us();
    const bool live = cursor.lease && cursor.lease->live_at(now);
    if (live != (row->worker && *row->lease_expires > now)) return where + "another lease";
    if (live && (*row->worker != cursor.lease->id || *row->batch_end != cursor.lease->last))
      return where + "the lease differs";
    if (cursor.retries_known && row->batch_retry_count != cursor.retries)
      return fmt::format("{}{} retries instead of {}", where, row->batch_retry_count, cursor.retries);
    cursor.retries = row->batch_retry_count;
    cursor.retries_known = true;
  }
  std::multiset<FiledMessage> filed;
  node_.store().scan(Keyspace::dlq, {}, {}, [&](BytesView, BytesView value) {
    if (const auto row = store::DeadLetterRow::decode(value))
      filed.insert({row->pid.value, row->group, row->offset, row->retry_count});
    return true;
  });
  if (filed != contract_.filed())
    return fmt::format("{} dead letters instead of {}", filed.size(), contract_.filed().size());
  return {};
}

std::string History::compare_messages() {
  for (const auto& [pid, partition] : contract_.partitions()) {
    const LogId log =
        node_.logs().layout().of_partition(qlog::Layout::queue_id(kDefaultTenant, partition.queue), Pid{pid});
    const auto end = static_cast<std::uint64_t>(partition.messages.size());
    for (std::uint64_t next = 0; next < end;) {
      const auto batch = node_.logs().read(log, Pid{pid}, next, {end, 1000, 1U << 20});
      if (!batch) return batch.error().what;
      if (batch->messages.empty()) return fmt::format("pid {}: offset {} is not there", pid, next);
      for (const auto& message : batch->messages) {
        const StoredMessage& want = partition.messages.at(next);
        if (message.offset != next || message.frame.payload != crash::message_text(want.id) ||
            message.created_at != want.stamp)
          return fmt::format("pid {} offset {}: another message", pid, next);
        ++next;
      }
    }
  }
  return {};
}

std::string History::run(const std::vector<Step>& steps) {
  clock_.advance(1'000'000'000'000);
  if (auto done = node_.open(); !done) return done.error().what;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::string text = step(steps[i]);
    if (text.empty()) text = compare_rows();
    if (!text.empty()) return fmt::format("step {} {}: {}", i, to_string(steps[i]), text);
  }
  std::string text = restart(steps.size() % 2 == 0);
  if (text.empty()) text = compare_rows();
  if (text.empty()) text = compare_messages();
  return text;
}

}  // namespace queen::history

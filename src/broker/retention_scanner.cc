#include "broker/retention_scanner.h"

#include <algorithm>
#include <utility>

#include "base/invariant.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

using machine::Completion;
using machine::Cutoffs;
using store::Keyspace;

template <class T>
T must(Result<T> result) {
  INVARIANT(result.has_value(), "a row in RAM does not decode: {}", result.error().what);
  return std::move(*result);
}

// Looked at under one gate, which apply and the planner wait for.
constexpr std::size_t kPartitionsPerGate = 256;
static_assert(RetentionScanner::kPartitionsPerStep % kPartitionsPerGate == 0);

// The first append row of a partition: the oldest that is still in RAM.
std::optional<std::int64_t> first_row_stamp(const store::Store& store, Pid pid) {
  std::optional<std::int64_t> stamp;
  store.scan(Keyspace::txns, store::txns_prefix(pid), {}, [&](BytesView, BytesView value) {
    stamp = must(store::AppendRowView::decode(value)).created_at;
    return false;
  });
  return stamp;
}

std::int64_t retained_bytes(const store::Store& store, Pid pid) {
  const auto retained =
      store.get(Keyspace::counters, store::counter_key(store::CounterScope::partition, store::counter_id(pid),
                                                       store::Counter::retained_bytes));
  return retained ? std::max<std::int64_t>(must(store::decode_i64_row(*retained)), 0) : 0;
}

}  // namespace

// What the partitions of one queue are judged by, in one step.
struct RetentionScanner::Facts {
  Cutoffs cutoffs;
  std::vector<machine::RegisteredGroup> groups;
  std::string sink;  // that the queue holds for, empty = none
  Cutoffs without_hold;
};

// A partition of which something seems due.
struct RetentionScanner::Candidate {
  Pid pid;
  std::uint64_t queue_id = 0;
  std::int64_t log_start = 0, txns_start = 0, rows_start = 0, last_offset = -1;
  std::int64_t retained_bytes = 0;
  Cutoffs cutoffs;
  Completion completion;
  bool log = false, txns = false, rows = false, remove = false;
};

// A partition with messages that only the hold of a sink keeps; its cutoffs are those without the hold.
struct RetentionScanner::Held {
  std::string tenant, queue, sink;
  Candidate candidate;
};

RetentionScanner::RetentionScanner(const store::Store& store, qlog::QueueLogs& logs, Executor& executor,
                                   RetentionSettings settings, Submit submit, std::function<bool()> stopped,
                                   Logger log)
    : store_(store),
      logs_(logs),
      executor_(executor),
      settings_(settings),
      submit_(std::move(submit)),
      stopped_(std::move(stopped)),
      log_(std::move(log)) {}

void RetentionScanner::start() {
  executor_.post_after(settings_.interval_us, [this] { begin_round(); });
}

void RetentionScanner::begin_round() {
  round_began_ = executor_.clock().mono_us();
  next_pid_ = 0;
  if (proposed_.empty() && again_.empty()) ++settled_rounds_;
  step();
}

// RT-4. The gate is given back again and again: nothing here has to be as of one moment, for the planner
// judges anew. Rows are only looked at while it is held.
void RetentionScanner::step() {
  if (stopped_()) return;
  if (proposals_.size() + kPartitionsPerStep > kProposalsMax) {
    executor_.post_after(kAgainUs, [this] { step(); });
    return;
  }
  std::vector<Candidate> candidates;
  std::vector<Held> held;
  std::size_t seen = 0;
  bool more = true;
  FactsByQueue cache;
  while (more && seen < kPartitionsPerStep) {
    const std::size_t end = seen + kPartitionsPerGate;
    more = false;
    const auto gate = store_.read_gate();
    store_.scan(Keyspace::partitions, {}, store::partition_key(Pid{next_pid_}),
                [&](BytesView key, BytesView value) {
                  more = seen == end;
                  if (more) return false;
                  ++seen;
                  const auto pid = store::parse_partition_key(key);
                  INVARIANT(pid.has_value(), "a partition row has a broken key");
                  next_pid_ = pid->value + 1;
                  if (proposed_.contains(pid->value)) return true;
                  const auto row = must(store::PartitionRow::decode(value));
                  auto found = examine(*pid, row, cache);
                  if (found) candidates.push_back(std::move(*found));
                  if (auto kept = examine_hold(*pid, row, cache)) held.push_back(std::move(*kept));
                  return true;
                });
  }
  for (const Held& kept : held) count_held(kept);
  propose(candidates);
  if (!more) holds_.end_round();
  if (more) {
    const auto pause = static_cast<std::int64_t>(seen) * 1'000'000 / settings_.partitions_per_s;
    executor_.post_after(pause, [this] { step(); });
    return;
  }
  const std::int64_t next = std::max(round_began_ + settings_.interval_us, executor_.clock().mono_us());
  executor_.post_at(next, [this] { begin_round(); });
}

// The partitions that had more due than one step takes (RT-5).
void RetentionScanner::catch_up() {
  again_armed_ = false;
  if (stopped_()) return;
  if (proposals_.size() + kPartitionsPerStep > kProposalsMax) return after_step();
  std::vector<Candidate> candidates;
  const std::size_t count = std::min(again_.size(), kPartitionsPerStep);
  FactsByQueue cache;
  for (std::size_t at = 0; at < count; at += kPartitionsPerGate) {
    const auto gate = store_.read_gate();
    for (std::size_t i = at; i < std::min(count, at + kPartitionsPerGate); ++i) {
      const auto bytes = store_.get(Keyspace::partitions, store::partition_key(again_[i]));
      if (!bytes || proposed_.contains(again_[i].value)) continue;
      auto found = examine(again_[i], must(store::PartitionRow::decode(*bytes)), cache);
      if (found) candidates.push_back(std::move(*found));
    }
  }
  again_.erase(again_.begin(), again_.begin() + static_cast<std::ptrdiff_t>(count));
  propose(candidates);
  after_step();
}

void RetentionScanner::after_step() {
  if (again_.empty() || std::exchange(again_armed_, true)) return;
  executor_.post_after(kAgainUs, [this] { catch_up(); });
}

const RetentionScanner::Facts* RetentionScanner::facts_of(const store::PartitionRow& partition,
                                                          FactsByQueue& cache) const {
  Bytes key = store::queue_key(partition.tenant, partition.queue);
  const auto found = cache.find(key);
  if (found != cache.end()) return &found->second;
  const auto bytes = store_.get(Keyspace::queues, key);
  if (!bytes) return nullptr;
  const auto row = must(store::QueueRow::decode(*bytes));
  const std::int64_t now = executor_.clock().wall_us();
  const auto end = machine::sink_end_us(store_, partition.tenant, partition.queue, row, now);
  Facts facts{
      machine::cutoffs_of(row, now, end, settings_.txn_window_min_us), {}, row.retention_sink_hold, {}};
  if (!facts.sink.empty()) {
    auto free = row;
    free.retention_sink_hold.clear();
    facts.without_hold = machine::cutoffs_of(free, now, std::nullopt, settings_.txn_window_min_us);
  }
  if (facts.cutoffs.completed != Cutoffs::kNever)
    facts.groups = must(machine::registered_groups(store_, partition.tenant, partition.queue));
  return &cache.emplace(std::move(key), std::move(facts)).first->second;
}

// With a read gate held. Cheap for a partition of which nothing is due: its own row and its first append row.
std::optional<RetentionScanner::Candidate> RetentionScanner::examine(Pid pid,
                                                                     const store::PartitionRow& partition,
                                                                     FactsByQueue& cache) const {
  const Facts* facts = facts_of(partition, cache);
  if (facts == nullptr) return std::nullopt;
  const Cutoffs& cutoffs = facts->cutoffs;
  Candidate out;
  out.pid = pid;
  out.log_start = partition.log_start;
  out.txns_start = partition.txns_start;
  out.rows_start = partition.rows_start;
  out.last_offset = partition.last_offset;
  out.cutoffs = cutoffs;
  if (settings_.cleanup_us > 0)
    out.remove = must(
        machine::partition_dead(store_, pid, partition, executor_.clock().wall_us(), settings_.cleanup_us));
  if (partition.log_start <= partition.last_offset && partition.oldest_live_at &&
      *partition.oldest_live_at < cutoffs.furthest()) {
    if (cutoffs.completed != Cutoffs::kNever)
      out.completion = must(machine::completion_of(store_, pid, facts->groups));
    out.log = machine::message_due(cutoffs, out.completion, partition.log_start, *partition.oldest_live_at);
  }
  std::optional<std::int64_t> row_stamp;
  if (partition.rows_start <= partition.last_offset) row_stamp = first_row_stamp(store_, pid);
  out.rows = settings_.rows_window && row_stamp && *row_stamp < cutoffs.rows;
  // What has no row is old enough: it left by the same cutoff.
  const bool old_list =
      partition.rows_start > partition.txns_start || (row_stamp && *row_stamp < cutoffs.txns);
  out.txns = old_list && (out.log || partition.txns_start < partition.log_start);
  if (!out.log && !out.txns && !out.rows && !out.remove) return std::nullopt;
  out.queue_id = qlog::Layout::queue_id(partition.tenant, partition.queue).value;
  out.retained_bytes = retained_bytes(store_, pid);
  return out;
}

// With a read gate held. Cheap for a queue without a hold and for one whose sink keeps up.
std::optional<RetentionScanner::Held> RetentionScanner::examine_hold(Pid pid,
                                                                     const store::PartitionRow& partition,
                                                                     FactsByQueue& cache) const {
  const Facts* facts = facts_of(partition, cache);
  if (facts == nullptr || facts->sink.empty() || !partition.oldest_live_at) return std::nullopt;
  const bool due = partition.log_start <= partition.last_offset &&
                   *partition.oldest_live_at < facts->without_hold.furthest();
  if (!due) return std::nullopt;
  Held out{.tenant = partition.tenant, .queue = partition.queue, .sink = facts->sink, .candidate = {}};
  Candidate& at = out.candidate;
  at.pid = pid;
  at.queue_id = qlog::Layout::queue_id(partition.tenant, partition.queue).value;
  at.log_start = partition.log_start;
  at.rows_start = partition.rows_start;
  at.last_offset = partition.last_offset;
  at.cutoffs = facts->without_hold;
  if (at.cutoffs.completed != Cutoffs::kNever)
    at.completion = must(machine::completion_of(store_, pid, facts->groups));
  at.retained_bytes = retained_bytes(store_, pid);
  return out;
}

// Stamps ascend with the offsets, so the first message that would stay is found by halving.
void RetentionScanner::count_held(const Held& held) {
  const Candidate& at = held.candidate;
  std::int64_t low = at.log_start, high = at.last_offset + 1;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const auto appends = appends_from(at, middle, 1);
    if (!appends || appends->empty()) break;
    const Append& append = appends->front();
    if (machine::message_due(at.cutoffs, at.completion, append.end, append.created_at)) {
      low = append.end + 1;
    } else {
      high = std::min(middle, append.base);
    }
  }
  const auto messages = static_cast<double>(at.last_offset + 1 - at.log_start);
  const double share = static_cast<double>(low - at.log_start) / messages;
  holds_.add(held.tenant, held.queue, held.sink,
             static_cast<std::uint64_t>(share * static_cast<double>(at.retained_bytes)));
}

void RetentionScanner::propose(const std::vector<Candidate>& candidates) {
  for (const Candidate& candidate : candidates) {
    auto proposal = judge(candidate);
    if (!proposal) {
      log_.warn("retention_look_up_failed",
                {{"partition", candidate.pid.value}, {"why", proposal.error().what}});
      continue;
    }
    const machine::RetentionMove& move = proposal->move;
    if (!move.remove && move.log_stamp == 0 && move.txns_stamp == 0 && move.rows_stamp == 0) continue;
    proposed_.insert(candidate.pid.value);
    proposals_.push_back(std::move(*proposal));
  }
  send();
}

Result<RetentionScanner::Proposal> RetentionScanner::judge(const Candidate& at) const {
  Proposal out;
  machine::RetentionMove& move = out.move;
  move.pid = at.pid;
  move.remove = at.remove;
  if (at.remove) return out;
  const std::size_t most = settings_.batch_appends + 1;  // one more than a step takes
  move.log_start_from = move.log_start = at.log_start;
  if (at.log) {
    const auto appends = appends_from(at, at.log_start, most);
    if (!appends) return appends.error();
    const Walk log = walk(at, *appends, at.log_start, [&](const Append& append) {
      return machine::message_due(at.cutoffs, at.completion, append.end, append.created_at);
    });
    move.log_start = log.start;
    move.log_stamp = log.stamp;
    move.retained_bytes = log.bytes;
    move.oldest_live_at = log.next_stamp;
    out.more = log.more;
  }
  if (at.txns) {
    const auto appends = appends_from(at, at.txns_start, most);
    if (!appends) return appends.error();
    const Walk txns = walk(at, *appends, at.txns_start, [&](const Append& append) {
      return append.created_at < at.cutoffs.txns && append.end < move.log_start;
    });
    move.txns_start = txns.start;
    move.txns_stamp = txns.stamp;
    out.more = out.more || txns.more;
  }
  if (at.rows) {
    const auto appends = appends_from(at, at.rows_start, most);
    if (!appends) return appends.error();
    const Walk rows = walk(at, *appends, at.rows_start,
                           [&](const Append& append) { return append.created_at < at.cutoffs.rows; });
    move.rows_start = rows.start;
    move.rows_stamp = rows.stamp;
    out.more = out.more || rows.more;
  }
  return out;
}

// The first `most` appends that end at or above `from`: by the log's index below rows_start
// (RT-10), by rows from there.
Result<std::vector<RetentionScanner::Append>> RetentionScanner::appends_from(const Candidate& at,
                                                                             std::int64_t from,
                                                                             std::size_t most) const {
  std::vector<Append> out;
  if (from < at.rows_start) {
    const LogId log = logs_.layout().of_partition(LogId{at.queue_id}, at.pid);
    const auto places = logs_.locate(log, at.pid, static_cast<std::uint64_t>(from), most);
    if (!places) return places.error();
    for (const qlog::AppendPlace& place : *places) {
      if (static_cast<std::int64_t>(place.end) > at.rows_start) break;
      out.push_back({static_cast<std::int64_t>(place.base_offset), static_cast<std::int64_t>(place.end) - 1,
                     place.created_at, std::nullopt});
    }
  }
  if (out.size() == most) return out;
  const auto gate = store_.read_gate();
  const Bytes first = store::txns_key(at.pid, std::max(from, at.rows_start));
  store_.scan(Keyspace::txns, store::txns_prefix(at.pid), first, [&](BytesView key, BytesView value) {
    const auto row = must(store::AppendRowView::decode(value));
    const std::int64_t base = store::parse_txns_key(key)->base_offset;
    out.push_back({base, row.end, row.created_at, row.retained_bytes.value_or(0)});
    return out.size() < most;
  });
  return out;
}

// Over whole appends, from the front, until the first that is not due (RT-8).
RetentionScanner::Walk RetentionScanner::walk(const Candidate& at, const std::vector<Append>& appends,
                                              std::int64_t from,
                                              const std::function<bool(const Append&)>& due) const {
  Walk out;
  out.start = from;
  const std::int64_t messages = std::max<std::int64_t>(at.last_offset + 1 - at.log_start, 1);
  std::size_t taken = 0;
  for (const Append& append : appends) {
    const bool is_due = due(append);
    out.more = is_due && taken == settings_.batch_appends;
    if (!is_due || out.more) {
      out.next_stamp = append.created_at;
      break;
    }
    ++taken;
    // Only rows know their size; without one an append counts as the partition's messages do on average.
    const std::int64_t count = append.end - append.base + 1;
    out.bytes += append.raw_bytes
                     ? *append.raw_bytes
                     : static_cast<std::uint64_t>(static_cast<double>(at.retained_bytes) *
                                                  static_cast<double>(count) / static_cast<double>(messages));
    out.start = append.end + 1;
    out.stamp = append.created_at;
  }
  return out;
}

void RetentionScanner::send() {
  if (!sending_.empty() || proposals_.empty()) return;
  machine::RetentionCommand command;
  command.txn_window_min_us = settings_.txn_window_min_us;
  command.cleanup_us = settings_.cleanup_us;
  command.rows_window = settings_.rows_window;
  while (!proposals_.empty() && command.moves.size() < machine::RetentionCommand::kMovesMax) {
    sending_.emplace_back(proposals_.front().move.pid, proposals_.front().more);
    command.moves.push_back(std::move(proposals_.front().move));
    proposals_.pop_front();
  }
  submit_(std::move(command), [this](bool applied) { executor_.post([this, applied] { sent(applied); }); });
}

// A refused command is forgotten: the next round finds what is still due.
void RetentionScanner::sent(bool applied) {
  for (const auto& [pid, more] : sending_) {
    proposed_.erase(pid.value);
    if (applied && more && again_.size() < kProposalsMax) again_.push_back(pid);
  }
  sending_.clear();
  if (!applied && stopped_()) return;
  after_step();
  send();
}

}  // namespace queen::broker

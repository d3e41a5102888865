#include "broker/node_meter.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "broker/store_steps.h"

namespace queen::broker {
namespace {

constexpr std::int64_t kLookUs = 5'000'000;
constexpr std::int64_t kLoopUs = 100'000;

FigureFiles::Limits limits_of(const MeterSettings& settings) {
  return {settings.node_hours, settings.queue_hours, settings.queue_rows_max};
}

bool within(std::int64_t us, std::int64_t from_us, std::int64_t to_us) {
  return minute_of(us) >= from_us && minute_of(us) <= to_us;
}

// Percent of a core, times 100.
std::uint64_t share(std::int64_t used_us, std::int64_t passed_us) {
  if (passed_us <= 0 || used_us <= 0) return 0;
  return static_cast<std::uint64_t>(used_us * 10'000 / passed_us);
}

}  // namespace

NodeMeter::NodeMeter(Parts parts, const std::string& data_directory, MeterSettings settings,
                     const Logger& log)
    : parts_(std::move(parts)),
      settings_(settings),
      started_mono_us_(parts_.clock.mono_us()),
      files_(parts_.disk, data_directory + "/figures", limits_of(settings), log),
      period_from_us_(parts_.clock.wall_us()),
      used_(process()),
      used_mono_us_(started_mono_us_) {}

void NodeMeter::start() {
  if (settings_.flush_us == 0) return;
  parts_.files.post([this] {
    const std::unique_lock lock(flush_mutex_);
    files_.open();
    written_until_us_ = std::max(written_until_us_, files_.newest_us());
    files_.prune(parts_.clock.wall_us());
  });
  parts_.files.post_after(std::min(kLookUs, settings_.flush_us), [this] { tick_look(); });
  parts_.files.post_after(next_flush_in_us(), [this] { tick_flush(); });
  const std::int64_t due = parts_.clock.mono_us() + kLoopUs;
  parts_.timers.post_at(due, [this, due] { tick_loop(due); });
}

void NodeMeter::finish() {
  if (settings_.flush_us == 0) return;
  {
    const std::unique_lock lock(flush_mutex_);
    if (finished_) return;
    finished_ = true;
  }
  flush();
}

Tally NodeMeter::of(std::string_view tenant, std::string_view queue) {
  return {&node_, queues_.of(tenant, queue)};
}

ProcessUse NodeMeter::process() const {
  return settings_.process != nullptr ? settings_.process->use() : ProcessUse{};
}

OpCounts NodeMeter::totals() const {
  const std::lock_guard lock(last_mutex_);
  OpCounts out = node_before_;
  out += node_.read();
  return out;
}

LagSum NodeMeter::loop_lag() const {
  const std::lock_guard lock(last_mutex_);
  LagSum out = loop_before_;
  out += loop_.read().lag;
  return out;
}

void NodeMeter::tick_look() {
  look();
  parts_.files.post_after(std::min(kLookUs, settings_.flush_us), [this] { tick_look(); });
}

void NodeMeter::tick_loop(std::int64_t due_us) {
  const std::int64_t now = parts_.clock.mono_us();
  const auto late = static_cast<std::uint64_t>(std::max<std::int64_t>(0, now - due_us));
  loop_.add(LagSum{1, late, late});
  const std::int64_t next = now + kLoopUs;
  parts_.timers.post_at(next, [this, next] { tick_loop(next); });
}

// At whole multiples of the period by the wall clock, so that a period of a minute is a minute of the clock.
std::int64_t NodeMeter::next_flush_in_us() const {
  const std::int64_t passed = parts_.clock.wall_us() % settings_.flush_us;
  return settings_.flush_us - std::max<std::int64_t>(passed, 0);
}

void NodeMeter::tick_flush() {
  flush();
  // A little too early by the wall clock is no period of its own.
  std::int64_t in = next_flush_in_us();
  if (in < settings_.flush_us / 10) in += settings_.flush_us;
  parts_.files.post_after(in, [this] { tick_flush(); });
}

void NodeMeter::look() {
  const NodeGauges now = parts_.gauges();
  const ProcessUse use = process();
  const std::int64_t mono = parts_.clock.mono_us();
  const std::lock_guard lock(last_mutex_);
  const std::int64_t passed = mono - used_mono_us_;
  looks_.look({share(use.cpu_user_us - used_.cpu_user_us, passed),
               share(use.cpu_system_us - used_.cpu_system_us, passed), use.rss_bytes, use.virtual_bytes,
               now.waiting_pops, now.inflight, now.committed - std::min(now.applied, now.committed),
               now.log_bytes, now.log_files, now.map_used_pct});
  used_ = use;
  used_mono_us_ = mono;
}

bool NodeMeter::exists(const QueueOpsRow& row) const {
  const auto gate = parts_.store.read_gate();
  return parts_.store.get(store::Keyspace::queues, store::queue_key(row.tenant, row.queue)).has_value();
}

std::vector<QueueOpsRow> NodeMeter::with_parked(std::vector<QueueOpsRow> rows) const {
  auto all_parked = parts_.parked();
  rows.reserve(rows.size() + all_parked.size());  // the names below are borrowed from the rows
  std::map<std::pair<std::string_view, std::string_view>, std::uint64_t*> known;
  if (!all_parked.empty())
    for (QueueOpsRow& row : rows) known[{row.tenant, row.queue}] = &row.parked;
  for (ParkedPops& parked : all_parked) {
    const auto found = known.find({parked.tenant, parked.queue});
    if (found != known.end())
      *found->second = parked.count;
    else
      rows.push_back({0, std::move(parked.tenant), std::move(parked.queue), {}, parked.count});
  }
  for (QueueOpsRow& row : rows) row.from_us = period_from_us_;
  return rows;
}

void NodeMeter::flush() {
  look();
  const std::unique_lock lock(flush_mutex_);
  const std::int64_t now = parts_.clock.wall_us();
  NodeRow node{period_from_us_, now, {}, {}, {}};
  auto queues = with_parked(queues_.take());
  // Of a queue that was asked for and never made, or is gone, no row is kept.
  std::erase_if(queues, [&](const QueueOpsRow& row) { return !exists(row); });
  {
    const std::lock_guard last(last_mutex_);
    node.ops = node_.take();
    node.loop = loop_.take().lag;
    node.gauges = std::exchange(looks_, {});
    node_before_ += node.ops;
    loop_before_ += node.loop;
    last_rows_ = queues;
  }
  Bytes records;
  append_figure(records, node);
  if (files_.append(FigureFiles::Kind::node, node.from_us, records, 1)) written_until_us_ = now;
  if (!parts_.storage_full()) {
    records.clear();
    for (const QueueOpsRow& row : queues) append_figure(records, row);
    files_.append(FigureFiles::Kind::queue, node.from_us, records, queues.size());
  }
  files_.prune(now);
  // A tick that came a little early or late still begins the period that it was for.
  const std::int64_t near = (now + settings_.flush_us / 10) / settings_.flush_us * settings_.flush_us;
  period_from_us_ = std::abs(now - near) < settings_.flush_us / 10 ? near : now;
}

NodeRow NodeMeter::running_row() const {
  const std::lock_guard last(last_mutex_);
  return {period_from_us_, parts_.clock.wall_us(), node_.read(), loop_.read().lag, looks_};
}

std::vector<QueueOpsRow> NodeMeter::last_rows() const {
  const std::lock_guard lock(last_mutex_);
  return last_rows_;
}

std::optional<std::int64_t> NodeMeter::written_until_us() const {
  const std::shared_lock lock(flush_mutex_);
  if (written_until_us_ == 0) return std::nullopt;
  return written_until_us_;
}

std::vector<NodeRow> NodeMeter::node_rows(std::int64_t from_us, std::int64_t to_us) const {
  std::vector<NodeRow> out;
  const std::shared_lock lock(flush_mutex_);
  const auto add = [&](const NodeRow& row) {
    if (within(row.from_us, from_us, to_us)) out.push_back(row);
  };
  files_.read(FigureFiles::Kind::node, from_us, to_us, {add, nullptr});
  add(running_row());
  return out;
}

std::vector<QueueOpsRow> NodeMeter::queue_rows(const std::string& tenant, std::int64_t from_us,
                                               std::int64_t to_us) const {
  std::vector<QueueOpsRow> out;
  const std::shared_lock lock(flush_mutex_);
  const auto add = [&](QueueOpsRow row) {
    if (row.tenant == tenant && within(row.from_us, from_us, to_us)) out.push_back(std::move(row));
  };
  files_.read(FigureFiles::Kind::queue, from_us, to_us, {nullptr, add});
  for (QueueOpsRow& row : with_parked(queues_.read())) add(std::move(row));
  return out;
}

std::vector<DeadLetterDepth> NodeMeter::dead_letters() const {
  std::vector<DeadLetterDepth> out;
  each_row(parts_.store, store::Keyspace::queues, {}, [&](BytesView key, BytesView) {
    const auto name = store::parse_queue_key(key);
    INVARIANT(name.has_value(), "a queue's key does not parse");
    const auto bytes = parts_.store.get(
        store::Keyspace::counters,
        store::counter_key(store::CounterScope::queue, store::counter_id(name->tenant, name->queue),
                           store::Counter::dlq_count));
    const auto count = bytes ? store::decode_i64_row(*bytes) : Result<std::int64_t>(0);
    INVARIANT(count.has_value(), "a counter does not decode");
    if (*count > 0) out.push_back({name->tenant, name->queue, static_cast<std::uint64_t>(*count)});
    return true;
  });
  return out;
}

}  // namespace queen::broker

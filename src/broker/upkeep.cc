#include "broker/upkeep.h"

#include "base/invariant.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

constexpr std::int64_t kIdlePassUs = 5'000'000;
constexpr std::int64_t kReclaimPassUs = 1'000'000;

qlog::UpkeepSettings with_clock(qlog::UpkeepSettings settings, Executor& executor) {
  settings.clock = &executor.clock();
  return settings;
}

}  // namespace

Upkeep::Upkeep(qlog::QueueLogs& logs, store::Store& store, Checkpointer& checkpointer, Executor& executor,
               qlog::UpkeepSettings settings, UpkeepFailure failure, Logger log)
    : logs_(logs),
      store_(store),
      checkpointer_(checkpointer),
      executor_(executor),
      failure_(std::move(failure)),
      log_(std::move(log)),
      upkeep_(logs.make_upkeep(*this, with_clock(settings, executor))) {}

void Upkeep::start() {
  executor_.post_after(kIdlePassUs, [this] { tick_idle(); });
  executor_.post_after(kReclaimPassUs, [this] { tick_reclaim(); });
}

// After a failure of the node the files stay as they are, for whoever looks into it.
bool Upkeep::go_on() {
  return !stopping_.load(std::memory_order_relaxed) && failure_.node_is_sound();
}

std::optional<qlog::UpkeepHost::Partition> Upkeep::partition_of(Pid pid) const {
  const auto bytes = store_.get(store::Keyspace::partitions, store::partition_key(pid));
  if (!bytes) return std::nullopt;
  const auto row = store::PartitionRow::decode(*bytes);
  INVARIANT(row.has_value(), "partition row {} does not decode", pid.value);
  INVARIANT(row->txns_start >= 0, "partition {}: txns_start {}", pid.value, row->txns_start);
  const LogId queue = qlog::Layout::queue_id(row->tenant, row->queue);
  return Partition{.log = logs_.layout().of_partition(queue, pid),
                   .txns_start = static_cast<std::uint64_t>(row->txns_start)};
}

std::vector<std::optional<qlog::UpkeepHost::Partition>> Upkeep::look_up(std::span<const Pid> pids) {
  std::vector<std::optional<Partition>> partitions;
  partitions.reserve(pids.size());
  const auto gate = store_.read_gate();
  for (const Pid pid : pids) partitions.push_back(partition_of(pid));
  return partitions;
}

void Upkeep::tick_idle() {
  if (!go_on()) return;
  const auto report = upkeep_->idle_pass(executor_.clock().wall_us());
  if (!report) return failure_.stop_node(report.error());
  if (report->sealed + report->removed > 0)
    log_.debug("idle_pass", {{"sealed", report->sealed}, {"removed", report->removed}});
  executor_.post_after(kIdlePassUs, [this] { tick_idle(); });
}

void Upkeep::tick_reclaim() {
  if (!go_on()) return;
  const auto report = upkeep_->reclaim_pass();
  if (report.unlinked + report.rewritten > 0)
    log_.info("reclaimed", {{"unlinked", report.unlinked},
                            {"rewritten", report.rewritten},
                            {"looked_at", report.looked_at},
                            {"bytes", report.freed_bytes}});
  executor_.post_after(kReclaimPassUs, [this] { tick_reclaim(); });
}

}  // namespace queen::broker

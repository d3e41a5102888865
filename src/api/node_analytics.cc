// What the nodes counted and how they were: system-metrics and worker-metrics (operations.md 6.5, 6.6).
#include <algorithm>
#include <array>
#include <charconv>

#include "api/detail/figures.h"
#include "api/detail/resources.h"

namespace queen::api {
namespace {

using broker::Gauge;
using broker::Op;

constexpr std::int64_t kWorkerSeenUs = 5LL * 60 * 1'000'000;
constexpr std::string_view kWorker = "worker-0";

struct Leaf {
  std::string_view name;
  Gauge gauge;
};
constexpr std::array kCpu = {Leaf{"user_us", Gauge::cpu_user}, Leaf{"system_us", Gauge::cpu_system}};
constexpr std::array kMemory = {Leaf{"rss_bytes", Gauge::rss_bytes},
                                Leaf{"virtual_bytes", Gauge::virtual_bytes}};
constexpr std::array kRegistries = {Leaf{"response", Gauge::waiting_pops}};
constexpr std::array kRaft = {Leaf{"inflight", Gauge::inflight}, Leaf{"applied_lag", Gauge::applied_lag},
                              Leaf{"log_bytes", Gauge::log_bytes}, Leaf{"log_files", Gauge::log_files},
                              Leaf{"map_used_pct", Gauge::map_used_pct}};

// Groups that nodes with a database and a pool of threads fill.
constexpr std::string_view kAbsent =
    R"("database":{"pool_size":null,"pool_idle":null,"pool_active":null},)"
    R"("threadpool":{"db":{"pool_size":null,"queue_size":null},"system":{"pool_size":null,"queue_size":null}},)"
    R"("shared_state":{"enabled":null})";

void write_group(JsonWriter& out, std::string_view name, std::span<const Leaf> leaves,
                 const broker::GaugeLooks& looks) {
  out.name(name).open('{');
  for (const Leaf& leaf : leaves) {
    const broker::GaugeRange& range = looks[leaf.gauge];
    out.name(leaf.name).open('{').name("avg");
    out.decimal(static_cast<double>(range.sum) / static_cast<double>(looks.looks));
    out.name("min")
        .number(range.min)
        .name("max")
        .number(range.max)
        .name("last")
        .number(range.last)
        .close('}');
  }
  out.close('}');
}

std::string render_system(const FigureRange& range, const FigureBuckets& buckets,
                          const ApiSettings& settings) {
  std::size_t points = 0;
  for (const auto& [bucket, sum] : buckets) points += sum.gauges.looks > 0 ? 1 : 0;
  std::string text;
  JsonWriter out(text);
  out.open('{');
  write_time_range(out, range);
  out.name("replicaCount").number(points > 0 ? 1 : 0).name("replicas").open('[');
  if (points > 0) {
    out.open('{').name("hostname").text(settings.node_name).name("port").number(settings.port);
    out.name("workerId").text(kWorker).name("timeSeries").open('[');
    for (const auto& [bucket, sum] : buckets) {
      if (sum.gauges.looks == 0) continue;
      out.open('{').name("timestamp").instant_ms(bucket).name("sampleCount").number(sum.gauges.looks);
      out.name("metrics").open('{');
      write_group(out, "cpu", kCpu, sum.gauges);
      write_group(out, "memory", kMemory, sum.gauges);
      out.raw(kAbsent);
      write_group(out, "registries", kRegistries, sum.gauges);
      write_group(out, "raft", kRaft, sum.gauges);
      out.close('}').close('}');
    }
    out.close(']').close('}');
  }
  out.close(']').name("bucketMinutes").number(range.bucket_minutes).name("pointCount").number(points);
  out.close('}');
  return text;
}

struct WorkerFacts {
  FigureRange range;
  FigureBuckets buckets;
  std::vector<std::pair<std::string, broker::LagSum>> queues;  // most pops first
  std::optional<FigureSum> worker;
  std::int64_t pending = 0;
  std::string node_name;
};

void write_worker_point(JsonWriter& out, std::int64_t bucket, const FigureSum& sum,
                        const FigureRange& range) {
  const broker::OpCounts& ops = sum.ops;
  out.open('{').name("timestamp").instant_s(bucket).name("pushMessages").number(ops[Op::push_messages]);
  out.name("popMessages").number(ops[Op::pop_messages]).name("ackMessages").number(ops.acks());
  out.name("pushRequests").number(ops[Op::push_requests]).name("popRequests").number(ops[Op::pop_requests]);
  out.name("ackRequests").number(ops[Op::ack_requests]).name("jobsDone").number(ops[Op::push_requests]);
  write_rate(out, "pushPerSecond", ops[Op::push_messages], range);
  write_rate(out, "popPerSecond", ops[Op::pop_messages], range);
  write_rate(out, "ackPerSecond", ops.acks(), range);
  write_lag_ms(out, "avgEventLoopLagMs", "maxEventLoopLagMs", sum.loop, NoLag::zero);
  write_lag_ms(out, "avgLagMs", "maxLagMs", ops.lag, NoLag::zero);
  out.name("lagCount").number(ops.lag.count).name("dbErrors").number(ops[Op::errors]);
  out.name("ackSuccess").number(ops[Op::ack_success]).name("ackFailed").number(ops[Op::ack_failed]);
  out.name("dlqCount").number(ops[Op::dead_letters]);
  for (const std::string_view name :
       {"avgFreeSlots", "minFreeSlots", "dbConnections", "avgJobQueueSize", "maxJobQueueSize", "backoffSize"})
    out.name(name).null();
  out.close('}');
}

void write_summary(JsonWriter& out, const broker::OpCounts& ops, std::int64_t pending) {
  out.name("summary").open('{').name("totalPushMessages").number(ops[Op::push_messages]);
  out.name("totalPopMessages").number(ops[Op::pop_messages]).name("totalAckMessages").number(ops.acks());
  out.name("totalPushRequests").number(ops[Op::push_requests]);
  out.name("totalPopRequests").number(ops[Op::pop_requests]);
  out.name("totalAckRequests").number(ops[Op::ack_requests]).name("totalDbErrors").number(ops[Op::errors]);
  out.name("totalAckFailed").number(ops[Op::ack_failed]).name("totalDlq").number(ops[Op::dead_letters]);
  out.name("pendingMessages").number(pending).close('}');
}

std::string render_workers(const WorkerFacts& facts) {
  std::string text;
  JsonWriter out(text);
  out.open('{');
  write_time_range(out, facts.range);
  out.name("bucketMinutes").number(facts.range.bucket_minutes);
  out.name("pointCount").number(facts.buckets.size()).name("timeSeries").open('[');
  broker::OpCounts total;
  for (auto at = facts.buckets.rbegin(); at != facts.buckets.rend(); ++at) {
    write_worker_point(out, at->first, at->second, facts.range);
    total += at->second.ops;
  }
  out.close(']').name("workers").open('[');
  if (facts.worker) {
    write_worker(out, facts.node_name, *facts.worker);
    out.name("lastSeen").instant_s(facts.worker->last_seen_us).close('}');
  }
  out.close(']').name("queues").open('[');
  for (const auto& [name, lag] : facts.queues) {
    out.open('{').name("queueName").text(name).name("popCount").number(lag.count);
    write_lag_ms(out, "avgLagMs", "maxLagMs", lag, NoLag::null);
    out.close('}');
  }
  out.close(']');
  write_summary(out, total, facts.pending);
  out.close('}');
  return text;
}

WorkerFacts worker_facts(const SharedContext& context, const std::string& tenant, const FigureRange& range,
                         std::int64_t now, bool this_node) {
  const broker::Meter& meter = context->broker.meter();
  WorkerFacts out{range, {}, {}, {}, 0, context->settings.node_name};
  QueueAges ages;
  for (const auto& queue : context->broker.resources().standing(tenant, {}).queues) {
    out.pending += queue.figures.unconsumed;
    ages.emplace(queue.name, queue.row.created_at);
  }
  if (!this_node) return out;
  out.buckets = buckets_of(meter.node_rows(range.from_us, range.to_us), range);
  out.worker = seen_since(meter, now - kWorkerSeenUs);
  std::map<std::string, broker::LagSum> queues;
  for (const auto& row : living(meter.queue_rows(tenant, range.from_us, range.to_us), ages))
    if (row.ops.lag.count > 0) queues[row.queue] += row.ops.lag;
  out.queues.assign(queues.begin(), queues.end());
  std::ranges::stable_sort(out.queues, std::greater<>(),
                           [](const auto& queue) { return queue.second.count; });
  return out;
}

}  // namespace

void handle_system_metrics(const SharedContext& context, Inbound inbound) {
  const Query query([&](std::string_view name) { return inbound.request.query_value(name); });
  const auto range = figure_range(query, context->clock.wall_us());
  if (!range) return inbound.reply->send(figures_fault("from and to must be timestamps"));
  const bool this_node =
      query.filled("hostname").value_or(context->settings.node_name) == context->settings.node_name &&
      query.filled("workerId").value_or(std::string(kWorker)) == kWorker;
  answer_from_look(context, std::move(inbound.reply), [context, this_node, range = *range] {
    FigureBuckets buckets;
    if (this_node) buckets = buckets_of(context->broker.meter().node_rows(range.from_us, range.to_us), range);
    return json_response(200, render_system(range, buckets, context->settings));
  });
}

void handle_worker_metrics(const SharedContext& context, Inbound inbound) {
  const Query query([&](std::string_view name) { return inbound.request.query_value(name); });
  const std::int64_t now = context->clock.wall_us();
  const auto range = figure_range(query, now);
  if (!range) return inbound.reply->send(figures_fault("from and to must be timestamps"));
  std::int64_t worker = 0;
  if (const auto text = query.filled("workerId")) {
    const char* end = text->data() + text->size();
    const auto parsed = std::from_chars(text->data(), end, worker);
    if (parsed.ec != std::errc{} || parsed.ptr != end)
      return inbound.reply->send(figures_fault("workerId must be an integer"));
  }
  const bool this_node = worker == 0 && query.filled("hostname").value_or(context->settings.node_name) ==
                                            context->settings.node_name;
  answer_from_look(context, std::move(inbound.reply),
                   [context, now, this_node, range = *range, tenant = std::move(inbound.tenant)] {
                     return json_response(
                         200, render_workers(worker_facts(context, tenant, range, now, this_node)));
                   });
}

}  // namespace queen::api

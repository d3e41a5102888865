// GET /api/v1/status and what is below it (operations.md 6.3, 6.4), and the refresh that has nothing to do.
#include <algorithm>

#include "api/detail/figures.h"
#include "api/detail/names.h"
#include "api/detail/queue_json.h"
#include "api/detail/queues.h"
#include "api/detail/resources.h"

namespace queen::api {
namespace {

using broker::Gauge;
using broker::Op;

constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::int64_t kMinuteUs = 60 * kSecondUs;
constexpr std::int64_t kWorkerSeenUs = 2 * kMinuteUs;
constexpr std::int64_t kDayUs = 24 * 60 * kMinuteUs;
constexpr std::size_t kTopErrors = 5;

// What one answer of GET /api/v1/status is made from.
struct StatusFacts {
  FigureRange range;
  bool filtered = false;
  FigureBuckets buckets;
  broker::StandingView standing;
  std::optional<FigureSum> worker;
  std::optional<std::int64_t> written_until_us;
  std::string node_name;
  std::int64_t now_us = 0;
};

double average(const broker::GaugeLooks& looks, Gauge gauge) {
  return looks.looks == 0 ? 0 : static_cast<double>(looks[gauge].sum) / static_cast<double>(looks.looks);
}

// Null where no row of a node landed, as it may be with a filter.
void write_node_signals(JsonWriter& out, const FigureSum& sum) {
  const auto& gauges = sum.gauges;
  const auto gauge = [&](std::string_view name, double value) {
    out.name(name);
    if (gauges.looks == 0)
      out.null();
    else
      out.decimal(value);
  };
  gauge("queenCpuUserPct", average(gauges, Gauge::cpu_user) / 100);
  gauge("queenCpuSysPct", average(gauges, Gauge::cpu_system) / 100);
  gauge("queenRssMb", average(gauges, Gauge::rss_bytes) / (1 << 20));
}

void write_point(JsonWriter& out, std::int64_t bucket, const FigureSum& sum, const StatusFacts& facts) {
  const broker::OpCounts& ops = sum.ops;
  out.open('{').name("timestamp").instant_s(bucket).name("ingested").number(ops[Op::push_messages]);
  out.name("processed").number(ops.acks()).name("popMessages").number(ops[Op::pop_messages]);
  write_rate(out, "ingestedPerSecond", ops[Op::push_messages], facts.range);
  write_rate(out, "processedPerSecond", ops.acks(), facts.range);
  write_rate(out, "popPerSecond", ops[Op::pop_messages], facts.range);
  write_lag_ms(out, "avgLagMs", "maxLagMs", ops.lag, NoLag::zero);
  write_lag_ms(out, "avgEventLoopLagMs", "maxEventLoopLagMs", sum.loop,
               sum.of_node ? NoLag::zero : NoLag::null);
  out.name("minFreeSlots").null().name("dbErrors");
  if (sum.of_node)
    out.number(ops[Op::errors]);
  else
    out.null();
  out.name("ackFailed").number(ops[Op::ack_failed]).name("dlqCount").number(ops[Op::dead_letters]);
  write_node_signals(out, sum);
  out.name("dbPoolActive").null().name("dbPoolIdle").null().name("dbPoolSize").null().close('}');
}

void write_efficiency(JsonWriter& out, std::string_view name, std::uint64_t messages,
                      std::uint64_t requests) {
  out.name(name).decimal(requests == 0 ? 0 : static_cast<double>(messages) / static_cast<double>(requests));
}

void write_messages(JsonWriter& out, const broker::Figures& totals, const broker::OpCounts& ops) {
  out.name("messages").open('{').name("total").number(totals.total).name("pending").number(totals.unconsumed);
  out.name("processing").number(totals.processing).name("completed").number(totals.completed());
  out.name("failed").number(0).name("deadLetter").number(totals.dead_letter);
  out.name("requests").open('{').name("push").number(ops[Op::push_requests]);
  out.name("pop").number(ops[Op::pop_requests]).name("ack").number(ops[Op::ack_requests]).close('}');
  out.name("batchEfficiency").open('{');
  write_efficiency(out, "push", ops[Op::push_messages], ops[Op::push_requests]);
  write_efficiency(out, "pop", ops[Op::pop_messages], ops[Op::pop_requests]);
  write_efficiency(out, "ack", ops.acks(), ops[Op::ack_requests]);
  out.close('}').close('}');
}

void write_standing(JsonWriter& out, const broker::StandingView& standing, const broker::OpCounts& ops) {
  broker::Figures totals;
  std::uint64_t leases = 0, leased = 0;
  std::int64_t leased_messages = 0;
  out.name("queues").open('[');
  for (const broker::QueueStanding& queue : standing.queues) {
    totals += queue.figures;
    leases += queue.leases;
    leased += queue.leased_partitions;
    leased_messages += queue.leased_messages;
    if (queue.figures.total == 0) continue;
    out.open('{').name("id").uuid(queue.row.uuid).name("name").text(queue.name);
    write_queue_labels(out, queue.row);
    out.name("partitions").number(queue.partitions).name("totalConsumed").number(queue.consumed).close('}');
  }
  out.close(']');
  write_messages(out, totals, ops);
  out.name("leases").open('{').name("active").number(leases).name("partitionsWithLeases").number(leased);
  out.name("totalBatchSize").number(leased_messages).name("totalAcked").number(0).close('}');
  out.name("deadLetterQueue").open('{').name("totalMessages").number(totals.dead_letter);
  out.name("currentMessages").number(totals.dead_letter);
  out.name("affectedPartitions").number(standing.dead_partitions).name("topErrors").open('[');
  for (std::size_t i = 0; i < std::min(standing.errors.size(), kTopErrors); ++i) {
    const auto& [error, count] = standing.errors[i];
    out.open('{')
        .name("error")
        .text(error.empty() ? "unknown" : error)
        .name("count")
        .number(count)
        .close('}');
  }
  out.close(']').close('}');
}

std::string render_status(const StatusFacts& facts) {
  std::string text;
  JsonWriter out(text);
  out.open('{');
  write_time_range(out, facts.range);
  out.name("bucketMinutes").number(facts.range.bucket_minutes);
  out.name("pointCount").number(facts.buckets.size()).name("throughput").open('[');
  broker::OpCounts sum;
  for (auto at = facts.buckets.rbegin(); at != facts.buckets.rend(); ++at) {
    write_point(out, at->first, at->second, facts);
    sum += at->second.ops;
  }
  out.close(']');
  write_standing(out, facts.standing, sum);
  out.name("workers").open('[');
  if (facts.worker) {
    write_worker(out, facts.node_name, *facts.worker);
    out.close('}');
  }
  out.close(']').name("errors").open('{').name("dbErrors").number(sum[Op::errors]);
  out.name("ackFailed").number(sum[Op::ack_failed]).name("dlqMessages").number(sum[Op::dead_letters]);
  out.close('}').name("statsAge");
  const std::int64_t age_us = facts.now_us - facts.written_until_us.value_or(facts.now_us);
  out.number(facts.written_until_us ? std::max<std::int64_t>(0, age_us) / kSecondUs : -1);
  out.name("engine").text("raft").close('}');
  return text;
}

// Of the queues alone, with what the node says of the buckets in which they have something to tell.
FigureBuckets of_queues(const std::vector<broker::QueueOpsRow>& rows, const FigureBuckets& of_node,
                        const FigureRange& range) {
  FigureBuckets out;
  for (const broker::QueueOpsRow& row : rows) out[range.bucket_of(row.from_us)].add(row);
  for (auto& [bucket, sum] : out) {
    const auto node = of_node.find(bucket);
    if (node == of_node.end()) continue;
    sum.loop = node->second.loop;
    sum.gauges = node->second.gauges;
    sum.ops[Op::errors] = node->second.ops[Op::errors];
    sum.of_node = true;
  }
  return out;
}

StatusFacts gather(const SharedContext& context, const std::string& tenant, const broker::QueueFilter& filter,
                   const FigureRange& range, std::int64_t now) {
  const broker::Meter& meter = context->broker.meter();
  StatusFacts out;
  out.range = range;
  out.filtered = filter.queue || filter.namespace_name || filter.task;
  out.standing = context->broker.resources().standing(tenant, filter);
  out.buckets = buckets_of(meter.node_rows(range.from_us, range.to_us), range);
  if (out.filtered) {
    QueueAges ages;
    for (const auto& queue : out.standing.queues) ages.emplace(queue.name, queue.row.created_at);
    out.buckets =
        of_queues(living(meter.queue_rows(tenant, range.from_us, range.to_us), ages), out.buckets, range);
  }
  out.worker = seen_since(meter, now - kWorkerSeenUs);
  out.written_until_us = meter.written_until_us();
  out.node_name = context->settings.node_name;
  out.now_us = now;
  return out;
}

}  // namespace

void handle_status(const SharedContext& context, Inbound inbound) {
  const Query query([&](std::string_view name) { return inbound.request.query_value(name); });
  const std::int64_t now = context->clock.wall_us();
  const auto range = figure_range(query, now);
  if (!range) return inbound.reply->send(figures_fault("from and to must be timestamps"));
  broker::QueueFilter filter{query.filled("queue"), query.filled("namespace"), query.filled("task")};
  answer_from_look(
      context, std::move(inbound.reply),
      [context, now, range = *range, filter = std::move(filter), tenant = std::move(inbound.tenant)] {
        return json_response(200, render_status(gather(context, tenant, filter, range, now)));
      });
}

void handle_status_queues(const SharedContext& context, Inbound inbound) {
  answer_from_look(context, std::move(inbound.reply), [context, tenant = std::move(inbound.tenant)] {
    return json_response(200,
                         render_queue_rows(context->broker.queues(tenant, broker::QueueDetail::figures)));
  });
}

void handle_status_queue(const SharedContext& context, Inbound inbound) {
  answer_from_look(context, std::move(inbound.reply),
                   [context, tenant = std::move(inbound.tenant), name = inbound.request.params.at(0)] {
                     const auto queue = context->broker.resources().queue(
                         tenant, name, context->settings.partitions_listed_max);
                     return queue ? json_response(200, render_queue_status(name, *queue)) : queue_not_found();
                   });
}

void handle_status_analytics(const SharedContext& context, Inbound inbound) {
  const std::int64_t now = context->clock.wall_us();
  answer_from_look(context, std::move(inbound.reply), [context, now, tenant = std::move(inbound.tenant)] {
    broker::Figures totals;
    for (const auto& queue : context->broker.resources().standing(tenant, {}).queues) totals += queue.figures;
    std::string text;
    JsonWriter out(text);
    out.open('{').name("dataPoints").open('[').open('{').name("timestamp").instant_s(now);
    out.name("messages").number(totals.total).close('}').close(']').name("interval").text("hour");
    out.name("from").instant_s(now - kDayUs).name("to").instant_s(now).close('}');
    return json_response(200, std::move(text));
  });
}

void handle_status_buffers(const SharedContext& context, Inbound inbound) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("pending").number(context->broker.meter().gauges().inflight);
  out.name("failed").number(0).name("worker").number(0).name("engine").text("raft");
  out.name("spool").boolean(false).close('}');
  inbound.reply->send(json_response(200, std::move(text)));
}

void handle_stats_refresh(const SharedContext&, Inbound inbound) {
  inbound.reply->send(json_response(200, R"({"success":true,"refreshed":false,"engine":"raft"})"));
}

}  // namespace queen::api

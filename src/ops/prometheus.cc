#include "ops/prometheus.h"

#include <fmt/format.h>

#include <map>

#include "base/ids.h"

namespace queen::ops {
namespace {

using broker::Op;
using Type = PrometheusText::Type;

// `tenant` stands in front for every tenant but the default one.
void of_queue(PrometheusText& out, const std::string& tenant, const std::string& queue, auto value) {
  if (tenant == kDefaultTenant)
    out.sample({{"queue", queue}}, value);
  else
    out.sample({{"tenant", tenant}, {"queue", queue}}, value);
}

void write_process(PrometheusText& out, const broker::Meter& meter) {
  out.family("queen_uptime_seconds", Type::gauge, "Seconds since the process began to serve.");
  out.sample({}, static_cast<std::uint64_t>(meter.uptime_us() / 1'000'000));
  out.family("queen_process_resident_memory_bytes", Type::gauge, "Resident memory of the process.");
  out.sample({}, meter.process().rss_bytes);
  const broker::OpCounts total = meter.totals();
  const auto counter = [&](std::string_view name, std::string_view help, std::uint64_t value) {
    out.family(name, Type::counter, help);
    out.sample({}, value);
  };
  counter("queen_process_push_requests_total", "Pushes answered.", total[Op::push_requests]);
  counter("queen_process_pop_requests_total", "Pops answered.", total[Op::pop_requests]);
  counter("queen_process_ack_requests_total", "Acks answered.", total[Op::ack_requests]);
  counter("queen_process_push_messages_total", "Messages stored.", total[Op::push_messages]);
  counter("queen_process_pop_messages_total", "Messages delivered.", total[Op::pop_messages]);
  counter("queen_process_ack_messages_total", "Messages acknowledged.", total.acks());
  std::map<std::string, std::uint64_t> parked;
  for (const auto& pops : meter.parked()) parked[pops.queue] += pops.count;
  out.family("queen_parked_long_polls", Type::gauge, "Long polls that wait, over all tenants.");
  for (const auto& [queue, count] : parked) out.sample({{"queue", queue}}, count);
  const broker::LagSum loop = meter.loop_lag();
  const double average =
      loop.count == 0 ? 0 : static_cast<double>(loop.sum_us) / static_cast<double>(loop.count) / 1000;
  out.family("queen_event_loop_lag_avg_milliseconds", Type::gauge,
             "How much too late a timer of 100 ms comes, on average since the start.");
  out.sample({}, average);
}

void write_log(PrometheusText& out, const broker::NodeGauges& now, const broker::Health& health) {
  out.family("queen_raft_index", Type::gauge, "Entries of the log, by how far they came.");
  out.sample({{"kind", "log"}}, now.log_index);
  out.sample({{"kind", "committed"}}, now.committed);
  out.sample({{"kind", "applied"}}, now.applied);
  out.sample({{"kind", "durable"}}, now.durable);
  out.family("queen_raft_inflight", Type::gauge, "Entries proposed or committed and not applied.");
  out.sample({}, now.inflight);
  out.family("queen_raft_log_storage", Type::gauge, "Record files of the logs, and what they take on disk.");
  out.sample({{"kind", "files"}}, now.log_files);
  out.sample({{"kind", "bytes"}}, now.log_bytes);
  out.family("queen_raft_storage_full", Type::gauge, "1 while writes that need space are refused.");
  out.sample({}, std::uint64_t{now.storage_full ? 1U : 0U});
  out.family("queen_consume_cold_claims_total", Type::counter,
             "Claims that began with a message whose row had left RAM.");
  out.sample({}, health.cold_claims);
  out.family("queen_clock_lead_milliseconds", Type::gauge, "Of log time over the clock of this machine.");
  out.sample({}, static_cast<double>(health.clock_lead_us) / 1000);
}

void write_queues(PrometheusText& out, broker::Broker& broker, const broker::Health& health) {
  const auto rows = broker.meter().last_rows();
  out.family("queen_queue_pop_lag_milliseconds", Type::gauge,
             "Delivery minus creation, over the last metrics bucket.");
  for (const auto& row : rows) {
    const broker::LagSum& lag = row.ops.lag;
    if (lag.count == 0) continue;
    const double average = static_cast<double>(lag.sum_us) / static_cast<double>(lag.count) / 1000;
    const double most = static_cast<double>(lag.max_us) / 1000;
    for (const auto& [stat, value] : {std::pair{"avg", average}, std::pair{"max", most}}) {
      if (row.tenant == kDefaultTenant)
        out.sample({{"queue", row.queue}, {"stat", stat}}, value);
      else
        out.sample({{"tenant", row.tenant}, {"queue", row.queue}, {"stat", stat}}, value);
    }
  }
  out.family("queen_dlq_depth_by_queue", Type::gauge, "Dead letters of a queue.");
  for (const auto& depth : broker.meter().dead_letters())
    of_queue(out, depth.tenant, depth.queue, depth.count);
  out.family("queen_queue_conflated_per_minute", Type::gauge,
             "Messages that conflating groups passed over in the last metrics bucket.");
  for (const auto& row : rows)
    if (row.ops[Op::conflated] > 0) of_queue(out, row.tenant, row.queue, row.ops[Op::conflated]);
  out.family(
      "queen_retention_hold_bytes", Type::gauge,
      "Messages that only the retention hold of a sink keeps, about, as of the last round of retention.");
  for (const auto& hold : health.retention_holds) of_queue(out, hold.tenant, hold.queue, hold.bytes);
  out.family("queen_expired_leases", Type::gauge, "Leases of a group that ran out since the start.");
  for (const auto& expired : health.expired_leases) {
    if (expired.tenant == kDefaultTenant)
      out.sample({{"queue", expired.queue}, {"group", expired.group}}, expired.count);
    else
      out.sample({{"tenant", expired.tenant}, {"queue", expired.queue}, {"group", expired.group}},
                 expired.count);
  }
}

}  // namespace

http::Response prometheus_response(broker::Broker& broker, std::string_view more) {
  const broker::Health health = broker.health();
  PrometheusText out;
  write_process(out, broker.meter());
  write_log(out, broker.meter().gauges(), health);
  write_queues(out, broker, health);
  http::Response response;
  response.content_type = "text/plain; version=0.0.4";
  response.body = out.take();
  response.body += more;
  return response;
}

}  // namespace queen::ops

// What the queues did: queue-ops, queue-lag and queue-parked-replicas (operations.md 6.3, 6.7).
#include <algorithm>
#include <set>

#include "api/detail/figures.h"
#include "api/detail/resources.h"

namespace queen::api {
namespace {

using broker::Op;

struct Place {
  std::int64_t bucket = 0;
  std::string queue;
  auto operator<=>(const Place&) const = default;
};
using QueueSeries = std::map<Place, FigureSum>;  // by bucket, then queue

QueueSeries series_of(const SharedContext& context, const std::string& tenant,
                      const std::optional<std::string>& queue, const FigureRange& range) {
  QueueAges ages = ages_of(context->broker, tenant);
  if (queue) std::erase_if(ages, [&](const auto& age) { return age.first != *queue; });
  QueueSeries out;
  for (const auto& row : living(context->broker.meter().queue_rows(tenant, range.from_us, range.to_us), ages))
    out[{range.bucket_of(row.from_us), row.queue}].add(row);
  return out;
}

std::string render_ops(const FigureRange& range, const QueueSeries& series) {
  std::set<std::string_view> names;
  std::string text;
  JsonWriter out(text);
  out.open('{');
  write_time_range(out, range);
  out.name("bucketMinutes").number(range.bucket_minutes).name("series").open('[');
  for (const auto& [place, sum] : series) {
    const broker::OpCounts& ops = sum.ops;
    names.insert(place.queue);
    out.open('{').name("bucket").instant_s(place.bucket).name("queueName").text(place.queue);
    out.name("pushRequests")
        .number(ops[Op::push_requests])
        .name("pushMessages")
        .number(ops[Op::push_messages]);
    out.name("popMessages").number(ops[Op::pop_messages]).name("popEmpty").number(ops[Op::pop_empty]);
    out.name("ackRequests").number(ops[Op::ack_requests]).name("ackSuccess").number(ops[Op::ack_success]);
    out.name("ackFailed").number(ops[Op::ack_failed]).name("transactions").number(ops[Op::transactions]);
    out.name("partitionsCreated").number(ops[Op::partitions_created]);
    out.name("partitionsDeleted").number(ops[Op::partitions_deleted]).name("partitionCount").null();
    write_lag_ms(out, "avgLagMs", "maxLagMs", ops.lag, NoLag::null);
    write_rate(out, "pushPerSecond", ops[Op::push_messages], range);
    write_rate(out, "popPerSecond", ops[Op::pop_messages], range);
    write_rate(out, "ackPerSecond", ops.acks(), range);
    write_rate(out, "emptyPerSecond", ops[Op::pop_empty], range);
    out.name("parkedCount").number(sum.parked).close('}');
  }
  out.close(']').name("queues").open('[');
  for (const std::string_view name : names) out.text(name);
  out.close(']').close('}');
  return text;
}

std::string render_lag(const FigureRange& range, const QueueSeries& series) {
  std::vector<const QueueSeries::value_type*> rows;
  for (const auto& row : series) rows.push_back(&row);
  std::ranges::stable_sort(rows, std::greater<>(), [](const auto* row) { return row->first.bucket; });
  std::string text;
  JsonWriter out(text);
  out.open('[');
  for (const auto* row : rows) {
    const broker::LagSum& lag = row->second.ops.lag;
    out.open('{').name("queueName").text(row->first.queue).name("popCount").number(lag.count);
    write_lag_ms(out, "avgLagMs", "maxLagMs", lag, NoLag::null);
    out.name("bucketMinutes").number(range.bucket_minutes).name("bucketTime").instant_s(row->first.bucket);
    out.close('}');
  }
  out.close(']');
  return text;
}

std::string render_parked(const FigureRange& range, const QueueSeries& series, const std::string& node_name) {
  std::string text;
  JsonWriter out(text);
  out.open('{');
  write_time_range(out, range);
  out.name("bucketMinutes").number(range.bucket_minutes).name("series").open('[');
  for (const auto& [place, sum] : series) {
    out.open('{').name("bucket").instant_s(place.bucket).name("queueName").text(place.queue);
    out.name("hostname").text(node_name).name("workerId").number(0);
    out.name("parkedCount").number(sum.parked).close('}');
  }
  out.close(']').name("replicas").open('[');
  if (!series.empty()) out.open('{').name("hostname").text(node_name).name("workerId").number(0).close('}');
  out.close(']').close('}');
  return text;
}

template <class Render>
void answer_series(const SharedContext& context, Inbound inbound, Span span, Render render) {
  const Query query([&](std::string_view name) { return inbound.request.query_value(name); });
  const auto range = figure_range(query, context->clock.wall_us(), span);
  if (!range) return inbound.reply->send(figures_fault("from and to must be timestamps"));
  answer_from_look(
      context, std::move(inbound.reply),
      [context, render, range = *range, queue = query.filled("queue"), tenant = std::move(inbound.tenant)] {
        return json_response(200, render(range, series_of(context, tenant, queue, range)));
      });
}

}  // namespace

void handle_queue_ops(const SharedContext& context, Inbound inbound) {
  answer_series(context, std::move(inbound), Span::whole_minutes, render_ops);
}

void handle_queue_lag(const SharedContext& context, Inbound inbound) {
  answer_series(context, std::move(inbound), Span::exact, render_lag);
}

void handle_parked_replicas(const SharedContext& context, Inbound inbound) {
  answer_series(context, std::move(inbound), Span::whole_minutes,
                [context](const FigureRange& range, const QueueSeries& series) {
                  return render_parked(range, series, context->settings.node_name);
                });
}

}  // namespace queen::api

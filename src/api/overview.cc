// Sums over queues: the overview, namespaces and tasks, and the partitions with most to do.
#include <algorithm>
#include <map>

#include "api/detail/query.h"
#include "api/detail/resources.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::int64_t kPartitionsDefault = 610;
constexpr std::int64_t kPartitionsMax = 5000;

void write_lag(JsonWriter& out, std::string_view name, std::int64_t average, std::int64_t most) {
  out.name(name).open('{').name("avg").number(average).name("median").number(0).name("min").number(0);
  out.name("max").number(most).close('}');
}

void handle_labels(const SharedContext& context, Inbound inbound, Label label) {
  answer_from_look(context, std::move(inbound.reply), [context, tenant = std::move(inbound.tenant), label] {
    const auto queues = context->broker.queues(tenant, broker::QueueDetail::figures);
    return json_response(200, render_labels(label, queues));
  });
}

}  // namespace

std::string render_labels(Label label, const broker::QueuesAnswer& queues) {
  struct Sum {
    std::uint64_t queues = 0, partitions = 0;
    std::int64_t total = 0, pending = 0;
  };
  std::map<std::string, Sum> sums;
  for (const broker::QueueSummary& queue : queues.queues) {
    const auto& name = label == Label::task ? queue.row.task : queue.row.namespace_name;
    if (!name || name->empty()) continue;
    Sum& sum = sums[*name];
    ++sum.queues;
    sum.partitions += queue.partitions;
    sum.total += queue.total;
    sum.pending += queue.pending;
  }
  std::string text;
  JsonWriter out(text);
  out.open('{').name(label == Label::task ? "tasks" : "namespaces").open('[');
  for (const auto& [name, sum] : sums) {
    out.open('{').name(label == Label::task ? "task" : "namespace").text(name);
    out.name("queues").number(sum.queues).name("partitions").number(sum.partitions);
    out.name("messages").open('{').name("total").number(sum.total).name("pending").number(sum.pending);
    out.close('}').close('}');
  }
  out.close(']').close('}');
  return text;
}

std::string render_overview(const broker::OverviewView& overview) {
  const auto lagging = static_cast<std::int64_t>(std::max<std::uint64_t>(overview.lagging, 1));
  std::string text;
  JsonWriter out(text);
  out.open('{').name("queues").number(overview.queues).name("partitions").number(overview.partitions);
  out.name("namespaces").number(overview.namespaces).name("tasks").number(overview.tasks);
  out.name("messages").open('{').name("total").number(overview.totals.total);
  out.name("pending").number(overview.totals.waiting());
  out.name("processing").number(overview.totals.processing);
  out.name("completed").number(overview.totals.completed()).name("failed").number(0);
  out.name("deadLetter").number(overview.totals.dead_letter).close('}').name("lag").open('{');
  write_lag(out, "time", overview.time_us.sum / lagging / kSecondUs, overview.time_us.most / kSecondUs);
  write_lag(out, "offset", overview.offsets.sum / lagging, overview.offsets.most);
  out.close('}').name("timestamp").instant(overview.now_us).name("statsAge").number(0).close('}');
  return text;
}

std::string render_busiest(const broker::BusyView& busy) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("partitions").open('[');
  for (const broker::BusyPartition& partition : busy.partitions) {
    out.open('{').name("queue").text(partition.queue).name("partition").text(partition.name);
    out.name("id").uuid(partition.id).name("pending").number(partition.pending);
    out.name("processing").number(partition.processing).name("lagSeconds");
    if (partition.oldest_unconsumed_at)
      out.number(std::max<std::int64_t>(0, busy.now_us - *partition.oldest_unconsumed_at) / kSecondUs);
    else
      out.null();
    out.close('}');
  }
  out.close(']');
  if (busy.truncated) out.name("truncated").boolean(true);
  out.close('}');
  return text;
}

void handle_partitions(const SharedContext& context, Inbound inbound) {
  Query query([&](std::string_view name) { return inbound.request.query_value(name); });
  const auto limit = static_cast<std::size_t>(
      std::clamp<std::int64_t>(query.integer("limit").value_or(kPartitionsDefault), 1, kPartitionsMax));
  if (!query.fault().empty()) return inbound.reply->send(query_fault_response(query.fault()));
  answer_from_look(context, std::move(inbound.reply),
                   [context, limit, tenant = std::move(inbound.tenant), queue = query.filled("queue")] {
                     const auto busy = context->broker.resources().busiest(
                         tenant, queue, limit, context->settings.partitions_listed_max);
                     if (!busy) return refusal_response(busy.error());
                     return *busy ? json_response(200, render_busiest(**busy)) : queue_not_found();
                   });
}

void handle_namespaces(const SharedContext& context, Inbound inbound) {
  handle_labels(context, std::move(inbound), Label::namespace_name);
}
void handle_tasks(const SharedContext& context, Inbound inbound) {
  handle_labels(context, std::move(inbound), Label::task);
}

void handle_overview(const SharedContext& context, Inbound inbound) {
  answer_from_look(context, std::move(inbound.reply), [context, tenant = std::move(inbound.tenant)] {
    const auto overview = context->broker.resources().overview(tenant);
    return overview ? json_response(200, render_overview(*overview)) : refusal_response(overview.error());
  });
}

}  // namespace queen::api

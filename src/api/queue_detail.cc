// One queue in detail, its depth for a group, the sizes of its partitions.
#include "api/detail/names.h"
#include "api/detail/query.h"
#include "api/detail/queue_json.h"
#include "api/detail/resources.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

void write_figures(JsonWriter& out, std::string_view name, const broker::Figures& figures) {
  out.name(name).open('{').name("total").number(figures.total).name("pending").number(figures.unconsumed);
  out.name("processing").number(figures.processing).name("completed").number(figures.completed());
  out.name("failed").null().name("deadLetter").number(figures.dead_letter).close('}');
}

void write_optional_instant(JsonWriter& out, std::string_view name, std::optional<std::int64_t> stamp) {
  out.name(name);
  if (stamp)
    out.instant(*stamp);
  else
    out.null();
}

void write_partition(JsonWriter& out, const broker::PartitionView& partition) {
  out.open('{').name("id").uuid(partition.id).name("name").text(partition.name);
  out.name("createdAt").instant(partition.created_at);
  write_figures(out, "messages", partition.figures);
  write_figures(out, "stats", partition.figures);
  out.name("cursor").open('{').name("totalConsumed").number(partition.consumed);
  out.name("batchesConsumed").number(0).close('}').name("lastActivity").instant(partition.last_write_at);
  write_optional_instant(out, "oldestMessage", partition.oldest_at);
  write_optional_instant(out, "newestMessage", partition.newest_at);
  out.name("retainedBytes").number(partition.figures.retained_bytes).close('}');
}

}  // namespace

http::Response queue_not_found() {
  return json_response(404, R"({"error":"Queue not found"})");
}

std::string render_queue(std::string_view name, const broker::QueueView& queue) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("id").uuid(queue.row.uuid).name("name").text(name);
  write_queue_labels(out, queue.row);
  out.name("createdAt").instant(queue.row.created_at).name("options");
  write_queue_options(out, queue.row);
  out.name("partitions").open('[');
  for (const broker::PartitionView& partition : queue.partitions) write_partition(out, partition);
  out.close(']');
  if (queue.truncated) out.name("partitionsTruncated").boolean(true);
  out.name("segments").open('{').name("segments").number(queue.segments);
  out.name("messages").number(queue.totals.total).close('}');
  write_figures(out, "totals", queue.totals);
  out.name("retainedBytes").number(queue.totals.retained_bytes).close('}');
  return text;
}

std::string render_queue_status(std::string_view name, const broker::QueueView& queue) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("queue").open('{').name("id").uuid(queue.row.uuid).name("name").text(name);
  write_queue_labels(out, queue.row);
  out.name("priority").number(queue.row.priority).name("createdAt").instant(queue.row.created_at);
  out.name("config");
  write_queue_options(out, queue.row);
  out.close('}').name("partitions").open('[');
  for (const broker::PartitionView& partition : queue.partitions) write_partition(out, partition);
  out.close(']');
  if (queue.truncated) out.name("partitionsTruncated").boolean(true);
  out.name("totals").open('{');
  write_figures(out, "messages", queue.totals);
  out.close('}').close('}');
  return text;
}

// A conflating group gets one message of each partition that has some: its work is counted in partitions.
std::string render_depth(std::string_view queue, const std::optional<std::string>& group,
                         const broker::DepthView& depth) {
  broker::DepthView::Partition sum;
  std::int64_t with_pending = 0, with_ready = 0;
  for (const auto& partition : depth.partitions) {
    sum.pending += partition.pending;
    sum.processing += partition.processing;
    with_pending += partition.pending > 0 ? 1 : 0;
    with_ready += partition.ready() > 0 ? 1 : 0;
  }
  std::string text;
  JsonWriter out(text);
  out.open('{').name("queue").text(queue).name("group");
  if (group)
    out.text(*group);
  else
    out.null();
  out.name("pending").number(sum.pending).name("processing").number(sum.processing);
  out.name("ready").number(sum.ready()).name("partitionsPending").number(with_pending);
  out.name("partitionsReady").number(with_ready).name("conflation").boolean(depth.conflation);
  out.name("effectivePending").number(depth.conflation ? with_pending : sum.pending);
  out.name("effectiveReady").number(depth.conflation ? with_ready : sum.ready());
  out.name("partitions").open('[');
  for (const auto& partition : depth.partitions) {
    out.open('{').name("partition").text(partition.name).name("pending").number(partition.pending);
    out.name("processing").number(partition.processing).name("ready").number(partition.ready()).close('}');
  }
  out.close(']').close('}');
  return text;
}

std::string render_sizes(std::string_view queue, const broker::SizesView& sizes) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("queue").text(queue).name("partitions").open('{');
  for (const auto& [name, bytes] : sizes.partitions) out.key(name).number(bytes);
  out.close('}');
  if (sizes.truncated) out.name("truncated").boolean(true);
  out.close('}');
  return text;
}

void handle_queue(const SharedContext& context, Inbound inbound) {
  answer_from_look(context, std::move(inbound.reply),
                   [context, tenant = std::move(inbound.tenant), name = inbound.request.params.at(0)] {
                     const auto queue = context->broker.resources().queue(
                         tenant, name, context->settings.partitions_listed_max);
                     return queue ? json_response(200, render_queue(name, *queue)) : queue_not_found();
                   });
}

void handle_sizes(const SharedContext& context, Inbound inbound) {
  answer_from_look(context, std::move(inbound.reply),
                   [context, tenant = std::move(inbound.tenant), name = inbound.request.params.at(0)] {
                     const auto sizes = context->broker.resources().sizes(
                         tenant, name, context->settings.partitions_listed_max);
                     return sizes ? json_response(200, render_sizes(name, *sizes)) : queue_not_found();
                   });
}

void handle_depth(const SharedContext& context, Inbound inbound) {
  const Query query([&](std::string_view name) { return inbound.request.query_value(name); });
  std::optional<std::string> group = query.filled("group");
  if (!is_utf8(group.value_or(""))) return inbound.reply->send(query_fault_response("group must be UTF-8"));
  auto pending = std::make_shared<Pending>(context->deadlines, std::move(inbound.reply));
  pending->set_deadline(context->deadline_us(context->settings.default_timeout_ms),
                        [pending] { pending->answer(timeout_response()); });
  context->broker.barrier([context, pending, group = std::move(group), tenant = std::move(inbound.tenant),
                           name = inbound.request.params.at(0)](broker::Answer<void> passed) mutable {
    if (!passed) {
      pending->answer(refusal_response(passed.error()));
      return;
    }
    context->broker.look([context, pending, group = std::move(group), tenant = std::move(tenant),
                          name = std::move(name)] {
      const auto depth = context->broker.resources().depth(tenant, name, group);
      if (!depth)
        pending->answer(refusal_response(depth.error()));
      else
        pending->answer(*depth ? json_response(200, render_depth(name, group, **depth)) : queue_not_found());
    });
  });
}

}  // namespace queen::api

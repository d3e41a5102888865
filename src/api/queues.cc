// The list of queues, and deleting one.
#include "api/detail/queues.h"

#include "api/detail/names.h"
#include "api/detail/queue_json.h"
#include "api/detail/resources.h"
#include "api/detail/submit.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

void write_queue(JsonWriter& out, const broker::QueueSummary& queue) {
  out.open('{').name("id").uuid(queue.row.uuid).name("name").text(queue.name).name("queue").text(queue.name);
  write_queue_labels(out, queue.row);
  out.name("storage").text("segments").name("partitions").number(queue.partitions);
  out.name("segments").open('{').name("segments").number(queue.segments);
  out.name("messages").number(queue.total).close('}');
  out.name("messages").open('{').name("total").number(queue.total).name("pending").number(queue.pending);
  out.name("processing").number(queue.processing).name("completed").number(queue.completed);
  out.name("deadLetter").number(queue.dead_letter).close('}');
  out.name("retainedBytes").number(queue.retained_bytes).name("options");
  write_queue_options(out, queue.row);
  out.name("createdAt").instant(queue.row.created_at).close('}');
}

}  // namespace

std::string render_queues(const broker::QueuesAnswer& answer) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("queues").open('[');
  for (const broker::QueueSummary& queue : answer.queues) write_queue(out, queue);
  out.close(']').name("kvRows").number(answer.kv_rows).name("kvBytes").number(answer.kv_bytes);
  out.name("timerRows").number(answer.timer_rows).name("timerBytes").number(answer.timer_bytes).close('}');
  return text;
}

std::string render_queue_rows(const broker::QueuesAnswer& answer) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("queues").open('[');
  for (const broker::QueueSummary& queue : answer.queues) write_queue(out, queue);
  out.close(']').close('}');
  return text;
}

std::string render_queue_lanes(const broker::QueuesAnswer& answer) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("queues").open('[');
  for (const broker::QueueSummary& queue : answer.queues) {
    out.open('{')
        .name("id")
        .uuid(queue.row.uuid)
        .name("name")
        .text(queue.name)
        .name("queue")
        .text(queue.name);
    out.name("partitions").number(queue.partitions).name("createdAt").instant(queue.row.created_at);
    out.close('}');
  }
  out.close(']').name("stats").text("lanes").close('}');
  return text;
}

// Clients delete before they create: a queue that is not there is no error.
std::string render_queue_deleted(std::string_view queue, const machine::QueueDeleteOutcome& outcome) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("deleted").boolean(outcome.existed).name("existed").boolean(outcome.existed);
  out.name("queue").text(queue);
  if (!outcome.existed) out.name("message").text("Queue not found, nothing was deleted");
  out.close('}');
  return text;
}

void handle_queue_delete(const SharedContext& context, Inbound inbound) {
  std::string queue = inbound.request.params.at(0);
  if (!is_utf8(queue)) return inbound.reply->send(refusal_response(bad_request("the queue must be UTF-8")));
  if (!names_fit(inbound.tenant, queue, {})) return inbound.reply->send(refusal_response(name_too_long()));
  machine::Command command{std::move(inbound.tenant), make_uuid_v7(context->clock.wall_us(), context->random),
                           machine::QueueDeleteCommand{queue, 0}};
  submit_command<machine::QueueDeleteOutcome>(
      context, std::move(inbound.reply), context->settings.default_timeout_ms, std::move(command),
      [&broker = context->broker](machine::Command deletion, auto done) {
        broker.submit(std::move(deletion), std::move(done));
      },
      [queue = std::move(queue)](const machine::QueueDeleteOutcome& outcome) {
        return json_response(200, render_queue_deleted(queue, outcome));
      },
      refusal_response);
}

void handle_queues(const SharedContext& context, Inbound inbound) {
  const bool lanes = inbound.request.query_value("stats") == "lanes";
  const auto detail = lanes ? broker::QueueDetail::lanes : broker::QueueDetail::counts;
  answer_from_look(context, std::move(inbound.reply),
                   [context, detail, lanes, tenant = std::move(inbound.tenant)] {
                     const broker::QueuesAnswer answer = context->broker.queues(tenant, detail);
                     return json_response(200, lanes ? render_queue_lanes(answer) : render_queues(answer));
                   });
}

}  // namespace queen::api

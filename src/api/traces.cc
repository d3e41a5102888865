// Traces: storing an event, and the three lists.
#include "api/detail/traces.h"

#include "api/detail/page.h"
#include "api/detail/resources.h"
#include "api/detail/submit.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

http::Response partition_not_found() {
  return json_response(404, R"({"success":false,"error":"Partition not found"})");
}

// Clients read either spelling.
template <class Write>
void write_twice(JsonWriter& out, std::string_view name, std::string_view other, const Write& write) {
  out.name(name);
  write();
  out.name(other);
  write();
}

void write_event(JsonWriter& out, const broker::TraceEvent& event) {
  const store::TraceRow& row = event.row;
  const auto text_or_null = [&](const std::optional<std::string>& text) {
    if (text) {
      out.text(*text);
    } else {
      out.null();
    }
  };
  out.open('{');
  write_twice(out, "traceId", "trace_id", [&] { out.uuid(row.trace_id); });
  write_twice(out, "transactionId", "transaction_id", [&] { out.text(event.transaction_id); });
  write_twice(out, "partitionId", "partition_id", [&] {
    if (event.pid) {
      out.digits(event.pid->value);
    } else {
      out.null();
    }
  });
  write_twice(out, "messageId", "message_id", [&] { text_or_null(row.message_id); });
  write_twice(out, "consumerGroup", "consumer_group", [&] { text_or_null(row.group); });
  write_twice(out, "eventType", "event_type", [&] { out.text(row.event_type); });
  write_twice(out, "createdAt", "created_at", [&] { out.instant(row.created_at); });
  write_twice(out, "worker", "worker_id", [&] { text_or_null(row.worker); });
  write_twice(out, "names", "trace_names", [&] {
    out.open('[');
    for (const std::string& name : row.names) out.text(name);
    out.close(']');
  });
  out.name("data").raw(row.data).name("queue_name");
  text_or_null(event.queue);
  out.name("partition_name");
  text_or_null(event.partition);
  out.name("message_payload").null().close('}');
}

void submit_trace(const SharedContext& context, Inbound inbound, TraceRequest request,
                  std::optional<Pid> pid) {
  const Uuid trace_id = request.row.trace_id;
  machine::Command command{
      std::move(inbound.tenant), make_uuid_v7(context->clock.wall_us(), context->random),
      machine::TraceCommand{pid, std::move(request.transaction_id), std::move(request.row)}};
  submit_command<machine::TraceOutcome>(
      context, std::move(inbound.reply), context->settings.default_timeout_ms, std::move(command),
      [&broker = context->broker](machine::Command trace, auto done) {
        broker.submit(std::move(trace), std::move(done));
      },
      [trace_id](const machine::TraceOutcome& outcome) {
        if (!outcome.stored) return partition_not_found();
        return json_response(201, R"({"success":true,"traceId":")" + trace_id.str() + "\"}");
      },
      trace_refused);
}

// Answers a list: `read(tenant, range)` on a thread that may wait for the store.
template <class Read>
void answer_list(const SharedContext& context, Inbound inbound, std::int64_t limit_default, Read read) {
  Query query = query_of(inbound.request);
  const broker::PageRange range = page_of(query, limit_default);
  if (!query.fault().empty()) return inbound.reply->send(query_fault_response(query.fault()));
  answer_from_look(context, std::move(inbound.reply),
                   [tenant = std::move(inbound.tenant), range, read = std::move(read)] {
                     return json_response(200, read(tenant, range));
                   });
}

}  // namespace

http::Response trace_refused(const broker::Refusal& refusal) {
  http::Response response = refusal_response(refusal);
  if (refusal.code == "name_too_long") response.status = 400;
  return response;
}

std::string render_traces(const broker::TracePage& page, const broker::PageRange& range) {
  std::string events;
  JsonWriter list(events);
  list.open('[');
  for (const broker::TraceEvent& event : page.events) write_event(list, event);
  list.close(']');
  std::string text;
  text.reserve(2 * events.size() + 128);
  JsonWriter out(text);
  out.open('{').name("traces").raw(events).name("events").raw(events);
  write_total(out, page.total, range);
  out.close('}');
  return text;
}

std::string render_trace_names(const broker::TraceNamesPage& page, const broker::PageRange& range) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("trace_names").open('[');
  for (const broker::TraceName& name : page.names) {
    out.open('{').name("trace_name").text(name.name).name("trace_count").number(name.traces);
    out.name("message_count").number(name.messages).name("last_seen").instant(name.last_seen).close('}');
  }
  out.close(']');
  write_total(out, page.total, range);
  out.close('}');
  return text;
}

void handle_trace_append(const SharedContext& context, Inbound inbound) {
  auto parsed = parse_trace(inbound.request.body, inbound.tenant);
  if (!parsed) return inbound.reply->send(trace_refused(parsed.error()));
  parsed->row.id = make_uuid_v7(context->clock.wall_us(), context->random);
  parsed->row.trace_id = parsed->trace_id.value_or(parsed->row.id);
  if (!parsed->partition) return submit_trace(context, std::move(inbound), *std::move(parsed), std::nullopt);
  context->broker.look([context, inbound = std::move(inbound), request = *std::move(parsed)]() mutable {
    const auto pid = context->broker.traces().partition(inbound.tenant, *request.partition);
    if (!pid) return inbound.reply->send(partition_not_found());
    submit_trace(context, std::move(inbound), std::move(request), pid);
  });
}

void handle_traces_of_message(const SharedContext& context, Inbound inbound) {
  std::string partition = inbound.request.params.at(0);
  std::string transaction_id = inbound.request.params.at(1);
  answer_list(context, std::move(inbound), 200,
              [context, partition = std::move(partition), transaction_id = std::move(transaction_id)](
                  const std::string& tenant, const broker::PageRange& range) {
                const broker::Traces& traces = context->broker.traces();
                const auto pid = traces.partition(tenant, partition);
                if (!pid) return render_traces({}, range);
                return render_traces(traces.of_message(tenant, *pid, transaction_id, range), range);
              });
}

void handle_traces_by_name(const SharedContext& context, Inbound inbound) {
  std::string name = inbound.request.params.at(0);
  answer_list(context, std::move(inbound), 200,
              [context, name = std::move(name)](const std::string& tenant, const broker::PageRange& range) {
                return render_traces(context->broker.traces().by_name(tenant, name, range), range);
              });
}

void handle_trace_names(const SharedContext& context, Inbound inbound) {
  answer_list(context, std::move(inbound), 100,
              [context](const std::string& tenant, const broker::PageRange& range) {
                return render_trace_names(context->broker.traces().names(tenant, range), range);
              });
}

}  // namespace queen::api

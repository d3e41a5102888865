// In-memory queues: declarations, reset, deletion and what is shown of them.
#include "api/detail/ephemeral.h"
#include "api/detail/resources.h"
#include "api/detail/submit.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

using ephemeral::Declaration;

std::string_view tier_of(bool declared) {
  return declared ? "declared" : "implicit";
}

void write_options(JsonWriter& out, const Declaration& options) {
  out.name("options").open('{').name("maxBytes").number(options.max_bytes);
  out.name("maxLength").number(options.max_length).name("policy");
  out.text(options.policy == ephemeral::Policy::reject ? "reject" : "dropOldest");
  out.name("ttlSeconds").number(options.ttl_seconds).name("leaseSeconds").number(options.lease_seconds);
  out.name("retryLimit").number(options.retry_limit).name("windowBuffer").open('{');
  out.name("ms").number(options.window_ms).name("count").number(options.window_count);
  out.close('}').close('}');
}

// A declared queue that nobody has used since the start comes into memory, empty.
void bring(const SharedContext& context, const ephemeral::QueueName& name, const store::EphemeralRow& row) {
  // Without bounds it cannot be refused.
  static_cast<void>(context->ephemeral.declare(name, declaration_of(row), {}));
  // Deleted since the row was read: it must not come back.
  if (!context->broker.state().ephemeral(name.tenant, name.queue)) context->ephemeral.remove(name);
}

}  // namespace

Declaration declaration_of(const store::EphemeralRow& row) {
  const auto policy = row.policy == store::EphemeralPolicy::reject ? ephemeral::Policy::reject
                                                                   : ephemeral::Policy::drop_oldest;
  return {row.max_bytes,     row.max_length,  policy,        row.ttl_seconds,
          row.lease_seconds, row.retry_limit, row.window_ms, row.window_count};
}

store::EphemeralRow row_of(const Declaration& declaration) {
  store::EphemeralRow row;
  row.max_bytes = declaration.max_bytes;
  row.max_length = declaration.max_length;
  row.policy = declaration.policy == ephemeral::Policy::reject ? store::EphemeralPolicy::reject
                                                               : store::EphemeralPolicy::drop_oldest;
  row.ttl_seconds = declaration.ttl_seconds;
  row.lease_seconds = declaration.lease_seconds;
  row.retry_limit = declaration.retry_limit;
  row.window_ms = declaration.window_ms;
  row.window_count = declaration.window_count;
  return row;
}

ephemeral::Engine::Lookup declared_in(const broker::Broker& broker) {
  return [&broker](const ephemeral::QueueName& name) -> std::optional<Declaration> {
    const auto row = broker.state().ephemeral(name.tenant, name.queue);
    if (!row) return std::nullopt;
    return declaration_of(*row);
  };
}

std::string render_ephemeral_declaration(std::string_view queue, const Declaration& declaration) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("queue").text(queue).name("tier").text(tier_of(true));
  write_options(out, declaration);
  out.close('}');
  return text;
}

std::string render_ephemeral_queues(const std::vector<ephemeral::QueueView>& queues, std::int64_t bytes) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("queues").open('[');
  for (const ephemeral::QueueView& queue : queues) {
    out.open('{').name("queue").text(queue.queue).name("tier").text(tier_of(queue.declared));
    out.name("depth").number(queue.depth).name("bytes").number(queue.bytes);
    out.name("partitions").number(queue.partitions).name("groups").number(queue.groups);
    out.name("drops").open('{').name("bounds").number(queue.drops.bounds);
    out.name("ttl").number(queue.drops.ttl).name("retry").number(queue.drops.retry).close('}');
    write_options(out, queue.options);
    out.close('}');
  }
  out.close(']').name("count").number(queues.size()).name("cellBytes").number(bytes).close('}');
  return text;
}

std::string render_ephemeral_depth(std::string_view queue, std::string_view group,
                                   const ephemeral::DepthView& depth) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("queue").text(queue).name("group").text(group);
  out.name("tier").text(tier_of(depth.declared)).name("pending").number(depth.pending);
  out.name("partitionsPending").number(depth.partitions_pending).name("bytes").number(depth.bytes);
  out.name("partitions").open('[');
  for (const auto& one : depth.partitions) {
    out.open('{').name("partition").text(one.name).name("pending").number(one.pending);
    out.name("bytes").number(one.bytes).close('}');
  }
  out.close(']').name("groups").open('[');
  for (const auto& one : depth.groups) {
    out.open('{').name("group").text(one.name).name("pending").number(one.pending);
    out.name("skipped").number(one.skipped).close('}');
  }
  out.close(']').close('}');
  return text;
}

void handle_ephemeral_configure(const SharedContext& context, Inbound inbound) {
  const auto parsed = parse_ephemeral_configure(inbound.request.body);
  if (!parsed) return inbound.reply->send(ephemeral_bad_request(parsed.error()));
  if (const auto denied = context->ladder.ephemeral(inbound.tenant, 0))
    return inbound.reply->send(ephemeral_denied(*denied));
  const ephemeral::QueueName name{inbound.tenant, parsed->queue};
  if (!context->ephemeral.may_declare(name, ephemeral_max(context, inbound.tenant)))
    return inbound.reply->send(ephemeral_refused(ephemeral::Refused::tenant_full));
  machine::Command command{std::move(inbound.tenant), make_uuid_v7(context->clock.wall_us(), context->random),
                           machine::EphemeralConfigureCommand{parsed->queue, row_of(parsed->declaration)}};
  submit_command<machine::EphemeralConfigureOutcome>(
      context, std::move(inbound.reply), context->settings.stmt_timeout_ms, std::move(command),
      [context, name](machine::Command configure, auto done) {
        context->broker.submit(std::move(configure), [context, name, done = std::move(done)](
                                                         broker::Answer<machine::Outcome> answer) mutable {
          // Also when nobody waits for the answer any more: the row is there.
          if (answer)
            if (const auto* stored = std::get_if<machine::EphemeralConfigureOutcome>(&answer->body))
              bring(context, name, stored->row);
          done(std::move(answer));
        });
      },
      [name](const machine::EphemeralConfigureOutcome& outcome) {
        return json_response(201, render_ephemeral_declaration(name.queue, declaration_of(outcome.row)));
      },
      refusal_response);
}

void handle_ephemeral_reset(const SharedContext& context, Inbound inbound) {
  const auto queue = parse_ephemeral_reset(inbound.request.body);
  if (!queue) return inbound.reply->send(ephemeral_bad_request(queue.error()));
  if (const auto denied = context->ladder.ephemeral(inbound.tenant, 0))
    return inbound.reply->send(ephemeral_denied(*denied));
  const std::uint64_t dropped = context->ephemeral.reset({inbound.tenant, *queue});
  std::string text;
  JsonWriter(text).open('{').name("queue").text(*queue).name("dropped").number(dropped).close('}');
  inbound.reply->send(json_response(200, std::move(text)));
}

void handle_ephemeral_delete(const SharedContext& context, Inbound inbound) {
  const ephemeral::QueueName name{inbound.tenant, inbound.request.params.at(0)};
  if (const auto fault = ephemeral_name_fault("queue", name.queue); !fault.empty())
    return inbound.reply->send(ephemeral_bad_request(fault));
  if (const auto denied = context->ladder.ephemeral(inbound.tenant, 0))
    return inbound.reply->send(ephemeral_denied(*denied));
  machine::Command command{std::move(inbound.tenant), make_uuid_v7(context->clock.wall_us(), context->random),
                           machine::EphemeralDeleteCommand{name.queue}};
  const auto removed = std::make_shared<std::atomic<bool>>(false);
  submit_command<machine::EphemeralDeleteOutcome>(
      context, std::move(inbound.reply), context->settings.stmt_timeout_ms, std::move(command),
      [context, name, removed](machine::Command del, auto done) {
        context->broker.submit(std::move(del), [context, name, removed, done = std::move(done)](
                                                   broker::Answer<machine::Outcome> answer) mutable {
          if (answer && answer->code.empty()) *removed = context->ephemeral.remove(name);
          done(std::move(answer));
        });
      },
      [name, removed](const machine::EphemeralDeleteOutcome& outcome) {
        std::string text;
        JsonWriter out(text);
        out.open('{').name("queue").text(name.queue);
        out.name("deleted").boolean(*removed || outcome.declared);
        out.name("declared").boolean(outcome.declared).close('}');
        return json_response(200, std::move(text));
      },
      refusal_response);
}

void handle_ephemeral_queues(const SharedContext& context, Inbound inbound) {
  answer_from_look(context, std::move(inbound.reply), [context, tenant = std::move(inbound.tenant)] {
    for (const auto& [queue, row] : context->broker.state().ephemerals(tenant))
      bring(context, {tenant, queue}, row);
    return json_response(
        200, render_ephemeral_queues(context->ephemeral.queues(tenant), context->ephemeral.bytes()));
  });
}

void handle_ephemeral_depth(const SharedContext& context, Inbound inbound) {
  const ephemeral::QueueName name{inbound.tenant, inbound.request.params.at(0)};
  std::string group = inbound.request.query_value("group").value_or("");
  if (group.empty()) group = ephemeral::kSharedGroup;
  for (const auto& [what, text] :
       {std::pair<std::string_view, std::string_view>{"queue", name.queue}, {"group", group}})
    if (const auto fault = ephemeral_name_fault(what, text); !fault.empty())
      return inbound.reply->send(ephemeral_bad_request(fault));
  answer_from_look(context, std::move(inbound.reply), [context, name, group = std::move(group)] {
    auto depth = context->ephemeral.depth(name, group);
    if (!depth) {
      const auto row = context->broker.state().ephemeral(name.tenant, name.queue);
      if (!row) return ephemeral_fault(404, "ephemeral_queue_not_found", "there is no such queue");
      bring(context, name, *row);
      depth = context->ephemeral.depth(name, group);
    }
    if (!depth) return ephemeral_fault(404, "ephemeral_queue_not_found", "there is no such queue");
    return json_response(200, render_ephemeral_depth(name.queue, group, *depth));
  });
}

void handle_ephemeral_peer(const SharedContext&, Inbound inbound) {
  inbound.reply->send(ephemeral_fault(403, "ephemeral_peer_only",
                                      "a call between the nodes of a cluster, with its mark and token"));
}

}  // namespace queen::api

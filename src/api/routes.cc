// The route table of the API, and what every route goes through before its handler.
#include <array>

#include "api/api.h"
#include "api/detail/ack.h"
#include "api/detail/changed.h"
#include "api/detail/configure.h"
#include "api/detail/consumer_groups.h"
#include "api/detail/context.h"
#include "api/detail/dlq.h"
#include "api/detail/ephemeral.h"
#include "api/detail/fetch.h"
#include "api/detail/figures.h"
#include "api/detail/group_commands.h"
#include "api/detail/kv.h"
#include "api/detail/kv_console.h"
#include "api/detail/lease.h"
#include "api/detail/locks.h"
#include "api/detail/messages.h"
#include "api/detail/names.h"
#include "api/detail/offsets.h"
#include "api/detail/pop.h"
#include "api/detail/push.h"
#include "api/detail/queues.h"
#include "api/detail/resources.h"
#include "api/detail/streams.h"
#include "api/detail/switches.h"
#include "api/detail/timers.h"
#include "api/detail/traces.h"
#include "api/detail/transaction.h"
#include "api/json_writer.h"
#include "api/openapi/document.h"

namespace queen::api {
namespace {

using http::Method;

constexpr std::array kRoutes = {
    Route{Method::post, "/api/v1/push", Access::write_only, handle_push, Room::before_body},
    Route{Method::get, "/api/v1/pop", Access::read_write, handle_pop_discovery},
    Route{Method::get, "/api/v1/pop/queue/:queue", Access::read_write, handle_pop_queue},
    Route{Method::get, "/api/v1/pop/queue/:queue/partition/:partition", Access::read_write,
          handle_pop_partition},
    Route{Method::post, "/api/v1/ack", Access::read_write, handle_ack},
    Route{Method::post, "/api/v1/ack/batch", Access::read_write, handle_ack},
    Route{Method::post, "/api/v1/lease/:leaseId/extend", Access::read_write, handle_lease_extend},
    Route{Method::post, "/api/v1/transaction", Access::read_write, handle_transaction},
    Route{Method::post, "/api/v1/fetch", Access::read_only, handle_fetch},
    Route{Method::post, "/api/v1/fetch/offsets", Access::read_only, handle_fetch_offsets},
    Route{Method::post, "/api/v1/partitions/changed", Access::read_only, handle_changed},
    Route{Method::post, "/api/v1/consumer-groups/positions", Access::read_only, handle_positions},
    Route{Method::get, "/api/v1/consumer-groups", Access::read_only, handle_groups},
    Route{Method::get, "/api/v1/consumer-groups/lagging", Access::read_only, handle_lagging},
    Route{Method::get, "/api/v1/consumer-groups/:group", Access::read_only, handle_group},
    Route{Method::post, "/api/v1/consumer-groups/:group/queues/:queue/seek", Access::read_write,
          handle_seek_queue},
    Route{Method::post, "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek",
          Access::read_write, handle_seek_partition},
    Route{Method::post, "/api/v1/consumer-groups/:group/subscription", Access::read_write,
          handle_subscription},
    Route{Method::del, "/api/v1/consumer-groups/:group", Access::admin, handle_group_delete},
    Route{Method::del, "/api/v1/consumer-groups/:group/queues/:queue", Access::admin,
          handle_group_delete_queue},
    Route{Method::post, "/api/v1/configure", Access::read_write, handle_configure},
    Route{Method::get, "/api/v1/resources/queues", Access::read_only, handle_queues},
    Route{Method::get, "/api/v1/resources/queues/:queue", Access::read_only, handle_queue},
    Route{Method::get, "/api/v1/resources/queues/:queue/depth", Access::read_only, handle_depth},
    Route{Method::get, "/api/v1/resources/queues/:queue/sizes", Access::read_only, handle_sizes},
    Route{Method::get, "/api/v1/resources/partitions", Access::read_only, handle_partitions},
    Route{Method::get, "/api/v1/resources/namespaces", Access::read_only, handle_namespaces},
    Route{Method::get, "/api/v1/resources/tasks", Access::read_only, handle_tasks},
    Route{Method::get, "/api/v1/resources/overview", Access::read_only, handle_overview},
    Route{Method::get, "/api/v1/status", Access::read_only, handle_status},
    Route{Method::get, "/api/v1/status/queues", Access::read_only, handle_status_queues},
    Route{Method::get, "/api/v1/status/queues/:queue", Access::read_only, handle_status_queue},
    Route{Method::get, "/api/v1/status/analytics", Access::read_only, handle_status_analytics},
    Route{Method::get, "/api/v1/status/buffers", Access::read_only, handle_status_buffers},
    Route{Method::post, "/api/v1/stats/refresh", Access::admin, handle_stats_refresh},
    Route{Method::get, "/api/v1/analytics/system-metrics", Access::read_only, handle_system_metrics},
    Route{Method::get, "/api/v1/analytics/worker-metrics", Access::read_only, handle_worker_metrics},
    Route{Method::get, "/api/v1/analytics/queue-ops", Access::read_only, handle_queue_ops},
    Route{Method::get, "/api/v1/analytics/queue-lag", Access::read_only, handle_queue_lag},
    Route{Method::get, "/api/v1/analytics/dlq-signatures", Access::read_only, handle_dlq_signatures},
    Route{Method::get, "/api/v1/analytics/queue-parked-replicas", Access::read_only, handle_parked_replicas},
    Route{Method::get, "/api/v1/messages", Access::read_only, handle_messages},
    Route{Method::get, "/api/v1/messages/:partitionId/:transactionId", Access::read_only, handle_message},
    Route{Method::del, "/api/v1/resources/queues/:queue", Access::admin, handle_queue_delete},
    Route{Method::post, "/api/v1/kv", Access::read_write, handle_kv},
    Route{Method::post, "/api/v1/ephemeral/push", Access::write_only, handle_ephemeral_push},
    Route{Method::get, "/api/v1/ephemeral/pop", Access::read_write, handle_ephemeral_pop},
    Route{Method::post, "/api/v1/ephemeral/ack", Access::read_write, handle_ephemeral_ack},
    Route{Method::post, "/api/v1/ephemeral/configure", Access::read_write, handle_ephemeral_configure},
    Route{Method::post, "/api/v1/ephemeral/reset", Access::read_write, handle_ephemeral_reset},
    Route{Method::del, "/api/v1/ephemeral/queue/:queue", Access::admin, handle_ephemeral_delete},
    Route{Method::get, "/api/v1/ephemeral/queues", Access::read_only, handle_ephemeral_queues},
    Route{Method::get, "/api/v1/ephemeral/queues/:queue/depth", Access::read_only, handle_ephemeral_depth},
    Route{Method::post, "/api/v1/ephemeral/_adopt", Access::admin, handle_ephemeral_peer},
    Route{Method::post, "/api/v1/ephemeral/_leaving", Access::admin, handle_ephemeral_peer},
    Route{Method::get, "/api/v1/ephemeral/_ready", Access::admin, handle_ephemeral_peer},
    Route{Method::post, "/api/v1/timers", Access::write_only, handle_timers},
    Route{Method::get, "/api/v1/timers/:queue", Access::read_only, handle_timer_list},
    Route{Method::get, "/api/v1/timers/:queue/*timerKey", Access::read_only, handle_timer_peek},
    Route{Method::del, "/api/v1/timers/:queue/*timerKey", Access::read_write, handle_timer_cancel},
    Route{Method::get, "/api/v1/system/kv-timers", Access::admin, handle_kv_timers},
    Route{Method::post, "/api/v1/system/kv-timers", Access::admin, handle_kv_timers_switch},
    Route{Method::get, "/api/v1/system/ephemeral", Access::admin, handle_ephemeral_switch_shown},
    Route{Method::post, "/api/v1/system/ephemeral", Access::admin, handle_ephemeral_switch},
    Route{Method::post, "/api/v1/system/quota", Access::admin, handle_quota},
    Route{Method::post, "/api/v1/system/quotas", Access::admin, handle_quota},
    Route{Method::post, "/api/v1/resources/quota", Access::admin, handle_quota},
    Route{Method::get, "/api/v1/kv/:ns/*key", Access::read_only, handle_kv_get},
    Route{Method::put, "/api/v1/kv/:ns/*key", Access::read_write, handle_kv_put},
    Route{Method::del, "/api/v1/kv/:ns/*key", Access::read_write, handle_kv_delete},
    Route{Method::post, "/api/v1/locks", Access::read_write, handle_locks},
    Route{Method::get, "/api/v1/resources/kv/namespaces", Access::read_only, handle_kv_namespaces},
    Route{Method::post, "/api/v1/resources/kv/list", Access::read_only, handle_kv_list},
    Route{Method::post, "/streams/v1/queries", Access::read_write, handle_streams_query},
    Route{Method::post, "/streams/v1/state/get", Access::read_only, handle_streams_state},
    Route{Method::post, "/streams/v1/cycle", Access::read_write, handle_streams_cycle},
    Route{Method::get, "/api/v1/dlq", Access::read_only, handle_dlq_list},
    Route{Method::del, "/api/v1/dlq", Access::admin, handle_dlq_purge},
    Route{Method::post, "/api/v1/dlq/:id/replay", Access::read_write, handle_dlq_replay},
    Route{Method::del, "/api/v1/messages/:partitionId/:transactionId", Access::read_write,
          handle_message_delete},
    Route{Method::post, "/api/v1/messages/:partitionId/:transactionId/retry", Access::read_write,
          handle_message_retry},
    Route{Method::post, "/api/v1/traces", Access::read_write, handle_trace_append},
    Route{Method::get, "/api/v1/traces/names", Access::read_only, handle_trace_names},
    Route{Method::get, "/api/v1/traces/by-name/:name", Access::read_only, handle_traces_by_name},
    Route{Method::get, "/api/v1/traces/:partitionId/:transactionId", Access::read_only,
          handle_traces_of_message},
};

http::Response malformed_tenant() {
  http::Response response;
  response.status = 400;
  response.body = R"x({"error":"invalid x-queen-tenant header (must be a UUID)"})x";
  return response;
}

}  // namespace

std::span<const Route> api_routes() {
  return kRoutes;
}

http::Gate room_gate(const SharedContext& context) {
  return [context](std::uint64_t body_bytes, UniqueFunction<void(http::Admittance)> decided) {
    context->broker.admit(body_bytes, [decided = std::move(decided)](auto permit) mutable {
      if (!permit) return decided({nullptr, refusal_response(permit.error())});
      decided({std::move(*permit), std::nullopt});
    });
  };
}

http::Response json_response(int status, std::string body) {
  http::Response response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

http::Response refusal_response(const broker::Refusal& refusal) {
  return error_response(refusal.code, refusal.error);
}

http::Response timeout_response() {
  return error_response("timeout", "the deadline passed; a write may still take effect");
}

http::Response no_such_route(std::string_view path) {
  http::Response response;
  response.status = error_row("no_such_route").status;
  JsonWriter out(response.body);
  // The path is as sent, and a client may send any bytes.
  out.open('{').name("code").text("no_such_route").name("error").text("not found");
  out.name("path").text(to_valid_utf8(path)).close('}');
  return response;
}

void serve(const SharedContext& context, RouteHandler handler, http::Request request,
           std::unique_ptr<Reply> reply) {
  TenantChoice choice = choose_tenant(context->settings.tenancy_header, request.tenant_header);
  if (choice.verdict == TenantChoice::Verdict::malformed) return reply->send(malformed_tenant());
  if (choice.verdict == TenantChoice::Verdict::reserved)
    return reply->send(error_response("reserved_tenant", "this tenant is reserved: no route acts on it"));
  handler(context, {std::move(request), std::move(choice.tenant), std::move(reply)});
}

std::function<void()> add_routes(http::Routes& routes, broker::Broker& broker, Clock& clock, Random& random,
                                 Executor& timers, ApiSettings settings, Logger log) {
  const SharedContext context(new Context{broker, clock, random, timers, settings, std::move(log)});
  keep_counting(context);
  for (const Route& route : kRoutes) {
    routes.add(
        route.method, route.pattern,
        [context, handler = route.handler](http::Request request, http::Responder responder) {
          serve(context, handler, std::move(request), reply_to(std::move(responder)));
        },
        route.room == Room::before_body ? room_gate(context) : nullptr);
  }
  const auto document =
      std::make_shared<const std::string>(openapi_document(kRoutes, context->settings.version));
  routes.add(Method::get, "/openapi.json", [document](const http::Request&, http::Responder responder) {
    responder.send(json_response(200, *document));
  });
  routes.fallback([](const http::Request& request, http::Responder responder) {
    responder.send(no_such_route(request.path));
  });
  return [weak = std::weak_ptr(context)] {
    if (const auto held = weak.lock()) held->ephemeral.release_parked();
  };
}

}  // namespace queen::api

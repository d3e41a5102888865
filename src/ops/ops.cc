#include "ops/ops.h"

#include <algorithm>
#include <cmath>

#include "api/json_writer.h"
#include "machine/effects.h"
#include "ops/prometheus.h"

namespace queen::ops {
namespace {

// Rounded down, so that 1.00 is told only when the replay is over.
std::string two_decimals(double value) {
  const double kept = std::isfinite(value) ? std::clamp(value, 0.0, 1.0) : 0.0;
  return fmt::format("{:.2f}", std::floor(kept * 100) / 100);
}

bool knows_leader(replica::Role role) {
  return role == replica::Role::leader || role == replica::Role::follower;
}

// A node that lost its disk keeps serving reads and takes no more writes: stopped, and not healthy.
replica::Role role_of(const broker::Health& health) {
  return health.stopped_cause.empty() ? health.role : replica::Role::stopped;
}

}  // namespace

void add_failure(api::JsonWriter& out, const broker::Health& health) {
  if (!health.apply_failure) return void(out.null());
  const auto& failure = *health.apply_failure;
  out.open('{').name("index").number(failure.index).name("term").number(failure.term);
  out.name("digest").text(failure.digest).name("class").text(failure.error_class);
  out.name("error").text(failure.error).close('}');
}

http::Response health_response(const broker::Health& health, std::string_view version) {
  const bool stopped = !health.stopped_cause.empty();
  const replica::Role role = role_of(health);
  const bool healthy = health.ready && role != replica::Role::stopped;
  http::Response response;
  response.status = healthy ? 200 : 503;
  api::JsonWriter out(response.body);
  out.open('{').name("status").text(healthy ? "healthy" : "settling").name("engine").text("raft");
  out.name("version").text(version).name("raft").open('{').name("role").text(replica::name_of(role));
  out.name("leader").boolean(knows_leader(role)).name("term").number(health.term);
  out.name("applied").number(health.applied).name("commit").number(health.commit).name("lag").number(0);
  out.name("storageReady").boolean(health.ready).name("clusterVersion").number(broker::kClusterVersion);
  out.name("kinds").number(machine::kKindsVersion);
  out.name("apply").open('{').name("failure");
  add_failure(out, health);
  out.name("skipped").raw("[]").close('}').close('}');
  if (stopped) out.name("cause").text(health.stopped_cause);
  out.name("clockLeadMs").number(health.clock_lead_us / 1000);
  out.name("storage").open('{').name("damaged").open('[');
  // Log ids have 64 bits, more than a number of JSON keeps.
  for (const auto& file : health.damaged) {
    out.open('{').name("log").text(std::to_string(file.log.value)).name("file").text(file.path);
    out.name("position").number(file.position).name("what").text(file.what).close('}');
  }
  out.close(']').close('}').name("warnings").open('[');
  for (const auto& [code, text] : health.warnings)
    out.open('{').name("code").text(code).name("text").text(text).close('}');
  out.close(']').close('}');
  if (!healthy) response.headers.emplace_back("Retry-After", "1");
  return response;
}

http::Response status_response(std::string_view s3_status, const std::vector<broker::RetentionHold>& holds) {
  http::Response response;
  api::JsonWriter out(response.body);
  out.open('{').name("status").text("ok").name("engine").text("raft");
  if (!holds.empty()) {
    out.name("retentionHolds").open('[');
    for (const auto& hold : holds) {
      out.open('{').name("tenant").text(hold.tenant).name("queue").text(hold.queue);
      out.name("sink").text(hold.sink).name("bytes").number(hold.bytes).close('}');
    }
    out.close(']');
  }
  if (!s3_status.empty()) out.name("s3").raw(s3_status);
  out.close('}');
  return response;
}

http::Response metrics_response(const broker::Meter& meter, const broker::Health& health) {
  using broker::Op;
  const broker::OpCounts total = meter.totals();
  const replica::Role role = role_of(health);
  http::Response response;
  api::JsonWriter out(response.body);
  out.open('{').name("uptime").number(meter.uptime_us() / 1'000'000).name("requests").open('{').name("total");
  out.number(total[Op::push_requests] + total[Op::pop_requests] + total[Op::ack_requests]);
  out.name("rate").number(0).close('}').name("messages").open('{').name("total");
  out.number(total[Op::push_messages] + total[Op::pop_messages] + total.acks());
  out.name("rate").number(0).close('}').name("memory").open('{').name("rss").number(
      meter.process().rss_bytes);
  for (const std::string_view name : {"heapTotal", "heapUsed", "external", "arrayBuffers"})
    out.name(name).number(0);
  out.close('}').name("cpu").open('{').name("user").number(0).name("system").number(0).close('}');
  out.name("engine").text("raft").name("raft").open('{').name("role").text(replica::name_of(role));
  out.name("leader").boolean(knows_leader(role)).name("term").number(health.term);
  out.name("applied").number(health.applied).name("commit").number(health.commit).name("lag").number(0);
  out.name("storageReady").boolean(health.ready).close('}').close('}');
  return response;
}

http::Response starting_response(double progress) {
  http::Response response;
  response.status = 503;
  response.body = R"({"status":"starting","progress":)" + two_decimals(progress) + "}";
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

void add_routes(http::Routes& routes, broker::Broker& broker, std::string version, Additions additions) {
  // HEAD for probes; everywhere else it is no route, so that a look never takes messages.
  const auto add = [&routes](std::string_view path, const http::Handler& handler) {
    for (const http::Method method : {http::Method::get, http::Method::head})
      routes.add(method, path, handler);
  };
  add("/health", [&broker, version = std::move(version), more = std::move(additions.warnings)](
                     const http::Request&, http::Responder responder) {
    broker::Health health = broker.health();
    if (more) more(health.warnings);
    responder.send(health_response(health, version));
  });
  add("/status", [&broker, s3_status = std::move(additions.s3_status)](const http::Request&,
                                                                       http::Responder responder) {
    responder.send(status_response(s3_status ? s3_status() : std::string(), broker.health().retention_holds));
  });
  add("/metrics", [&broker](const http::Request&, http::Responder responder) {
    responder.send(metrics_response(broker.meter(), broker.health()));
  });
  add("/metrics/prometheus",
      [&broker, metrics = std::move(additions.metrics)](const http::Request&, http::Responder responder) {
        broker.look([&broker, more = metrics ? metrics() : std::string(),
                     responder = std::move(responder)]() mutable {
          responder.send(prometheus_response(broker, more));
        });
      });
}

std::shared_ptr<http::Routes> starting_routes(std::function<double()> progress) {
  auto routes = std::make_shared<http::Routes>();
  routes->fallback([progress = std::move(progress)](const http::Request&, http::Responder responder) {
    responder.send(starting_response(progress()));
  });
  return routes;
}

}  // namespace queen::ops

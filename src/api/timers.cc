// Timers: scheduling and cancelling, outcomes to answers.
#include "api/detail/timers.h"

#include <algorithm>
#include <array>

#include "api/detail/names.h"
#include "api/detail/submit.h"

namespace queen::api {
namespace {

using Status = machine::TimerOpOutcome::Status;

struct EngineRow {
  std::string_view code;  // of the engine
  int status;
  std::string_view error, reason;
};
constexpr std::array kEngineRows = {
    EngineRow{"timeout", 503, "timers_unavailable", "timers_timeout"},
    EngineRow{"outcome_unknown", 503, "timers_unavailable", "timers_retry"},
    EngineRow{"retry", 503, "timers_unavailable", "timers_retry"},
    EngineRow{"no_leader", 503, "timers_unavailable", "timers_no_leader"},
    // The one thing that the engine finds wrong with a command that was parsed.
    EngineRow{"bad_request", 413, "payload_too_large", "too_large"},
    EngineRow{"internal", 500, "timers_error", ""},
};

std::string_view name_of(Status status) {
  switch (status) {
    case Status::scheduled:
      return "scheduled";
    case Status::rescheduled:
      return "rescheduled";
    case Status::cancelled:
      return "cancelled";
    case Status::absent:
      return "absent";
  }
  return "";
}

// Schedules beside cancels: what refuses the schedules refuses the cancels with them, which a route of their
// own would take (TM-14).
bool is_mixed(const std::vector<TimerEcho>& echo) {
  const auto schedules = [](const TimerEcho& one) { return one.schedules; };
  return std::any_of(echo.begin(), echo.end(), schedules) &&
         !std::all_of(echo.begin(), echo.end(), schedules);
}
http::Response with_hint(http::Response response) {
  response.headers.emplace_back("x-queen-timers-hint",
                                "cancels are never refused by DELETE /api/v1/timers/{queue}/{timerKey}");
  return response;
}

// A call on its way. The operations are kept as they were sent: they may have to be sealed after all.
struct TimersJob {
  std::string tenant;
  machine::TimersCommand timers;
  TimerCharge charge;
  bool mixed = false;

  void refused(const broker::Refusal& refusal) const {
    if (charge && is_certain(refusal)) charge->give_back();
  }
};

machine::Command prepare(Context& context, const TimersJob& job, std::int64_t deadline_mono_us = 0) {
  const std::int64_t wall_us = context.clock.wall_us();
  machine::TimersCommand timers = job.timers;
  prepare_timers(timers, wall_us, context.random, Sealer(context, job.tenant));
  return {job.tenant, make_uuid_v7(wall_us, context.random), std::move(timers), deadline_mono_us};
}

// Hands the operations to the broker; `render` makes the answer of what became of them.
template <class Render>
void submit_timers(const SharedContext& context, std::unique_ptr<Reply> reply,
                   const std::shared_ptr<TimersJob>& job, Render render) {
  submit_command<machine::TimersOutcome>(
      context, std::move(reply), context->settings.default_timeout_ms, prepare(*context, *job),
      [context, job](machine::Command call, auto done) {
        const std::int64_t deadline = call.deadline_mono_us;
        submit_sealing<machine::Outcome>(
            context, std::move(call),
            [&broker = context->broker](machine::Command prepared, auto then) {
              broker.submit(std::move(prepared), std::move(then));
            },
            [context, job, deadline] { return prepare(*context, *job, deadline); }, std::move(done));
      },
      std::move(render),
      [job](const broker::Refusal& refusal) {
        job->refused(refusal);
        http::Response response = timer_refusal_response(refusal);
        return job->mixed && refusal.code == "storage_full" ? with_hint(std::move(response)) : response;
      });
}

}  // namespace

TimerLimits timer_limits(const SharedContext& context, const std::string& tenant) {
  const ApiSettings& settings = context->settings;
  return {settings.timers_ops_max, settings.timers_horizon_s, settings.timers_payload_bytes_max,
          context->broker.entry_bytes_max(), [context, tenant](std::string_view queue) {
            return context->broker.state().encrypts(tenant, queue);
          }};
}

http::Response timer_fault_response(const TimerFault& fault) {
  if (fault.kind == TimerFault::Kind::name) return error_response(fault.error, fault.detail);
  http::Response response;
  response.status = fault.status;
  JsonWriter out(response.body);
  out.open('{').name("error").text(fault.error);
  if (!fault.reason.empty()) out.name("reason").text(fault.reason);
  if (!fault.detail.empty()) out.name("detail").text(fault.detail);
  out.close('}');
  if (fault.status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

http::Response timer_refusal_response(const broker::Refusal& refusal) {
  for (const EngineRow& row : kEngineRows) {
    if (row.code != refusal.code) continue;
    return timer_fault_response({TimerFault::Kind::value, row.status, std::string(row.error),
                                 std::string(row.reason), refusal.error});
  }
  return refusal_response(refusal);
}

std::vector<TimerEcho> echo_of(const machine::TimersCommand& command) {
  std::vector<TimerEcho> out;
  out.reserve(command.ops.size());
  for (const machine::TimerOp& op : command.ops)
    out.push_back({op.kind == machine::TimerOp::Kind::schedule, op.queue, op.key});
  return out;
}

void write_timer_result(JsonWriter& out, const TimerEcho& echo, const machine::TimerOpOutcome& outcome) {
  out.name("ok").boolean(outcome.status != Status::absent).name("status").text(name_of(outcome.status));
  out.name("queue").text(echo.queue).name("timerKey").text(echo.key).name("txn");
  // A timer's id is never empty: this is a cancel that sent none.
  if (outcome.transaction_id.empty()) {
    out.null();
  } else {
    out.text(outcome.transaction_id);
  }
  if (!echo.schedules) return;
  out.name("messageId").uuid(outcome.message_id).name("deliverAt").instant(outcome.deliver_at);
}

std::string render_timers(const std::vector<TimerEcho>& echo, const machine::TimersOutcome& outcome) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("results").open('[');
  for (std::size_t i = 0; i < outcome.ops.size(); ++i) {
    out.open('{');
    write_timer_result(out, echo[i], outcome.ops[i]);
    out.close('}');
  }
  out.close(']').close('}');
  return text;
}

tl::expected<TimerCharge, Denied> charge_timers(Ladder& ladder, const std::string& tenant,
                                                const machine::TimersCommand& command, Within within) {
  Weight adds;
  std::int64_t delay_us_max = 0;
  for (const machine::TimerOp& op : command.ops) {
    if (op.kind != machine::TimerOp::Kind::schedule) continue;
    ++adds.timers;
    delay_us_max = std::max(delay_us_max, op.delay_us);
  }
  if (adds.timers == 0) return nullptr;
  auto pass = within == Within::call ? ladder.timers(tenant, adds, delay_us_max)
                                     : ladder.timers_in_transaction(tenant, adds, delay_us_max);
  if (!pass) return tl::unexpected(std::move(pass).error());
  return std::make_shared<Ladder::Charge>(*std::move(pass));
}

void handle_timers(const SharedContext& context, Inbound inbound) {
  auto parsed = parse_timers(inbound.request.body, inbound.tenant, timer_limits(context, inbound.tenant));
  if (!parsed) return inbound.reply->send(timer_fault_response(parsed.error()));
  if (parsed->ops.empty()) return inbound.reply->send(json_response(200, R"({"results":[]})"));
  auto echo = echo_of(*parsed);
  const bool mixed = is_mixed(echo);
  auto charge = charge_timers(context->ladder, inbound.tenant, *parsed, Within::call);
  if (!charge) {
    http::Response denied = denied_response(charge.error());
    return inbound.reply->send(mixed ? with_hint(std::move(denied)) : std::move(denied));
  }
  auto job = std::make_shared<TimersJob>(
      TimersJob{std::move(inbound.tenant), *std::move(parsed), *std::move(charge), mixed});
  submit_timers(context, std::move(inbound.reply), job,
                [echo = std::move(echo)](const machine::TimersOutcome& outcome) {
                  return json_response(200, render_timers(echo, outcome));
                });
}

// Nothing refuses a cancel: not the tenant's quota, not its rate, not the operator's switch.
void handle_timer_cancel(const SharedContext& context, Inbound inbound) {
  machine::TimerOp op;
  op.kind = machine::TimerOp::Kind::cancel;
  op.queue = inbound.request.params.at(0);
  op.key = inbound.request.params.at(1);
  op.transaction_id = inbound.request.query_value("txn").value_or("");
  if (auto fault = check_timer_path(inbound.tenant, op.queue, op.key))
    return inbound.reply->send(timer_fault_response(*fault));
  if (!is_utf8(op.transaction_id) || op.transaction_id.size() > kTransactionIdBytesMax)
    return inbound.reply->send(
        timer_fault_response({{}, 400, "timers_bad_request", "txn must be UTF-8", {}}));
  auto job = std::make_shared<TimersJob>();
  job->tenant = std::move(inbound.tenant);
  job->timers.ops.push_back(std::move(op));
  TimerEcho echo = echo_of(job->timers).front();
  submit_timers(context, std::move(inbound.reply), job,
                [echo = std::move(echo)](const machine::TimersOutcome& outcome) {
                  std::string text;
                  JsonWriter out(text);
                  out.open('{');
                  write_timer_result(out, echo, outcome.ops.at(0));
                  out.close('}');
                  return json_response(200, std::move(text));
                });
}

}  // namespace queen::api

// Streams: the three routes, and what they answer.
#include "api/detail/streams.h"

#include <charconv>

#include "api/detail/json_check.h"
#include "api/detail/submit.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

constexpr const char* kNotFound = R"({"error":"not found"})";
constexpr const char* kCycleNotFound = R"({"success":false,"error":"query or partition not found"})";

// A number is a partition of somebody or of nobody: whose it is, is judged where it is used.
std::optional<Pid> numbered(std::string_view text) {
  Pid pid;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid.value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return pid;
}

// ST-6
bool ripe(const Bytes& value, std::int64_t at_or_before_ms) {
  JsonScanner scanner(value);
  JsonValue whole;
  if (!scanner.value(whole)) return false;
  const auto fields = JsonFields::of(whole);
  const JsonValue* end = fields ? fields->find("windowEnd") : nullptr;
  const auto ms = end == nullptr ? std::nullopt : integer_of(*end);
  return ms && *ms <= at_or_before_ms;
}

void write_push_results(JsonWriter& out, const StreamsCycleEcho& echo, const machine::PushOutcome& outcome) {
  out.name("push_results").open('[');
  for (std::size_t i = 0; i < echo.push.items.size(); ++i) {
    const PushPlace& place = echo.places[i];
    const auto& item = outcome.batches[place.batch].items[place.index];
    // Of a repeat within the cycle, the id of the one that was stored.
    Uuid id = place.id;
    for (std::size_t j = 0; item.first_in_batch && j < i; ++j)
      if (echo.places[j].batch == place.batch && echo.places[j].index == *item.first_in_batch)
        id = echo.places[j].id;
    out.open('{').name("queueName").text(echo.push.items[i].queue).name("messageId").uuid(id);
    out.name("transactionId");
    if (echo.push.items[i].transaction_id)
      out.text(*echo.push.items[i].transaction_id);
    else
      out.uuid(place.id);
    out.name("status").text(item.first_in_batch ? "duplicate" : "created").close('}');
  }
  out.close(']');
}

// What a cycle keeps from the request until its answer: views point into the body.
struct CycleJob {
  std::string tenant, body;
  StreamsCycleBody parsed;
  StreamsCycleEcho echo;
};

machine::Command cycle_command(Context& context, CycleJob& job) {
  const Sealer sealer(context, job.tenant);
  const PushMint mint{
      context.clock.wall_us(),          context.random, context.compressors, context.broker.zstd_level(),
      context.broker.entry_bytes_max(), &sealer};
  machine::StreamsCycleCommand command = job.parsed.command;
  command.pid = job.echo.pid;
  PreparedPush push = prepare_push(job.echo.push, mint);
  job.echo.places = std::move(push.places);
  command.push = std::move(push.command);
  return {job.tenant, make_uuid_v7(mint.wall_us, mint.random), std::move(command)};
}

void submit_cycle(const SharedContext& context, std::unique_ptr<Reply> reply,
                  const std::shared_ptr<CycleJob>& job, Pid pid) {
  job->echo.query_id = job->parsed.command.query_id;
  job->echo.pid = pid;
  job->echo.push = std::move(job->parsed.push);
  submit_command<machine::StreamsCycleOutcome>(
      context, std::move(reply), context->settings.stmt_timeout_ms, cycle_command(*context, *job),
      [context, job](machine::Command cycle, auto done) {
        const std::int64_t deadline = cycle.deadline_mono_us;
        submit_sealing<machine::Outcome>(
            context, std::move(cycle),
            [&broker = context->broker](machine::Command prepared, auto then) {
              broker.submit(std::move(prepared), std::move(then));
            },
            [context, job, deadline] {
              machine::Command again = cycle_command(*context, *job);
              again.deadline_mono_us = deadline;
              return again;
            },
            std::move(done));
      },
      [job](const machine::StreamsCycleOutcome& outcome) { return render_streams_cycle(job->echo, outcome); },
      refusal_response);
}

}  // namespace

std::optional<std::uint64_t> streams_queries_max(const broker::StateReads& state, std::string_view tenant) {
  if (tenant == kDefaultTenant) return std::nullopt;
  const auto grant = state.quota(store::QuotaKind::streams, tenant);
  if (!grant || !grant->enabled) return 0;
  if (grant->max_queries <= 0) return std::nullopt;
  return static_cast<std::uint64_t>(grant->max_queries);
}

http::Response render_streams_query(const StreamsRegisterEcho& echo,
                                    const machine::StreamsRegisterOutcome& outcome) {
  std::string text;
  JsonWriter out(text);
  if (outcome.denied) {
    out.open('{').name("success").boolean(false).name("denied").boolean(true).name("error");
    out.text("the tenant has no streams grant, or as many queries as it may have").close('}');
    return json_response(403, std::move(text));
  }
  out.open('{').name("success").boolean(!outcome.mismatch).name("query_id").uuid(outcome.query_id);
  out.name("name").text(echo.name);
  if (outcome.mismatch) {
    out.name("error").text("config_hash mismatch; retry with reset:true").close('}');
    return json_response(409, std::move(text));
  }
  out.name("config_hash").text(echo.config_hash).name("fresh").boolean(outcome.fresh);
  out.name("reset").boolean(outcome.reset).close('}');
  return json_response(200, std::move(text));
}

std::string render_streams_state(const StreamsStateAsk& ask, const std::vector<broker::StreamsState>& rows) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("success").boolean(true).name("rows").open('[');
  for (const broker::StreamsState& state : rows) {
    if (ask.ripe_at_or_before && !ripe(state.row.value, *ask.ripe_at_or_before)) continue;
    out.open('{').name("key").text(state.key).name("value").raw(state.row.value);
    out.name("updated_at").instant(state.row.updated).close('}');
  }
  out.close(']').close('}');
  return text;
}

http::Response render_streams_cycle(const StreamsCycleEcho& echo,
                                    const machine::StreamsCycleOutcome& outcome) {
  if (!outcome.found) return json_response(404, kCycleNotFound);
  std::string text;
  JsonWriter out(text);
  out.open('{').name("success").boolean(outcome.reason.empty());
  if (!outcome.reason.empty()) {
    out.name("error").text(outcome.error).name("reason").text(outcome.reason).close('}');
    return json_response(200, std::move(text));
  }
  out.name("query_id").uuid(echo.query_id).name("partition_id").digits(echo.pid.value);
  out.name("queueName").text(outcome.queue).name("state_ops_applied").number(outcome.state_ops);
  write_push_results(out, echo, outcome.push);
  out.name("ack_result");
  if (outcome.ack) {
    out.open('{').name("success").boolean(true).name("count").number(outcome.ack->count);
    out.name("lease_released").boolean(outcome.ack->lease_released).name("dlq").boolean(false).close('}');
  } else {
    out.null();
  }
  out.close('}');
  return json_response(200, std::move(text));
}

void handle_streams_query(const SharedContext& context, Inbound inbound) {
  auto parsed = parse_streams_query(inbound.request.body);
  if (!parsed) return inbound.reply->send(refusal_response(parsed.error()));
  parsed->query_id = make_uuid_v7(context->clock.wall_us(), context->random);
  parsed->queries_max = streams_queries_max(context->broker.state(), inbound.tenant);
  StreamsRegisterEcho echo{parsed->name, parsed->config_hash};
  machine::Command command{std::move(inbound.tenant), make_uuid_v7(context->clock.wall_us(), context->random),
                           *std::move(parsed)};
  submit_command<machine::StreamsRegisterOutcome>(
      context, std::move(inbound.reply), context->settings.stmt_timeout_ms, std::move(command),
      [&broker = context->broker](machine::Command registration, auto done) {
        broker.submit(std::move(registration), std::move(done));
      },
      [echo = std::move(echo)](const machine::StreamsRegisterOutcome& outcome) {
        return render_streams_query(echo, outcome);
      },
      refusal_response);
}

void handle_streams_state(const SharedContext& context, Inbound inbound) {
  auto parsed = parse_streams_state(inbound.request.body);
  if (!parsed) return inbound.reply->send(refusal_response(parsed.error()));
  auto pending = std::make_shared<Pending>(context->deadlines, std::move(inbound.reply));
  pending->set_deadline(context->deadline_us(context->settings.stmt_timeout_ms),
                        [pending] { pending->answer(timeout_response()); });
  context->broker.barrier([context, pending, tenant = std::move(inbound.tenant),
                           ask = *std::move(parsed)](const broker::Answer<void>& passed) mutable {
    if (!passed) {
      pending->answer(refusal_response(passed.error()));
      return;
    }
    context->broker.look([context, pending, tenant = std::move(tenant), ask = std::move(ask)] {
      const broker::StreamsReads reads(context->broker.state());
      const auto pid = reads.place(tenant, ask.query_id, ask.partition);
      const auto rows = pid ? reads.state(tenant, ask.query_id, *pid, ask.filter) : std::nullopt;
      pending->answer(rows ? json_response(200, render_streams_state(ask, *rows))
                           : json_response(404, kNotFound));
    });
  });
}

void handle_streams_cycle(const SharedContext& context, Inbound inbound) {
  auto job = std::make_shared<CycleJob>();
  job->tenant = std::move(inbound.tenant);
  job->body = std::move(inbound.request.body);
  auto parsed = parse_streams_cycle(job->body, job->tenant);
  if (!parsed) return inbound.reply->send(refusal_response(parsed.error()));
  job->parsed = *std::move(parsed);
  if (const auto pid = numbered(job->parsed.partition))
    return submit_cycle(context, std::move(inbound.reply), job, *pid);
  // A UUID is looked for among all partitions.
  context->broker.look([context, reply = std::move(inbound.reply), job]() mutable {
    const broker::StreamsReads reads(context->broker.state());
    const auto pid = reads.place(job->tenant, job->parsed.command.query_id, job->parsed.partition);
    if (!pid) return reply->send(json_response(404, kCycleNotFound));
    submit_cycle(context, std::move(reply), job, *pid);
  });
}

}  // namespace queen::api

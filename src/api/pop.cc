// Pop: parameters to command (parse), claims to the answer (render), and what happens when nobody is there to
// take it.
#include "api/detail/pop.h"

#include <limits>

#include "api/detail/json_check.h"
#include "api/detail/message_json.h"
#include "api/detail/names.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

using Mode = machine::Subscription::Mode;

constexpr std::int64_t kPartitionsMax = 64;
constexpr std::int64_t kBatchDefault = 200;
constexpr std::int64_t kMicrosPerMilli = 1000;
// A parked pop is answered by the broker before its timeout. This much later the request gives up by itself.
constexpr std::int64_t kParkedGraceMs = 250;

http::Response pop_refusal(std::string_view text) {
  http::Response response;
  response.status = 400;
  JsonWriter out(response.body);
  out.open('{').name("success").boolean(false).name("error").text(text);
  out.name("messages").raw("[]").close('}');
  return response;
}

machine::Subscription subscription_of(const Query& query, Mode fallback) {
  machine::Subscription out;
  out.mode = fallback;
  if (const auto mode = query.text("subscriptionMode")) out.mode = subscription_mode(*mode);
  const auto from = query.text("subscriptionFrom");
  if (!from) return out;
  const std::string text = trim(*from);
  if (lower_ascii(text) == "now") {
    out.mode = Mode::timestamp;
    out.from_now = true;
  } else if (const auto instant = parse_iso_micros(text)) {
    // Read to the millisecond; the remainder is taken so that instants before 1970 are rounded down, too.
    const std::int64_t rest = (*instant % kMicrosPerMilli + kMicrosPerMilli) % kMicrosPerMilli;
    out.mode = Mode::timestamp;
    out.from_us = *instant - rest;
  }
  return out;
}

std::uint32_t clamp_batch(std::int64_t batch) {
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(batch, 1, std::numeric_limits<std::int32_t>::max()));
}

// `batch`, `partitions` and the autopilot, which picks what the request did not send.
enum class Kind : std::uint8_t { queue, pinned, discovery };
void read_sizes(Query& query, Kind kind, PopRequest& out) {
  machine::PopCommand& command = out.command;
  const auto batch = query.integer("batch");
  const auto partitions = query.integer("partitions");
  command.batch = clamp_batch(batch.value_or(kBatchDefault));
  const bool conflating = command.conflation.value_or(false);
  const std::int64_t partitions_default = conflating ? command.batch : 1;
  command.partitions_max = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(partitions.value_or(partitions_default), 1, kPartitionsMax));
  if (kind == Kind::pinned) command.partitions_max = 1;
  const bool asked = query.boolean("autopilot").value_or(false);
  const bool autopilot = asked && kind == Kind::queue && !conflating;
  command.autopilot_batch = autopilot && !batch;
  command.autopilot_partitions = autopilot && !partitions;
}

void read_common(Query& query, Kind kind, const ApiSettings& settings, PopRequest& out) {
  machine::PopCommand& command = out.command;
  command.group = query.filled("consumerGroup").value_or(std::string(machine::kQueueMode));
  command.conflation = query.boolean("conflation");
  read_sizes(query, kind, out);
  out.timeout_ms = Context::clamp_ms(query.integer("timeout").value_or(settings.default_timeout_ms));
  command.lease_seconds = static_cast<std::int32_t>(std::clamp<std::int64_t>(
      query.integer("leaseSeconds").value_or(0), 0, std::numeric_limits<std::int32_t>::max()));
  const bool commit = query.boolean("commitOnDelivery").value_or(false);
  const bool auto_ack = query.boolean("autoAck").value_or(false);
  command.commit_on_delivery = commit || auto_ack;
  command.subscription = subscription_of(query, settings.default_subscription);
  out.group_named = query.filled("consumerGroup").has_value();
}

// What a pop is refused for, whatever it reads from.
std::optional<http::Response> pop_fault(const PopRequest& request, std::string_view tenant) {
  const machine::PopCommand& command = request.command;
  const std::string_view pinned =
      command.partition ? std::string_view(*command.partition) : std::string_view{};
  // A pop may create its queue and group, and no name may break a file.
  if (!is_utf8_fast(command.queue) || !is_utf8_fast(pinned) || !is_utf8_fast(command.group))
    return refusal_response(bad_request("a name is not UTF-8"));
  if (!names_fit(tenant, command.queue, pinned, command.group)) return refusal_response(name_too_long());
  if (command.conflation.value_or(false) && !request.group_named)
    return pop_refusal("conflation=true needs a consumerGroup");
  if (command.conflation.value_or(false) && command.commit_on_delivery)
    return pop_refusal("conflation=true cannot be used with commitOnDelivery or autoAck");
  return std::nullopt;
}

std::size_t message_count(const broker::PopAnswer& answer) {
  std::size_t count = 0;
  for (const broker::PopPart& part : answer.parts) count += part.messages.messages.size();
  return count;
}

// Fields that are the same for every message of one part, rendered once.
std::string part_tail(const PopEcho& echo, const machine::PopClaim& claim) {
  std::string text;
  text += R"(,"partitionId":")" + std::to_string(claim.pid.value) + R"(","partition":)";
  append_json_text(text, claim.partition);
  text += R"(,"leaseId":")" + (echo.commit_on_delivery ? std::string() : echo.lease_id.str());
  text += R"(","consumerGroup":)";
  append_json_text(text, echo.group);
  text += R"(,"deliveryAttempt":)" + std::to_string(claim.delivery_attempt) + R"(,"offset":)";
  return text;
}

void render_message(std::string& text, const broker::Message& message, std::string_view tail) {
  text += R"({"id":")";
  message.id.append_to(text);
  text += R"(","transactionId":)";
  append_json_text(text, message.transaction_id);
  text += R"(,"traceId":)";
  if (message.trace_id) {
    JsonWriter(text).uuid(*message.trace_id);
  } else {
    text += "null";
  }
  text += R"(,"data":)";
  append_payload(text, message);
  text += R"(,"producerSub":)";
  if (message.producer_sub) {
    append_json_text(text, *message.producer_sub);
  } else {
    text += "null";
  }
  text += R"(,"createdAt":)";
  JsonWriter(text).instant(message.ts_us);
  text += tail;
  JsonWriter(text).number(message.offset);
  text += '}';
}

void render_messages(std::string& text, const PopEcho& echo, const broker::PopAnswer& answer) {
  bool first = true;
  for (const broker::PopPart& part : answer.parts) {
    const std::string tail = part_tail(echo, part.claim);
    for (const broker::Message& message : part.messages.messages) {
      if (!first) text += ',';
      first = false;
      render_message(text, message, tail);
    }
  }
}

std::size_t rendered_bytes(const PopEcho& echo, const broker::PopAnswer& answer) {
  constexpr std::size_t kMessageBytes = 420;
  std::size_t bytes = 512;
  for (const broker::PopPart& part : answer.parts)
    for (const broker::Message& message : part.messages.messages)
      bytes += kMessageBytes + message.payload.size() + message.transaction_id.size() +
               part.claim.partition.size() + echo.group.size();
  return bytes;
}

// What a pop keeps from the request until its answer.
struct PopJob {
  PopJob(Deadlines& deadlines, std::unique_ptr<Reply> reply) : pending(deadlines, std::move(reply)) {}
  Pending pending;
  PopEcho echo;
  std::string tenant;
  std::atomic<broker::Broker::PopId> id = 0;  // 0 until the broker has named it
  std::atomic<bool> unwanted = false;         // nobody waits for the answer any more
};

// Nobody will receive what this pop claims. It may run before the broker has named the pop; then the thread
// that gets the name sees `unwanted` and cancels.
void abandon(const SharedContext& context, const std::shared_ptr<PopJob>& job) {
  job->unwanted = true;
  const auto id = job->id.load();
  if (id != 0) context->broker.cancel_pop(id);
}

void give_back(const SharedContext& context, const PopJob& job, const broker::PopAnswer& answer) {
  // Commit at delivery holds no lease: a lost answer loses the run (L-10).
  if (answer.parts.empty() || job.echo.commit_on_delivery) return;
  context->broker.hand_back(job.tenant, job.echo.group, job.echo.lease_id, answer);
}

// The same for later, without the messages: for an answer that was sent and never read (L-9).
UniqueFunction<void()> take_back(const SharedContext& context, const PopJob& job,
                                 const broker::PopAnswer& answer) {
  broker::PopAnswer claims;
  for (const broker::PopPart& part : answer.parts) claims.parts.push_back({part.claim, {}});
  return [context, tenant = job.tenant, group = job.echo.group, lease = job.echo.lease_id,
          commit = job.echo.commit_on_delivery, claims = std::move(claims)] {
    if (!commit) context->broker.hand_back(tenant, group, lease, claims);
  };
}

void finish_pop(const SharedContext& context, const std::shared_ptr<PopJob>& job,
                const broker::Answer<broker::PopAnswer>& answer) {
  const bool mine = job->pending.claim();
  if (answer && (!mine || job->pending.client_gone())) give_back(context, *job, *answer);
  if (!mine) return;
  if (!answer) return job->pending.send(refusal_response(answer.error()));
  http::Response response = render_pop(job->echo, *answer);
  if (!answer->parts.empty())
    response.undelivered = std::make_shared<http::Undelivered>(take_back(context, *job, *answer));
  job->pending.send(std::move(response));
}

void start_pop(const SharedContext& context, Inbound& inbound, PopRequest request) {
  auto job = std::make_shared<PopJob>(context->deadlines, std::move(inbound.reply));
  const std::int64_t now = context->clock.wall_us();
  request.command.lease_id = make_uuid_v7(now, context->random);
  request.command.queue_uuid = make_uuid_v7(now, context->random);
  request.command.group_uuid = make_uuid_v7(now, context->random);
  job->echo = echo_of(request);
  job->tenant = inbound.tenant;
  const std::int64_t deadline = context->deadline_us(request.timeout_ms);
  const std::int64_t grace = request.wait ? kParkedGraceMs * kMicrosPerMilli : 0;
  job->pending.set_deadline(deadline + grace, [context, job] {
    if (job->pending.answer(timeout_response())) abandon(context, job);
  });
  // Before the broker has the pop: the answer may be sent from another thread while this one is still here.
  job->pending.on_disconnect([context, job] { abandon(context, job); });
  machine::Command command{inbound.tenant, make_uuid_v7(now, context->random), std::move(request.command)};
  const auto id = context->broker.pop(
      std::move(command), request.wait, deadline,
      [context, job](broker::Answer<broker::PopAnswer> answer) { finish_pop(context, job, answer); });
  job->id = id;
  if (job->unwanted) context->broker.cancel_pop(id);
}

void handle_pop(const SharedContext& context, Inbound inbound, std::optional<std::string> partition) {
  Query query([&request = inbound.request](std::string_view name) { return request.query_value(name); });
  auto parsed = parse_pop(std::move(query), inbound.request.params[0], std::move(partition), inbound.tenant,
                          context->settings);
  if (!parsed) return inbound.reply->send(std::move(parsed).error());
  start_pop(context, inbound, *std::move(parsed));
}

}  // namespace

PopParse parse_pop(Query query, std::string queue, std::optional<std::string> partition,
                   std::string_view tenant, const ApiSettings& settings) {
  PopRequest out;
  machine::PopCommand& command = out.command;
  command.queue = std::move(queue);
  command.partition = std::move(partition);
  read_common(query, command.partition ? Kind::pinned : Kind::queue, settings, out);
  out.wait = query.boolean("wait").value_or(false);
  if (!query.fault().empty()) return tl::unexpected(query_fault_response(query.fault()));
  if (command.queue.empty()) return tl::unexpected(refusal_response(bad_request("queue must not be empty")));
  if (auto refusal = pop_fault(out, tenant)) return tl::unexpected(*std::move(refusal));
  return out;
}

PopParse parse_discovery(Query query, std::string_view tenant, const ApiSettings& settings) {
  PopRequest out;
  machine::PopCommand& command = out.command;
  command.labels = machine::PopLabels{query.filled("namespace"), query.filled("task")};
  read_common(query, Kind::discovery, settings, out);
  query.boolean("wait");  // must parse, and is ignored
  if (!query.fault().empty()) return tl::unexpected(query_fault_response(query.fault()));
  if (!command.labels->namespace_name && !command.labels->task)
    return tl::unexpected(pop_refusal("a discovery needs a namespace or a task"));
  if (auto refusal = pop_fault(out, tenant)) return tl::unexpected(*std::move(refusal));
  return out;
}

PopEcho echo_of(const PopRequest& request) {
  const machine::PopCommand& command = request.command;
  return {
      command.queue,    command.partition,          command.group,
      command.lease_id, command.commit_on_delivery, command.autopilot_batch || command.autopilot_partitions};
}

http::Response render_pop(const PopEcho& echo, const broker::PopAnswer& answer) {
  const bool empty = message_count(answer) == 0;
  http::Response response;
  if (empty && !answer.conflation && !answer.conflation_conflict) {
    response.status = 204;
    return response;
  }
  std::string& text = response.body;
  text.reserve(rendered_bytes(echo, answer));
  JsonWriter out(text);
  out.open('{').name("success").boolean(true).name("queue").text(echo.queue).name("partition");
  if (!empty) {
    out.text(answer.parts[0].claim.partition).name("partitionId").digits(answer.parts[0].claim.pid.value);
  } else {
    out.text(echo.partition.value_or("")).name("partitionId").text("");
  }
  out.name("leaseId");
  if (empty || echo.commit_on_delivery) {
    out.text("");
  } else {
    out.uuid(echo.lease_id);
  }
  out.name("consumerGroup").text(echo.group).name("messages").open('[');
  render_messages(text, echo, answer);
  out.close(']').name("partitionsClaimed").number(empty ? 0 : answer.parts.size());
  if (answer.conflation) out.name("conflation").boolean(true);
  if (answer.conflation_conflict) out.name("conflationConflict").boolean(true);
  if (echo.autopilot) {
    out.name("autopilot").open('{').name("partitions").number(answer.partitions_max);
    out.name("batch").number(answer.batch).close('}');
  }
  out.close('}');
  return response;
}

void handle_pop_discovery(const SharedContext& context, Inbound inbound) {
  Query query([&request = inbound.request](std::string_view name) { return request.query_value(name); });
  auto parsed = parse_discovery(std::move(query), inbound.tenant, context->settings);
  if (!parsed) return inbound.reply->send(std::move(parsed).error());
  start_pop(context, inbound, *std::move(parsed));
}

void handle_pop_queue(const SharedContext& context, Inbound inbound) {
  handle_pop(context, std::move(inbound), std::nullopt);
}

void handle_pop_partition(const SharedContext& context, Inbound inbound) {
  std::string partition = inbound.request.params[1];
  if (partition.empty()) partition = kDefaultPartition;
  handle_pop(context, std::move(inbound), std::move(partition));
}

}  // namespace queen::api

// In-memory queues: push, pop and ack.
#include "api/detail/ephemeral.h"

#include <atomic>

#include "api/json_writer.h"

namespace queen::api {
namespace {

using ephemeral::Message;

// What a pop keeps from the request until its answer.
struct Job {
  std::unique_ptr<Reply> reply;
  ephemeral::QueueName name;
  std::string group;
  bool commit = false;
  std::atomic<ephemeral::Engine::PopId> id = 0;  // 0 until the engine has named it
  std::atomic<bool> gone = false;
};

// Nobody received what this pop was given: others may have it, and no attempt is spent.
void give_back(const SharedContext& context, const ephemeral::QueueName& name, const std::string& group,
               const std::vector<std::string>& ids) {
  std::vector<ephemeral::Ack> acks;
  acks.reserve(ids.size());
  for (const std::string& id : ids) acks.push_back({id, ephemeral::Status::retry});
  context->ephemeral.ack(name, group, acks);
}

std::vector<std::string> ids_of(const std::vector<Message>& messages) {
  std::vector<std::string> out;
  out.reserve(messages.size());
  for (const Message& message : messages) out.push_back(message.id);
  return out;
}

void finish_pop(const SharedContext& context, const std::shared_ptr<Job>& job,
                tl::expected<std::vector<Message>, ephemeral::Refused> answer) {
  if (!answer) return job->reply->send(ephemeral_refused(answer.error()));
  const bool gone = job->gone || job->reply->client_gone();
  if (gone && !job->commit) give_back(context, job->name, job->group, ids_of(std::exchange(*answer, {})));
  http::Response response = json_response(200, render_ephemeral_messages(job->name.queue, *answer));
  if (!job->commit && !answer->empty())
    response.undelivered = std::make_shared<http::Undelivered>(
        [context, name = job->name, group = job->group, ids = ids_of(*answer)] {
          give_back(context, name, group, ids);
        });
  job->reply->send(std::move(response));
}

}  // namespace

std::string render_ephemeral_messages(std::string_view queue, const std::vector<Message>& messages) {
  constexpr std::size_t kMessageBytes = 96;
  std::size_t bytes = 64 + queue.size();
  for (const Message& message : messages)
    bytes += kMessageBytes + message.payload->size() + 2 * message.partition.size();
  std::string text;
  text.reserve(bytes);
  JsonWriter out(text);
  out.open('{').name("queue").text(queue).name("messages").open('[');
  for (const Message& message : messages) {
    out.open('{').name("id").text(message.id).name("partition").text(message.partition);
    out.name("attempts").number(message.attempts).name("payload").raw(*message.payload).close('}');
  }
  out.close(']').close('}');
  return text;
}

std::string render_ephemeral_acks(const EphemeralAcks& acks,
                                  const std::vector<ephemeral::AckOutcome>& outcomes) {
  constexpr std::array kNames = {"acked", "redelivered", "stale", "unknown"};  // as AckOutcome
  std::string text;
  JsonWriter out(text);
  out.open('{').name("results").open('[');
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    out.open('{').name("id").text(acks.acks[i].id).name("outcome");
    out.text(kNames[static_cast<std::size_t>(outcomes[i])]).close('}');
  }
  out.close(']').close('}');
  return text;
}

http::Response ephemeral_fault(int status, std::string_view code, std::string_view text,
                               std::int64_t retry_after_s) {
  http::Response response;
  response.status = status;
  JsonWriter out(response.body);
  out.open('{').name("error").text(text).name("code").text(code).close('}');
  if (retry_after_s > 0) response.headers.emplace_back("Retry-After", std::to_string(retry_after_s));
  return response;
}

http::Response ephemeral_bad_request(std::string_view text) {
  return ephemeral_fault(400, "ephemeral_bad_request", text);
}

http::Response ephemeral_denied(const Denied& denied) {
  return ephemeral_fault(denied.status, denied.error, denied.detail, denied.retry_after_s);
}

http::Response ephemeral_refused(ephemeral::Refused refused) {
  switch (refused) {
    case ephemeral::Refused::queue_full:
      return ephemeral_fault(429, "queue_full", "the queue is at its maxBytes or maxLength");
    case ephemeral::Refused::tenant_full:
      return ephemeral_fault(403, "ephemeral_quota_exceeded",
                             "the tenant's allowance of in-memory queues or their bytes is used up");
    default:
      return ephemeral_fault(503, "ephemeral_unavailable", "in-memory queues hold all that this node may", 1);
  }
}

ephemeral::TenantMax ephemeral_max(const SharedContext& context, const std::string& tenant) {
  const auto row = context->ladder.quota(store::QuotaKind::ephemeral, tenant);
  return row ? ephemeral::TenantMax{row->max_bytes, row->max_queues} : ephemeral::TenantMax{};
}

void handle_ephemeral_push(const SharedContext& context, Inbound inbound) {
  auto parsed = parse_ephemeral_push(inbound.request.body);
  if (!parsed) return inbound.reply->send(ephemeral_bad_request(parsed.error()));
  const auto count = static_cast<std::int64_t>(parsed->payloads.size());
  if (const auto denied = context->ladder.ephemeral(inbound.tenant, count))
    return inbound.reply->send(ephemeral_denied(*denied));
  const auto max = ephemeral_max(context, inbound.tenant);
  const auto pushed = context->ephemeral.push({inbound.tenant, std::move(parsed->queue)}, parsed->partition,
                                              std::move(parsed->payloads), max);
  if (!pushed) return inbound.reply->send(ephemeral_refused(pushed.error()));
  inbound.reply->send(json_response(201, fmt::format(R"({{"pushed":{}}})", *pushed)));
}

void handle_ephemeral_pop(const SharedContext& context, Inbound inbound) {
  auto parsed = parse_ephemeral_pop(
      Query([&request = inbound.request](std::string_view name) { return request.query_value(name); }),
      context->settings);
  if (!parsed) return inbound.reply->send(ephemeral_bad_request(parsed.error()));
  if (const auto denied = context->ladder.ephemeral(inbound.tenant, 0))
    return inbound.reply->send(ephemeral_denied(*denied));
  const auto max = ephemeral_max(context, inbound.tenant);
  ephemeral::PopRequest request = std::move(parsed->request);
  request.name.tenant = std::move(inbound.tenant);
  if (parsed->wait) request.wait_until_us = context->timers.clock().mono_us() + parsed->timeout_ms * 1000;
  auto job = std::make_shared<Job>();
  job->reply = std::move(inbound.reply);
  job->name = request.name;
  job->group = request.group;
  job->commit = request.commit;
  // It may run before the engine has named the pop; then the thread that gets the name cancels.
  job->reply->on_disconnect([context, weak = std::weak_ptr(job)] {
    const auto left = weak.lock();
    if (!left) return;
    left->gone = true;
    if (const auto id = left->id.load(); id != 0) context->ephemeral.cancel_pop(id);
  });
  job->id = context->ephemeral.pop(
      std::move(request), max, [context, job](auto answer) { finish_pop(context, job, std::move(answer)); });
  if (job->gone && job->id != 0) context->ephemeral.cancel_pop(job->id);
}

void handle_ephemeral_ack(const SharedContext& context, Inbound inbound) {
  const auto parsed = parse_ephemeral_acks(inbound.request.body);
  if (!parsed) return inbound.reply->send(ephemeral_bad_request(parsed.error()));
  if (const auto denied = context->ladder.ephemeral(inbound.tenant, 0))
    return inbound.reply->send(ephemeral_denied(*denied));
  std::vector<ephemeral::Ack> acks;
  acks.reserve(parsed->acks.size());
  for (const auto& one : parsed->acks) acks.push_back({one.id, one.status});
  const auto outcomes = context->ephemeral.ack({inbound.tenant, parsed->queue}, parsed->group, acks);
  inbound.reply->send(json_response(200, render_ephemeral_acks(*parsed, outcomes)));
}

}  // namespace queen::api

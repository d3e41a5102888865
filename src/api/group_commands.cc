// Seeks, subscriptions and deletions of consumer groups.
#include "api/detail/group_commands.h"

#include "api/detail/instant.h"
#include "api/detail/names.h"
#include "api/detail/submit.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

constexpr std::string_view kSeekNeeds = "Must specify toEnd=true or a timestamp";

struct GroupPath {
  std::string group, queue, partition;
};
// The names in the path; a queue and a partition only where the route has them. Errors: bad_request,
// name_too_long.
broker::Answer<GroupPath> parse_path(const Inbound& inbound) {
  const auto& params = inbound.request.params;
  for (const std::string& name : params) {
    if (name.empty()) return tl::unexpected(bad_request("a name in the path is empty"));
    if (!is_utf8(name)) return tl::unexpected(bad_request("the names in the path must be UTF-8"));
  }
  GroupPath path{params.at(0), params.size() > 1 ? params[1] : "", params.size() > 2 ? params[2] : ""};
  if (!names_fit(inbound.tenant, path.queue, path.partition, path.group))
    return tl::unexpected(name_too_long());
  return path;
}

http::Response seek_refusal(int status, std::string_view error) {
  std::string text;
  JsonWriter(text).open('{').name("success").boolean(false).name("error").text(error).close('}');
  return json_response(status, std::move(text));
}

http::Response nothing_to_seek(const machine::SeekCommand& seek) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("success").boolean(false).name("error");
  out.text(seek.partition ? "Queue or partition not found" : "Queue not found or without partitions");
  out.name("consumerGroup").text(seek.group).name("queueName").text(seek.queue);
  out.name("partitionsUpdated").number(0).close('}');
  return json_response(404, std::move(text));
}

void seek(const SharedContext& context, Inbound inbound) {
  auto path = parse_path(inbound);
  if (!path) return inbound.reply->send(refusal_response(path.error()));
  const auto since = parse_seek(inbound.request.body);
  if (!since && since.error().error == kSeekNeeds)
    return inbound.reply->send(seek_refusal(400, since.error().error));
  if (!since) return inbound.reply->send(refusal_response(since.error()));
  machine::SeekCommand body;
  body.group = std::move(path->group);
  body.queue = std::move(path->queue);
  if (inbound.request.params.size() > 2) body.partition = std::move(path->partition);
  body.since_us = *since;
  machine::Command command{std::move(inbound.tenant), make_uuid_v7(context->clock.wall_us(), context->random),
                           body};
  submit_command<machine::SeekOutcome>(
      context, std::move(inbound.reply), context->settings.default_timeout_ms, std::move(command),
      [&broker = context->broker](machine::Command asked, auto done) {
        broker.submit(std::move(asked), std::move(done));
      },
      [body = std::move(body)](const machine::SeekOutcome& outcome) {
        return outcome.found ? json_response(200, render_seek(body, outcome)) : nothing_to_seek(body);
      },
      refusal_response);
}

void erase(const SharedContext& context, Inbound inbound) {
  auto path = parse_path(inbound);
  if (!path) return inbound.reply->send(refusal_response(path.error()));
  broker::GroupDeletion deletion;
  deletion.group = std::move(path->group);
  if (inbound.request.params.size() > 1) deletion.queue = std::move(path->queue);
  deletion.keep_registration = inbound.request.query_value("deleteMetadata") == "false";
  auto pending = std::make_shared<Pending>(context->deadlines, std::move(inbound.reply));
  pending->set_deadline(context->deadline_us(context->settings.default_timeout_ms),
                        [pending] { pending->answer(timeout_response()); });
  context->broker.delete_group(
      std::move(inbound.tenant), deletion,
      [context, pending, deletion](const broker::Answer<broker::GroupDeleted>& deleted) {
        pending->answer(deleted ? json_response(200, render_group_deleted(deletion, *deleted))
                                : refusal_response(deleted.error()));
      });
}

}  // namespace

broker::Answer<std::optional<std::int64_t>> parse_seek(std::string_view body) {
  if (trim(body).empty()) return std::optional<std::int64_t>();
  const auto value = body_value(body);
  if (!value) return tl::unexpected(value.error());
  const auto fields = JsonFields::of(*value);
  if (!fields) return tl::unexpected(bad_body("the body must be an object"));
  const JsonValue* to_end = fields->find_set("toEnd");
  if (to_end != nullptr && to_end->is_true()) return std::optional<std::int64_t>();
  const JsonValue* timestamp = fields->find_set("timestamp");
  const auto text = timestamp != nullptr ? string_of(*timestamp) : std::nullopt;
  const auto instant = text ? parse_instant_ms(*text) : std::nullopt;
  if (!instant) return tl::unexpected(bad_request(std::string(kSeekNeeds)));
  return instant;
}

std::string render_seek(const machine::SeekCommand& seek, const machine::SeekOutcome& outcome) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("success").boolean(true).name("consumerGroup").text(seek.group);
  out.name("queueName").text(seek.queue).name("partitionName");
  if (seek.partition) {
    out.text(*seek.partition);
  } else {
    out.null();
  }
  out.name("seekToEnd").boolean(!seek.since_us).name("targetTimestamp");
  if (seek.since_us) {
    out.instant(*seek.since_us);
  } else {
    out.null();
  }
  out.name("partitionsUpdated").number(outcome.partitions).name("updated").boolean(outcome.partitions > 0);
  out.close('}');
  return text;
}

broker::Answer<SubscriptionBody> parse_subscription(std::string_view body) {
  const auto missing = [] {
    return tl::unexpected(bad_request("subscriptionTimestamp must be a timestamp (ISO-8601)"));
  };
  if (trim(body).empty()) return missing();
  const auto value = body_value(body);
  if (!value) return tl::unexpected(value.error());
  const auto fields = JsonFields::of(*value);
  if (!fields) return tl::unexpected(bad_body("the body must be an object"));
  const JsonValue* timestamp = fields->find_set("subscriptionTimestamp");
  auto text = timestamp != nullptr ? string_of(*timestamp) : std::nullopt;
  const auto instant = text ? parse_instant_ms(*text) : std::nullopt;
  if (!instant) return missing();
  return SubscriptionBody{*instant, *std::move(text)};
}

std::string render_group_deleted(const broker::GroupDeletion& deletion, const broker::GroupDeleted& deleted) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("success").boolean(true).name("consumerGroup").text(deletion.group).name("queueName");
  if (deletion.queue) {
    out.text(*deletion.queue);
  } else {
    out.null();
  }
  out.name("deletedPartitions").number(deleted.cursors);
  out.name("metadataDeleted").boolean(!deletion.keep_registration).name("queues").open('[');
  for (const std::string& queue : deleted.queues) out.text(queue);
  out.close(']').close('}');
  return text;
}

void handle_seek_queue(const SharedContext& context, Inbound inbound) {
  seek(context, std::move(inbound));
}
void handle_seek_partition(const SharedContext& context, Inbound inbound) {
  seek(context, std::move(inbound));
}

void handle_subscription(const SharedContext& context, Inbound inbound) {
  auto path = parse_path(inbound);
  if (!path) return inbound.reply->send(refusal_response(path.error()));
  auto body = parse_subscription(inbound.request.body);
  if (!body) return inbound.reply->send(refusal_response(body.error()));
  machine::Command command{std::move(inbound.tenant), make_uuid_v7(context->clock.wall_us(), context->random),
                           machine::SubscribeCommand{path->group, body->from_us, {}}};
  submit_command<machine::SubscribeOutcome>(
      context, std::move(inbound.reply), context->settings.default_timeout_ms, std::move(command),
      [&broker = context->broker](machine::Command asked, auto done) {
        broker.submit(std::move(asked), std::move(done));
      },
      [group = std::move(path->group),
       as_sent = std::move(body->as_sent)](const machine::SubscribeOutcome& outcome) {
        std::string text;
        JsonWriter out(text);
        out.open('{').name("success").boolean(true).name("consumerGroup").text(group);
        out.name("newTimestamp").text(as_sent).name("rowsUpdated").number(outcome.rows).close('}');
        return json_response(200, std::move(text));
      },
      refusal_response);
}

void handle_group_delete(const SharedContext& context, Inbound inbound) {
  erase(context, std::move(inbound));
}
void handle_group_delete_queue(const SharedContext& context, Inbound inbound) {
  erase(context, std::move(inbound));
}

}  // namespace queen::api

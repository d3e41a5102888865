// Browsing messages and one message in detail (api-messaging.md 11.1, 11.2).
#include "api/detail/messages.h"

#include <algorithm>
#include <array>

#include "api/detail/message_json.h"
#include "api/detail/names.h"
#include "api/detail/queue_json.h"
#include "api/detail/resources.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

constexpr std::int64_t kMinuteUs = 60'000'000;
constexpr std::int64_t kHourUs = 60 * kMinuteUs;
constexpr std::int64_t kLimitDefault = 200;
constexpr std::int64_t kLimitMax = 1000;

struct StatusName {
  broker::MessageStatus status;
  std::string_view name;
};
constexpr std::array kStatuses = {StatusName{broker::MessageStatus::pending, "pending"},
                                  StatusName{broker::MessageStatus::processing, "processing"},
                                  StatusName{broker::MessageStatus::completed, "completed"},
                                  StatusName{broker::MessageStatus::dead_letter, "dead_letter"}};

std::string_view name_of(broker::MessageStatus status) {
  return kStatuses[static_cast<std::size_t>(status)].name;
}

void write_text_or_null(JsonWriter& out, std::string_view name, const std::optional<std::string>& value) {
  out.name(name);
  if (value)
    out.text(*value);
  else
    out.null();
}
void write_uuid_or_null(JsonWriter& out, std::string_view name, const std::optional<Uuid>& value) {
  out.name(name);
  if (value)
    out.uuid(*value);
  else
    out.null();
}
void write_millis_or_null(JsonWriter& out, std::string_view name, std::optional<std::int64_t> value) {
  out.name(name);
  if (value)
    out.instant_ms(*value);
  else
    out.null();
}

// The payload twice, under the names of old and new clients.
void write_payload(JsonWriter& out, const broker::MessageView& view) {
  std::string json = "null";
  if (view.payload_available) {
    broker::Message message;
    message.null_payload = view.null_payload;
    message.payload = view.payload;
    json.clear();
    append_payload(json, message);
  }
  out.name("data").raw(json).name("payload").raw(json);
}

// id, transactionId: unknown when the record is damaged.
void write_ids(JsonWriter& out, const broker::MessageView& view) {
  write_uuid_or_null(out, "id", view.id);
  write_text_or_null(out, "transactionId", view.id ? std::optional(view.transaction_id) : std::nullopt);
}

void write_mode(JsonWriter& out, const broker::ModeView& mode) {
  out.name("mode").open('{').name("hasQueueMode").boolean(mode.queue_mode);
  out.name("busGroupsCount").number(mode.groups).name("type");
  if (mode.groups > 0)
    out.text(mode.queue_mode ? "hybrid" : "bus");
  else
    out.text(mode.queue_mode ? "queue" : "none");
  out.close('}');
}

void write_row(JsonWriter& out, const broker::MessageView& view) {
  out.open('{');
  write_ids(out, view);
  out.name("txnHash");
  if (view.id)
    out.text(hex_lower(xxh3_128(view.transaction_id).view()));
  else
    out.null();
  write_payload(out, view);
  write_uuid_or_null(out, "traceId", view.trace_id);
  write_text_or_null(out, "producerSub", view.producer_sub);
  out.name("createdAt").instant_ms(view.created_at).name("offset").number(view.offset);
  out.name("queue").text(view.queue->name).name("partition").text(view.partition);
  out.name("partitionId").uuid(view.partition_id).name("status").text(name_of(view.status));
  out.name("queueStatus");
  if (view.queue_status)
    out.text(name_of(*view.queue_status));
  else
    out.null();
  out.name("busStatus").open('{').name("consumedBy").number(view.consumed_by);
  out.name("totalGroups").number(view.groups).close('}');
  out.name("queuePath").text(view.queue->name + "/" + view.partition);
  write_queue_labels(out, view.queue->row);
  out.name("queuePriority").number(view.queue->row.priority);
  out.name("payloadAvailable").boolean(view.payload_available);
  write_millis_or_null(out, "leaseExpiresAt", view.lease_expires_at);
  out.name("segment").open('{').name("seq").number(view.append_base).name("frameIdx");
  out.number(view.offset - view.append_base)
      .close('}')
      .name("isEncrypted")
      .boolean(view.encrypted)
      .close('}');
}

// Fractions of a millisecond are dropped.
std::optional<std::int64_t> instant_of(Query& query, std::string_view name) {
  const auto text = query.filled(name);
  if (!text) return std::nullopt;
  const auto us = parse_iso_micros(*text);
  if (!us) return query.fail(name, "an ISO-8601 instant");
  return *us - ((*us % 1000) + 1000) % 1000;
}

std::int64_t floor_minute(std::int64_t us) {
  return us - ((us % kMinuteUs) + kMinuteUs) % kMinuteUs;
}

}  // namespace

broker::Answer<broker::MessageQuery> parse_browse(Query& query, std::int64_t now_us) {
  broker::MessageQuery out;
  out.queue = query.filled("queue");
  out.partition = query.filled("partition");
  out.namespace_name = query.filled("namespace");
  out.task = query.filled("task");
  if (const auto status = query.filled("status")) {
    for (const StatusName& one : kStatuses)
      if (one.name == *status) out.status = one.status;
    if (!out.status) query.fail("status", "pending, processing, completed or dead_letter");
  }
  out.from_us = instant_of(query, "from").value_or(now_us - kHourUs);
  out.to_us = floor_minute(instant_of(query, "to").value_or(now_us)) + kMinuteUs;
  out.limit = static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(query.integer("limit").value_or(kLimitDefault), 1, kLimitMax));
  out.offset = static_cast<std::uint64_t>(std::max<std::int64_t>(query.integer("offset").value_or(0), 0));
  if (out.offset > broker::Resources::kBrowseOffsetMax)
    return tl::unexpected(
        bad_request(fmt::format("offset must be at most {}", broker::Resources::kBrowseOffsetMax)));
  return out;
}

std::string render_messages(const broker::MessageQuery& query, const broker::MessagesView& view) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("messages").open('[');
  for (const broker::MessageView& message : view.messages) write_row(out, message);
  out.close(']').name("total").number(view.messages.size());
  out.name("pagination").open('{').name("limit").number(query.limit).name("offset").number(query.offset);
  out.close('}');
  write_mode(out, view.mode);
  out.close('}');
  return text;
}

std::string render_message(const broker::MessageDetail& detail) {
  const broker::MessageView& view = detail.message;
  std::string text;
  JsonWriter out(text);
  out.open('{');
  write_ids(out, view);
  write_payload(out, view);
  write_uuid_or_null(out, "traceId", view.trace_id);
  write_text_or_null(out, "producerSub", view.producer_sub);
  out.name("createdAt").instant(view.created_at).name("partitionId").uuid(view.partition_id);
  out.name("partition").text(view.partition).name("queue").text(view.queue->name);
  out.name("queuePath").text(view.queue->name + "/" + view.partition);
  write_queue_labels(out, view.queue->row);
  out.name("status").text(name_of(view.status));
  write_text_or_null(out, "errorMessage", detail.error);
  out.name("retryCount").number(detail.retry_count).name("isEncrypted").boolean(view.encrypted);
  out.name("queueConfig");
  write_queue_options(out, view.queue->row);
  write_mode(out, detail.mode);
  out.name("consumerGroups").open('[');
  for (const auto& group : detail.groups) {
    out.open('{').name("name").text(group.name).name("committed").number(group.committed);
    out.name("consumed").boolean(group.consumed).name("leaseExpiresAt");
    if (group.lease_expires_at)
      out.instant(*group.lease_expires_at);
    else
      out.null();
    out.close('}');
  }
  out.close(']').close('}');
  return text;
}

void handle_messages(const SharedContext& context, Inbound inbound) {
  Query query([&](std::string_view name) { return inbound.request.query_value(name); });
  auto parsed = parse_browse(query, context->clock.wall_us());
  if (!query.fault().empty()) return inbound.reply->send(query_fault_response(query.fault()));
  if (!parsed) return inbound.reply->send(refusal_response(parsed.error()));
  answer_from_look(context, std::move(inbound.reply),
                   [context, tenant = std::move(inbound.tenant), query = *std::move(parsed)] {
                     const auto view = context->broker.resources().messages(tenant, query);
                     return view ? json_response(200, render_messages(query, *view))
                                 : refusal_response(view.error());
                   });
}

void handle_message(const SharedContext& context, Inbound inbound) {
  const std::int64_t deadline = context->deadline_us(context->settings.default_timeout_ms);
  answer_from_look(
      context, std::move(inbound.reply),
      [context, deadline, tenant = std::move(inbound.tenant), params = std::move(inbound.request.params)] {
        const auto detail = context->broker.resources().message(tenant, params.at(0), params.at(1), deadline);
        if (!detail) return refusal_response(detail.error());
        return *detail ? json_response(200, render_message(**detail))
                       : json_response(404, R"({"error":"Message not found"})");
      });
}

}  // namespace queen::api

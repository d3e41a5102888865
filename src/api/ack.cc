// Ack: body to command, item outcomes to the answer.
#include "api/detail/ack.h"

#include "api/detail/json_check.h"
#include "api/detail/names.h"
#include "api/detail/submit.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

machine::AckStatus status_of(const JsonValue* value) {
  if (value == nullptr) return machine::AckStatus::completed;
  const std::string word = lower_ascii(string_of(*value, LoneSurrogate::replace).value_or(""));
  if (word == "failed") return machine::AckStatus::failed;
  if (word == "retry") return machine::AckStatus::retry;
  if (word == "dlq") return machine::AckStatus::dlq;
  return machine::AckStatus::completed;
}

// A string field that may be absent or null; false when it holds something else.
bool optional_string(const JsonFields& fields, std::string_view name, std::string& out) {
  const JsonValue* value = fields.find_set(name);
  if (value == nullptr) return true;
  auto text = string_of(*value, LoneSurrogate::replace);
  if (!text) return false;
  out = *std::move(text);
  return true;
}

broker::Answer<std::vector<JsonFields>> items_of(const JsonFields& top) {
  const JsonValue* list = top.find_set("acknowledgments");
  std::vector<JsonFields> out;
  if (list == nullptr) return out;
  const auto elements = elements_of(*list);
  if (!elements) return tl::unexpected(bad_body("acknowledgments must be an array"));
  out.reserve(elements->size());
  for (const JsonValue& element : *elements) {
    auto fields = JsonFields::of(element);
    if (!fields) return tl::unexpected(bad_body("an acknowledgment must be an object"));
    out.push_back(*std::move(fields));
  }
  return out;
}

}  // namespace

broker::Answer<machine::AckItem> parse_ack_item(const JsonFields& fields) {
  const auto fault = [](std::string_view name) {
    return tl::unexpected(bad_body(std::string(name) + " must be a string"));
  };
  machine::AckItem item;
  const JsonValue* id = fields.find("transactionId");
  auto text = id != nullptr ? string_of(*id) : std::nullopt;
  if (!text) return fault("transactionId");
  item.transaction_id = *std::move(text);
  const JsonValue* partition = fields.find("partitionId");
  text = partition != nullptr ? string_of(*partition) : std::nullopt;
  if (!text) return fault("partitionId");
  item.partition_id = *std::move(text);
  if (!optional_string(fields, "leaseId", item.lease_id)) return fault("leaseId");
  const JsonValue* status = fields.find_set("status");
  if (status != nullptr && status->kind != JsonKind::string) return fault("status");
  item.status = status_of(status);
  std::string error;
  if (!optional_string(fields, "error", error)) return fault("error");
  if (fields.find_set("error") != nullptr) item.error = std::move(error);
  item.hash = xxh3_128(item.transaction_id);
  return item;
}

void mint_dead_letter_ids(machine::AckCommand& command, std::int64_t wall_us, Random& random) {
  for (machine::AckItem& item : command.items)
    if (item.status != machine::AckStatus::completed) item.dlq_id = make_uuid_v7(wall_us, random);
}

broker::Answer<machine::AckCommand> parse_ack(std::string_view body) {
  const auto value = body_value(body);
  if (!value) return tl::unexpected(value.error());
  const auto top = JsonFields::of(*value);
  if (!top) return tl::unexpected(bad_body("the body must be an object"));
  machine::AckCommand command;
  std::string group;
  if (!optional_string(*top, "consumerGroup", group))
    return tl::unexpected(bad_body("consumerGroup must be a string"));
  if (!group.empty()) command.group = std::move(group);
  const auto batch = items_of(*top);
  if (!batch) return tl::unexpected(batch.error());
  if (batch->empty()) {
    auto item = parse_ack_item(*top);
    if (!item) return tl::unexpected(item.error());
    command.items.push_back(*std::move(item));
  }
  for (const JsonFields& fields : *batch) {
    auto item = parse_ack_item(fields);
    if (!item) return tl::unexpected(item.error());
    command.items.push_back(*std::move(item));
  }
  return command;
}

std::string render_ack(const std::vector<std::string>& transaction_ids, const machine::AckOutcome& outcome) {
  std::string text;
  text.reserve(2 + 192 * outcome.items.size());
  JsonWriter out(text);
  out.open('[');
  for (std::size_t i = 0; i < outcome.items.size(); ++i) {
    const machine::AckItemOutcome& item = outcome.items[i];
    out.open('{').name("index").number(i).name("transactionId").text(transaction_ids[i]);
    out.name("success").boolean(item.success).name("error");
    if (item.error.empty()) {
      out.null();
    } else {
      out.text(item.error);
    }
    out.name("leaseReleased").boolean(item.lease_released).name("dlq").boolean(item.dlq);
    out.name("noop").boolean(item.noop).close('}');
  }
  out.close(']');
  return text;
}

void handle_ack(const SharedContext& context, Inbound inbound) {
  auto parsed = parse_ack(inbound.request.body);
  if (!parsed) return inbound.reply->send(refusal_response(parsed.error()));
  if (!names_fit(inbound.tenant, {}, {}, parsed->group))
    return inbound.reply->send(refusal_response(name_too_long()));
  const std::int64_t now = context->clock.wall_us();
  mint_dead_letter_ids(*parsed, now, context->random);
  std::vector<std::string> ids;
  ids.reserve(parsed->items.size());
  for (const machine::AckItem& item : parsed->items) ids.push_back(item.transaction_id);
  machine::Command command{std::move(inbound.tenant), make_uuid_v7(now, context->random), *std::move(parsed)};
  submit_command<machine::AckOutcome>(
      context, std::move(inbound.reply), context->settings.stmt_timeout_ms, std::move(command),
      [&broker = context->broker](machine::Command ack, auto done) {
        broker.ack(std::move(ack), std::move(done));
      },
      [ids = std::move(ids)](const machine::AckOutcome& outcome) {
        return json_response(200, render_ack(ids, outcome));
      },
      refusal_response);
}

}  // namespace queen::api

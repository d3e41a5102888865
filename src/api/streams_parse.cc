// Streams: bodies to commands.
#include <algorithm>
#include <array>
#include <utility>

#include "api/detail/json_check.h"
#include "api/detail/names.h"
#include "api/detail/streams.h"
#include "store/keys.h"

namespace queen::api {
namespace {

using broker::Refusal;

// What is wrong stays; everything read after it is dropped.
class BodyReader {
 public:
  BodyReader(const JsonFields& fields, std::optional<Refusal>& refusal)
      : fields_(fields), refusal_(refusal) {}

  std::optional<std::string> text(std::string_view name) {
    const JsonValue* value = fields_.find_set(name);
    if (value == nullptr) return std::nullopt;
    auto text = string_of(*value);
    if (!text) refuse(fmt::format("{} must be a string", name));
    return text;
  }
  std::string required(std::string_view name) {
    auto value = text(name).value_or(std::string());
    if (value.empty()) refuse(fmt::format("{} is required", name));
    return value;
  }
  Uuid uuid(std::string_view name) {
    const std::string value = required(name);
    const auto id = Uuid::parse(value);
    if (!id) refuse(fmt::format("{} must be a UUID", name));
    return id.value_or(Uuid{});
  }
  bool flag(std::string_view name, bool fallback) {
    const JsonValue* value = fields_.find_set(name);
    if (value == nullptr) return fallback;
    if (value->kind != JsonKind::boolean) refuse(fmt::format("{} must be a boolean", name));
    return value->is_true();
  }
  std::optional<std::int64_t> integer(std::string_view name) {
    const JsonValue* value = fields_.find_set(name);
    if (value == nullptr) return std::nullopt;
    const auto number = integral_of(*value);
    if (!number) refuse(fmt::format("{} must be an integer", name));
    return number;
  }
  std::vector<JsonValue> list(std::string_view name) {
    const JsonValue* value = fields_.find_set(name);
    if (value == nullptr) return {};
    auto elements = elements_of(*value);
    if (!elements) refuse(fmt::format("{} must be an array", name));
    return std::move(elements).value_or(std::vector<JsonValue>{});
  }
  // Nothing for a field that is absent or holds something else than a string.
  std::optional<std::string> if_text(std::string_view name) const {
    const JsonValue* value = fields_.find_set(name);
    return value == nullptr ? std::nullopt : string_of(*value);
  }
  const JsonValue* find(std::string_view name) const { return fields_.find(name); }
  void refuse(std::string what) {
    if (!refusal_) refusal_ = bad_request(std::move(what));
  }

 private:
  const JsonFields& fields_;
  std::optional<Refusal>& refusal_;
};

broker::Answer<JsonFields> fields_of(std::string_view body) {
  const auto value = body_value(body);
  if (!value) return tl::unexpected(value.error());
  auto fields = JsonFields::of(*value);
  if (!fields) return tl::unexpected(bad_body("the body must be an object"));
  return *std::move(fields);
}

class CycleParser {
 public:
  CycleParser(std::string_view tenant, StreamsCycleBody& out) : tenant_(tenant), out_(out) {}

  std::optional<Refusal> run(const JsonFields& fields) {
    BodyReader reader(fields, refusal_);
    out_.command.query_id = reader.uuid("query_id");
    out_.partition = reader.required("partition_id");
    const std::string group = reader.text("consumer_group").value_or(std::string());
    if (!group.empty()) out_.command.group = group;
    out_.command.release_lease = reader.flag("release_lease", true);
    for (const JsonValue& op : reader.list("state_ops")) each(op, "state_ops", &CycleParser::state_op);
    for (const JsonValue& item : reader.list("push_items")) each(item, "push_items", &CycleParser::push_item);
    if (const JsonValue* ack = fields.find_set("ack")) each(*ack, "ack", &CycleParser::ack);
    if (!refusal_ && !names_fit(tenant_, {}, {}, out_.command.group)) refusal_ = name_too_long();
    return std::move(refusal_);
  }

 private:
  void each(const JsonValue& value, std::string_view name, void (CycleParser::*read)(BodyReader&)) {
    if (refusal_) return;
    const auto fields = JsonFields::of(value);
    if (!fields) {
      refusal_ = bad_request(fmt::format("{} must hold objects", name));
      return;
    }
    BodyReader reader(*fields, refusal_);
    (this->*read)(reader);
  }

  void state_op(BodyReader& op) {
    const std::string type = op.text("type").value_or("upsert");
    if (type != "upsert" && type != "delete") return op.refuse("type must be upsert or delete");
    auto key = op.if_text("key");
    if (!key) return;  // ST-16
    if (store::streams_state_key(Uuid{}, Pid{}, *key).size() > store::kKeyBytesMax) {
      refusal_ = name_too_long();
      return;
    }
    machine::StreamsStateOp& out = out_.command.state.emplace_back();
    out.key = *std::move(key);
    if (type == "delete") return;
    const JsonValue* value = op.find("value");
    out.value = value == nullptr ? "null" : std::string(value->text);
  }

  void push_item(BodyReader& from) {
    const auto queue = from.if_text("queue");
    if (!queue || queue->empty()) return;  // ST-15
    PushItem item;
    item.queue = keep(*queue);
    const std::string partition = from.text("partition").value_or(std::string());
    item.partition = partition.empty() ? kDefaultPartition : keep(partition);
    const JsonValue* payload = from.find("payload");
    if (payload == nullptr) payload = from.find("data");
    item.payload = payload == nullptr ? std::string_view("{}") : payload->text;
    item.null_payload = payload != nullptr && payload->is_null();
    if (item.null_payload) item.payload = {};
    if (const auto id = from.text("messageId")) {
      item.message_id = Uuid::parse(*id);
      if (!item.message_id) from.refuse("messageId must be a UUID");
    }
    if (const auto id = from.text("transactionId"); id && !id->empty()) {
      item.transaction_id = keep(*id);
      if (id->size() > kTransactionIdBytesMax) from.refuse("transactionId is longer than 65535 bytes");
    }
    if (!refusal_ && !names_fit(tenant_, item.queue, item.partition)) refusal_ = name_too_long();
    out_.push.items.push_back(item);
  }

  void ack(BodyReader& from) {
    constexpr std::array<std::string_view, 5> kOk = {"", "completed", "success", "acked", "ok"};
    machine::StreamsCycleCommand::Ack ack;
    ack.lease_id = from.text("leaseId").value_or(std::string());
    const std::string status = from.text("status").value_or(std::string());
    ack.completed = std::ranges::find(kOk, status) != kOk.end();
    ack.count = from.integer("count").value_or(0);
    out_.command.ack = std::move(ack);
  }

  std::string_view keep(const std::string& text) { return out_.push.arena.emplace_back(text); }

  std::string_view tenant_;
  StreamsCycleBody& out_;
  std::optional<Refusal> refusal_;
};

}  // namespace

broker::Answer<machine::StreamsRegisterCommand> parse_streams_query(std::string_view body) {
  const auto fields = fields_of(body);
  if (!fields) return tl::unexpected(fields.error());
  std::optional<Refusal> refusal;
  BodyReader reader(*fields, refusal);
  machine::StreamsRegisterCommand out;
  out.name = reader.required("name");
  out.source = reader.required("source_queue");
  out.config_hash = reader.required("config_hash");
  out.sink = reader.text("sink_queue");
  if (out.sink && out.sink->empty()) out.sink.reset();
  out.reset = reader.flag("reset", false);
  if (refusal) return tl::unexpected(*std::move(refusal));
  return out;
}

broker::Answer<StreamsStateAsk> parse_streams_state(std::string_view body) {
  const auto fields = fields_of(body);
  if (!fields) return tl::unexpected(fields.error());
  std::optional<Refusal> refusal;
  BodyReader reader(*fields, refusal);
  StreamsStateAsk out;
  out.query_id = reader.uuid("query_id");
  out.partition = reader.required("partition_id");
  for (const JsonValue& key : reader.list("keys")) {
    auto text = string_of(key);
    if (!text) reader.refuse("keys must hold strings");
    out.filter.keys.push_back(std::move(text).value_or(std::string()));
  }
  out.filter.key_prefix = reader.text("key_prefix").value_or(std::string());
  out.ripe_at_or_before = reader.integer("ripe_at_or_before");
  if (refusal) return tl::unexpected(*std::move(refusal));
  return out;
}

broker::Answer<StreamsCycleBody> parse_streams_cycle(std::string_view body, std::string_view tenant) {
  const auto fields = fields_of(body);
  if (!fields) return tl::unexpected(fields.error());
  StreamsCycleBody out;
  if (auto refusal = CycleParser(tenant, out).run(*fields)) return tl::unexpected(*std::move(refusal));
  return out;
}

}  // namespace queen::api

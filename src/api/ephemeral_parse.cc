// In-memory queues: bodies and queries to what the engine takes.
#include <algorithm>
#include <array>

#include "api/detail/ephemeral.h"
#include "api/detail/json_check.h"
#include "api/detail/names.h"

namespace queen::api {
namespace {

constexpr std::size_t kNameBytesMax = 512;
constexpr std::size_t kItemsMax = 10'000;
constexpr std::int64_t kBatchMax = 10'000;
constexpr std::int64_t kTimeoutMsMax = 300'000;

tl::unexpected<std::string> wrong(std::string what) {
  return tl::unexpected<std::string>(std::move(what));
}

EphemeralParse<JsonFields> object_of(std::string_view body) {
  const auto value = body_value(body);
  auto fields = value ? JsonFields::of(*value) : std::nullopt;
  if (!fields) return wrong("the body must be a JSON object");
  return *std::move(fields);
}

// A name that must be there.
EphemeralParse<std::string> name_of(std::string_view what, const JsonValue* value) {
  const auto text = value != nullptr ? string_of(*value) : std::nullopt;
  if (!text) return wrong(std::string(what) + " must be a string");
  if (auto fault = ephemeral_name_fault(what, *text); !fault.empty()) return wrong(std::move(fault));
  return *text;
}

// One that may be absent or null.
EphemeralParse<std::string> name_or(std::string_view what, const JsonValue* value,
                                    std::string_view otherwise) {
  if (value == nullptr) return std::string(otherwise);
  return name_of(what, value);
}

// An empty group is an absent one.
EphemeralParse<std::string> group_of(const JsonValue* value) {
  if (value != nullptr && value->text == R"("")") value = nullptr;
  return name_or("group", value, ephemeral::kSharedGroup);
}

EphemeralParse<std::vector<JsonValue>> items_of(std::string_view what, const JsonValue* value) {
  auto items = value != nullptr ? elements_of(*value) : std::nullopt;
  if (!items) return wrong(std::string(what) + " must be an array");
  if (items->size() > kItemsMax) return wrong(fmt::format("at most {} {} per call", kItemsMax, what));
  return *std::move(items);
}

ephemeral::Status status_of(const JsonValue* value) {
  if (value == nullptr) return ephemeral::Status::done;
  const std::string text = string_of(*value).value_or("");
  if (text == "completed" || text == "success" || text == "acked" || text == "ok")
    return ephemeral::Status::done;
  return text == "retry" ? ephemeral::Status::retry : ephemeral::Status::failed;
}

struct OptionName {
  std::string_view name;
  std::int64_t ephemeral::Declaration::* member;
};
constexpr std::array kOptions = {OptionName{"maxBytes", &ephemeral::Declaration::max_bytes},
                                 OptionName{"maxLength", &ephemeral::Declaration::max_length},
                                 OptionName{"ttlSeconds", &ephemeral::Declaration::ttl_seconds},
                                 OptionName{"leaseSeconds", &ephemeral::Declaration::lease_seconds},
                                 OptionName{"retryLimit", &ephemeral::Declaration::retry_limit}};
constexpr std::array kWindow = {OptionName{"ms", &ephemeral::Declaration::window_ms},
                                OptionName{"count", &ephemeral::Declaration::window_count}};
// Far beyond every bound, and far from what arithmetic of times could overflow on.
constexpr std::int64_t kOptionMax = 1LL << 40;

// Reads one integer option. False: it is not one of `known`. A fault goes to `fault`.
bool read_option(std::span<const OptionName> known, std::string_view name, const JsonValue& value,
                 ephemeral::Declaration& out, std::string& fault) {
  for (const OptionName& option : known) {
    if (option.name != name) continue;
    const auto number = integer_of(value);
    if (!number || *number < 0)
      fault = std::string(name) + " must be an integer, at least 0";
    else
      out.*option.member = std::min(*number, kOptionMax);
    return true;
  }
  return false;
}

// Calls `read(name, value)` for each field until it gives a fault; that, or "".
template <class Read>
std::string each_field(const JsonValue& object, const Read& read) {
  JsonScanner scanner(object.text);
  scanner.enter_object();
  for (JsonValue key; scanner.next_field(key);) {
    JsonValue value;
    scanner.value(value);
    const auto name = string_of(key);
    if (!name) return "a name is not text";
    if (std::string fault = read(*name, value); !fault.empty()) return fault;
  }
  return "";
}

std::string read_window(const JsonValue& value, ephemeral::Declaration& out) {
  if (value.kind != JsonKind::object) return "windowBuffer must be an object";
  return each_field(value, [&](std::string_view name, const JsonValue& one) {
    std::string fault;
    if (!read_option(kWindow, name, one, out, fault))
      fault = "unknown option windowBuffer." + std::string(name);
    return fault;
  });
}

std::string read_options(const JsonValue& value, ephemeral::Declaration& out) {
  if (value.kind != JsonKind::object) return "options must be an object";
  return each_field(value, [&](std::string_view name, const JsonValue& one) {
    std::string fault;
    if (read_option(kOptions, name, one, out, fault)) return fault;
    if (name == "windowBuffer") return read_window(one, out);
    if (name != "policy") return "unknown option " + std::string(name);
    const auto policy = string_of(one);
    if (policy != "reject" && policy != "dropOldest")
      return std::string("policy must be reject or dropOldest");
    out.policy = policy == "reject" ? ephemeral::Policy::reject : ephemeral::Policy::drop_oldest;
    return std::string();
  });
}

}  // namespace

std::string ephemeral_name_fault(std::string_view what, std::string_view name) {
  if (name.empty()) return std::string(what) + " must not be empty";
  if (name.size() > kNameBytesMax) return fmt::format("{} may have {} bytes", what, kNameBytesMax);
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::any_of(name.begin(), name.end(), control))
    return std::string(what) + " must have no control characters";
  if (!is_utf8_fast(name)) return std::string(what) + " must be UTF-8";
  return "";
}

EphemeralParse<EphemeralPush> parse_ephemeral_push(std::string_view body) {
  const auto fields = object_of(body);
  if (!fields) return wrong(fields.error());
  auto queue = name_of("queue", fields->find("queue"));
  if (!queue) return wrong(std::move(queue).error());
  auto partition = name_or("partition", fields->find_set("partition"), ephemeral::kDefaultPartition);
  if (!partition) return wrong(std::move(partition).error());
  const auto items = items_of("messages", fields->find("messages"));
  if (!items) return wrong(items.error());
  EphemeralPush out{*std::move(queue), *std::move(partition), {}};
  out.payloads.reserve(items->size());
  for (const JsonValue& item : *items) {
    const auto message = JsonFields::of(item);
    const JsonValue* payload = message ? message->find("payload") : nullptr;
    if (payload == nullptr) return wrong("a message must be an object with a payload");
    out.payloads.emplace_back(payload->text);
  }
  return out;
}

EphemeralParse<EphemeralPop> parse_ephemeral_pop(Query query, const ApiSettings& settings) {
  EphemeralPop out;
  ephemeral::PopRequest& request = out.request;
  request.name.queue = query.text("queue").value_or("");
  request.partition = query.text("partition");
  request.group = query.filled("group").value_or(std::string(ephemeral::kSharedGroup));
  request.batch =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(query.integer("batch").value_or(1), 1, kBatchMax));
  out.wait = query.boolean("wait").value_or(false);
  out.timeout_ms = std::clamp<std::int64_t>(query.integer("timeout").value_or(settings.default_timeout_ms), 0,
                                            kTimeoutMsMax);
  const bool commit = query.boolean("commitOnDelivery").value_or(false);
  request.commit = query.boolean("autoAck").value_or(false) || commit;
  if (!query.fault().empty()) return wrong(query.fault());
  const std::string_view partition = request.partition ? std::string_view(*request.partition) : "none";
  for (const auto& [what, name] : {std::pair<std::string_view, std::string_view>{"queue", request.name.queue},
                                   {"partition", partition},
                                   {"group", request.group}})
    if (auto fault = ephemeral_name_fault(what, name); !fault.empty()) return wrong(std::move(fault));
  return out;
}

EphemeralParse<EphemeralAcks> parse_ephemeral_acks(std::string_view body) {
  const auto fields = object_of(body);
  if (!fields) return wrong(fields.error());
  auto queue = name_of("queue", fields->find("queue"));
  if (!queue) return wrong(std::move(queue).error());
  auto group = group_of(fields->find_set("group"));
  if (!group) return wrong(std::move(group).error());
  const auto items = items_of("acks", fields->find("acks"));
  if (!items) return wrong(items.error());
  EphemeralAcks out{*std::move(queue), *std::move(group), {}};
  out.acks.reserve(items->size());
  for (const JsonValue& item : *items) {
    const auto ack = JsonFields::of(item);
    const JsonValue* id = ack ? ack->find("id") : nullptr;
    auto text = id != nullptr ? string_of(*id) : std::nullopt;
    if (!text) return wrong("an ack must be an object with an id");
    out.acks.push_back({*std::move(text), status_of(ack->find_set("status"))});
  }
  return out;
}

EphemeralParse<EphemeralOptions> parse_ephemeral_configure(std::string_view body) {
  const auto fields = object_of(body);
  if (!fields) return wrong(fields.error());
  auto queue = name_of("queue", fields->find("queue"));
  if (!queue) return wrong(std::move(queue).error());
  EphemeralOptions out{*std::move(queue), {}};
  std::string fault =
      each_field(*body_value(body), [&](std::string_view name, const JsonValue& value) -> std::string {
        if (name == "queue" || (name == "options" && value.is_null())) return "";
        if (name == "options") return read_options(value, out.declaration);
        return "unknown field " + std::string(name);
      });
  if (!fault.empty()) return wrong(std::move(fault));
  return out;
}

EphemeralParse<std::string> parse_ephemeral_reset(std::string_view body) {
  const auto fields = object_of(body);
  if (!fields) return wrong(fields.error());
  return name_of("queue", fields->find("queue"));
}

}  // namespace queen::api

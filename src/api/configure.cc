// Configure: options by their table, the queue's row to the answer.
#include "api/detail/configure.h"

#include <algorithm>
#include <array>
#include <limits>

#include "api/detail/json_check.h"
#include "api/detail/names.h"
#include "api/detail/queue_json.h"
#include "api/detail/submit.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

constexpr std::int64_t kInt32Min = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

enum class Beyond : bool { refuse, clamp };  // what to do with a value outside the option's own range
struct IntegerOption {
  std::string_view name;
  std::string_view stored_as;
  std::int64_t min = kInt32Min;
  std::int64_t max = kInt32Max;
  Beyond beyond = Beyond::refuse;
};
// `maxQueueSize` is an older name of `maxSize`: one stored number, shown under both.
constexpr std::array kIntegers = {
    IntegerOption{"leaseTime", "leaseTime"},
    IntegerOption{"retryLimit", "retryLimit"},
    IntegerOption{"dedupWindowSeconds", "dedupWindowSeconds"},
    IntegerOption{"delayedProcessing", "delayedProcessing"},
    IntegerOption{"windowBuffer", "windowBuffer"},
    IntegerOption{"windowBufferMaxSeconds", "windowBufferMaxSeconds"},
    IntegerOption{"retentionSeconds", "retentionSeconds"},
    IntegerOption{"completedRetentionSeconds", "completedRetentionSeconds"},
    IntegerOption{"maxWaitTimeSeconds", "maxWaitTimeSeconds"},
    IntegerOption{"retentionSinkHoldMaxSeconds", "retentionSinkHoldMaxSeconds", 60, 31'536'000},
    IntegerOption{"priority", "priority"},
    IntegerOption{"retryDelay", "retryDelay"},
    IntegerOption{"ttl", "ttl"},
    IntegerOption{"maxQueueSize", "maxSize"},
    IntegerOption{"maxSize", "maxSize"},
    IntegerOption{"minPopWaitTime", "minPopWaitTime", 0, 60'000, Beyond::clamp},
};
constexpr std::array<std::string_view, 4> kBooleans = {"deadLetterQueue", "dlqAfterMaxRetries",
                                                       "retentionEnabled", "encryptionEnabled"};
constexpr std::array<std::string_view, 3> kTexts = {"namespace", "task", "retentionSinkHold"};
constexpr std::size_t kSinkNameBytesMax = 64;

bool is_sink_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return name.size() <= kSinkNameBytesMax && std::all_of(name.begin(), name.end(), allowed);
}

using Fault = std::optional<broker::Refusal>;

Fault read_integer(const IntegerOption& option, const JsonValue& value, machine::ConfigureCommand& out) {
  auto& slot = out.integers[std::string(option.stored_as)];
  slot = std::nullopt;
  if (value.is_null()) return std::nullopt;
  const auto number = integer_of(value);
  if (!number || *number < kInt32Min || *number > kInt32Max)
    return bad_request(fmt::format("{} must be an integer within 32 bits", option.name));
  const std::int64_t kept = std::clamp(*number, option.min, option.max);
  if (kept != *number && option.beyond == Beyond::refuse)
    return bad_request(fmt::format("{} must be within {}..{}", option.name, option.min, option.max));
  slot = kept;
  return std::nullopt;
}

Fault read_boolean(std::string_view name, const JsonValue& value, machine::ConfigureCommand& out) {
  auto& slot = out.integers[std::string(name)];
  slot = std::nullopt;
  if (value.is_null()) return std::nullopt;
  if (value.kind != JsonKind::boolean) return bad_request(fmt::format("{} must be true or false", name));
  slot = value.is_true() ? 1 : 0;
  return std::nullopt;
}

Fault read_text(std::string_view name, const JsonValue& value, machine::ConfigureCommand& out) {
  auto& slot = out.texts[std::string(name)];
  slot = std::nullopt;
  if (value.is_null()) return std::nullopt;
  auto text = string_of(value);
  if (!text) return bad_request(fmt::format("{} must be a string", name));
  if (name == "retentionSinkHold" && !is_sink_name(*text))
    return bad_request("retentionSinkHold must be at most 64 characters of A-Z a-z 0-9 . _ -");
  slot = std::move(text);
  return std::nullopt;
}

Fault read_options(const JsonFields& options, machine::ConfigureCommand& out) {
  for (const IntegerOption& option : kIntegers) {
    const JsonValue* value = options.find(option.name);
    if (value == nullptr) continue;
    if (auto fault = read_integer(option, *value, out)) return fault;
  }
  for (const std::string_view name : kBooleans) {
    const JsonValue* value = options.find(name);
    if (value == nullptr) continue;
    if (auto fault = read_boolean(name, *value, out)) return fault;
  }
  for (const std::string_view name : kTexts) {
    const JsonValue* value = options.find(name);
    if (value == nullptr) continue;
    if (auto fault = read_text(name, *value, out)) return fault;
  }
  return std::nullopt;
}

// Labels beside `queue` count when they are filled; inside `options` they win.
Fault read_top_label(const JsonFields& top, std::string_view name, machine::ConfigureCommand& out) {
  const JsonValue* value = top.find_set(name);
  if (value == nullptr) return std::nullopt;
  auto text = string_of(*value);
  if (!text) return bad_request(fmt::format("{} must be a string", name));
  if (!text->empty()) out.texts[std::string(name)] = std::move(text);
  return std::nullopt;
}

Fault read_mode(const JsonFields& top, machine::ConfigureCommand& out) {
  const JsonValue* mode = top.find_set("mode");
  if (mode == nullptr) return std::nullopt;
  const auto word = string_of(*mode);
  out.replace = word == "replace";
  if (out.replace || word == "merge") return std::nullopt;
  return bad_request("mode must be merge or replace");
}

Fault read_queue(const JsonFields& top, std::string_view tenant, machine::ConfigureCommand& out) {
  const JsonValue* queue = top.find("queue");
  auto name = queue != nullptr ? string_of(*queue) : std::nullopt;
  if (!name || name->empty()) return bad_request("queue must be a string that is not empty");
  if (!names_fit(tenant, *name, {})) return name_too_long();
  out.queue = *std::move(name);
  return std::nullopt;
}

Fault read_command(const JsonFields& top, std::string_view tenant, machine::ConfigureCommand& out) {
  if (auto fault = read_queue(top, tenant, out)) return fault;
  if (auto fault = read_mode(top, out)) return fault;
  const JsonValue* options = top.find_set("options");
  if (options != nullptr && options->kind != JsonKind::object)
    return bad_request("options must be an object");
  if (options == nullptr) {
    if (auto fault = read_options(top, out)) return fault;
    // Beside `queue` an empty or null label says nothing.
    out.texts.erase("namespace");
    out.texts.erase("task");
  }
  for (const std::string_view name : {"namespace", "task"})
    if (auto fault = read_top_label(top, name, out)) return fault;
  if (options == nullptr) return std::nullopt;
  const auto fields = JsonFields::of(*options);
  if (!fields) return bad_body("an option's name has a lone surrogate");
  return read_options(*fields, out);
}

}  // namespace

broker::Answer<machine::ConfigureCommand> parse_configure(std::string_view body, std::string_view tenant) {
  const auto value = body_value(body);
  if (!value) return tl::unexpected(value.error());
  const auto top = JsonFields::of(*value);
  if (!top) return tl::unexpected(bad_body("the body must be an object"));
  machine::ConfigureCommand out;
  if (auto fault = read_command(*top, tenant, out)) return tl::unexpected(*std::move(fault));
  return out;
}

void write_queue_labels(JsonWriter& out, const store::QueueRow& row) {
  const auto label = [&out](std::string_view name, const std::optional<std::string>& value) {
    out.name(name);
    if (value) {
      out.text(*value);
    } else {
      out.null();
    }
  };
  label("namespace", row.namespace_name);
  label("task", row.task);
}

void write_queue_options(JsonWriter& out, const store::QueueRow& row) {
  constexpr std::int32_t kSinkHoldSecondsDefault = 604'800;
  const std::int32_t hold = row.retention_sink_hold_max_seconds;
  out.open('{').name("priority").number(row.priority).name("leaseTime").number(row.lease_time);
  out.name("retryLimit").number(row.retry_limit).name("retryDelay").number(row.retry_delay);
  out.name("maxSize").number(row.max_queue_size).name("maxQueueSize").number(row.max_queue_size);
  out.name("ttl").number(row.ttl).name("deadLetterQueue").boolean(row.dead_letter_queue);
  out.name("dlqAfterMaxRetries").boolean(row.dlq_after_max_retries);
  out.name("delayedProcessing").number(row.delayed_processing).name("windowBuffer").number(row.window_buffer);
  out.name("windowBufferMaxSeconds").number(row.window_buffer_max_seconds);
  out.name("retentionSeconds").number(row.retention_seconds);
  out.name("completedRetentionSeconds").number(row.completed_retention_seconds);
  out.name("retentionEnabled").boolean(row.retention_enabled);
  out.name("encryptionEnabled").boolean(row.encryption_enabled);
  out.name("maxWaitTimeSeconds").number(row.max_wait_time_seconds);
  out.name("minPopWaitTime").number(row.min_pop_wait_time);
  out.name("dedupWindowSeconds").number(row.dedup_window_seconds);
  out.name("retentionSinkHold").text(row.retention_sink_hold);
  out.name("retentionSinkHoldMaxSeconds").number(hold == 0 ? kSinkHoldSecondsDefault : hold).close('}');
}

std::string render_configure(std::string_view queue, const store::QueueRow& row) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("configured").boolean(true).name("queueId").uuid(row.uuid);
  out.name("partitionId").null().name("queue").text(queue);
  write_queue_labels(out, row);
  out.name("storage").text("segments").name("options");
  write_queue_options(out, row);
  out.close('}');
  return text;
}

void handle_configure(const SharedContext& context, Inbound inbound) {
  auto parsed = parse_configure(inbound.request.body, inbound.tenant);
  if (!parsed) return inbound.reply->send(refusal_response(parsed.error()));
  const std::int64_t now = context->clock.wall_us();
  parsed->queue_uuid = make_uuid_v7(now, context->random);
  std::string queue = parsed->queue;
  machine::Command command{std::move(inbound.tenant), make_uuid_v7(now, context->random), *std::move(parsed)};
  submit_command<machine::ConfigureOutcome>(
      context, std::move(inbound.reply), context->settings.default_timeout_ms, std::move(command),
      [&broker = context->broker](machine::Command configure, auto done) {
        broker.submit(std::move(configure), std::move(done));
      },
      [queue = std::move(queue)](const machine::ConfigureOutcome& outcome) {
        return json_response(200, render_configure(queue, outcome.row));
      },
      refusal_response);
}

}  // namespace queen::api

// Offsets by time: body to entries, offsets to the answer.
#include "api/detail/offsets.h"

#include <limits>

#include "api/detail/fetch.h"
#include "api/detail/json_check.h"
#include "api/detail/names.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

constexpr std::int64_t kMicrosPerMilli = 1000;
constexpr std::int64_t kMillisMax = std::numeric_limits<std::int64_t>::max() / kMicrosPerMilli;

// Epoch milliseconds, or ISO-8601 read to the millisecond; nothing for anything else.
std::optional<std::int64_t> instant_of(const JsonValue& value) {
  if (value.kind == JsonKind::number) {
    const auto millis = integer_of(value);
    if (!millis || *millis < 0 || *millis > kMillisMax) return std::nullopt;
    return *millis * kMicrosPerMilli;
  }
  const auto text = string_of(value);
  const auto micros = text ? parse_iso_micros(*text) : std::nullopt;
  if (!micros) return std::nullopt;
  // The remainder is taken so that instants before 1970 are rounded down, too.
  return *micros - (*micros % kMicrosPerMilli + kMicrosPerMilli) % kMicrosPerMilli;
}

broker::Answer<broker::OffsetEntry> parse_entry(const JsonValue& value) {
  const auto fields = JsonFields::of(value);
  if (!fields) return tl::unexpected(bad_body("an entry must be an object"));
  broker::OffsetEntry entry;
  const JsonValue* queue = fields->find("queue");
  auto name = queue != nullptr ? string_of(*queue) : std::nullopt;
  if (!name) return tl::unexpected(bad_body("queue must be a string"));
  entry.queue = *std::move(name);
  name = partition_of(*fields);
  if (!name) return tl::unexpected(bad_body("partition must be a string or a number"));
  entry.partition = *std::move(name);
  const JsonValue* timestamp = fields->find("timestamp");
  const auto since = timestamp != nullptr ? instant_of(*timestamp) : std::nullopt;
  if (!since)
    return tl::unexpected(bad_body("timestamp must be epoch milliseconds from 0, or an ISO-8601 instant"));
  entry.since_us = *since;
  return entry;
}

void write_entry(JsonWriter& out, const broker::OffsetEntry& entry, const broker::OffsetEntryAnswer& answer) {
  out.open('{').name("queue").text(entry.queue).name("partition").text(entry.partition);
  if (!answer.error.empty()) out.name("error").text(answer.error);
  if (answer.offset) {
    out.name("offset").number(*answer.offset).name("ts").instant(answer.ts_us);
  } else {
    out.name("offset").null().name("ts").null();
  }
  out.name("highWatermark").number(answer.high_watermark);
  out.name("logStartOffset").number(answer.log_start).close('}');
}

}  // namespace

broker::Answer<std::vector<broker::OffsetEntry>> parse_offsets(std::string_view body) {
  const auto value = body_value(body);
  if (!value) return tl::unexpected(value.error());
  const auto top = JsonFields::of(*value);
  if (!top) return tl::unexpected(bad_body("the body must be an object"));
  std::vector<broker::OffsetEntry> out;
  const JsonValue* entries = top->find_set("entries");
  if (entries == nullptr) return out;
  const auto elements = elements_of(*entries);
  if (!elements) return tl::unexpected(bad_body("entries must be an array"));
  if (elements->size() > kReadEntriesMax) return tl::unexpected(bad_body("too many entries"));
  for (const JsonValue& element : *elements) {
    auto entry = parse_entry(element);
    if (!entry) return tl::unexpected(entry.error());
    out.push_back(*std::move(entry));
  }
  return out;
}

std::string render_offsets(const std::vector<broker::OffsetEntry>& entries,
                           const std::vector<broker::OffsetEntryAnswer>& answers) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("entries").open('[');
  for (std::size_t i = 0; i < answers.size(); ++i) write_entry(out, entries[i], answers[i]);
  out.close(']').close('}');
  return text;
}

void handle_fetch_offsets(const SharedContext& context, Inbound inbound) {
  auto parsed = parse_offsets(inbound.request.body);
  if (!parsed) return inbound.reply->send(refusal_response(parsed.error()));
  // The logs' index may have to be read from the disk.
  context->broker.run([context, tenant = std::move(inbound.tenant), entries = *std::move(parsed),
                       reply = std::move(inbound.reply)] {
    const auto answers = context->broker.offsets(tenant, entries);
    reply->send(answers ? json_response(200, render_offsets(entries, *answers))
                        : refusal_response(answers.error()));
  });
}

}  // namespace queen::api

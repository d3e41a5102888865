// Offsets by time: body to entries, offsets to the answer.
#include "api/detail/offsets.h"

#include <limits>

#include "api/detail/fetch.h"
#include "api/detail/read_entries.h"
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

std::optional<broker::Refusal> read_entry(const JsonFields& fields, broker::OffsetEntry& entry) {
  auto partition = partition_of(fields);
  if (!partition) return bad_body("partition must be a string or a number");
  entry.partition = *std::move(partition);
  const JsonValue* timestamp = fields.find("timestamp");
  const auto since = timestamp != nullptr ? instant_of(*timestamp) : std::nullopt;
  if (!since) return bad_body("timestamp must be epoch milliseconds from 0, or an ISO-8601 instant");
  entry.since_us = *since;
  return std::nullopt;
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
  const auto top = body_fields(body);
  if (!top) return tl::unexpected(top.error());
  return read_entries_of<broker::OffsetEntry>(*top, read_entry);
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

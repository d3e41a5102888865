// Which partitions of a queue were written to: body to entries, pages to the answer.
#include "api/detail/changed.h"

#include <algorithm>

#include "api/detail/read_entries.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

constexpr std::int64_t kPageMax = 1000;
// Stands for a cursor that is no string: the broker issued none like it, and says BAD_CURSOR at its place in
// the order.
constexpr std::string_view kForeignCursor{"\0", 1};

std::optional<broker::Refusal> read_entry(const JsonFields& fields, broker::ChangedEntry& entry) {
  if (const JsonValue* since = fields.find_set("since")) {
    const auto text = string_of(*since);
    entry.since_us = text ? parse_iso_micros(*text) : std::nullopt;
    if (!entry.since_us) return bad_body("since must be a timestamp");
  }
  if (const JsonValue* limit = fields.find_set("limit")) {
    const auto count = integer_of(*limit);
    if (!count) return bad_body("limit must be an integer");
    entry.limit = static_cast<std::uint32_t>(std::clamp<std::int64_t>(*count, 1, kPageMax));
  }
  if (const JsonValue* after = fields.find_set("after"))
    entry.after = string_of(*after).value_or(std::string(kForeignCursor));
  return std::nullopt;
}

void write_page(JsonWriter& out, const broker::ChangedEntryAnswer& page) {
  out.name("partitions").open('[');
  for (const broker::ChangedPartition& partition : page.partitions) {
    out.open('{').name("name").text(partition.name).name("id").uuid(partition.id);
    out.name("lastOffset").number(partition.last_offset).name("logStart").number(partition.log_start);
    out.name("lastWriteAt").instant(partition.last_write_at).close('}');
  }
  out.close(']').name("next");
  if (page.next) {
    out.text(*page.next);
  } else {
    out.null();
  }
}

}  // namespace

broker::Answer<std::vector<broker::ChangedEntry>> parse_changed(std::string_view body) {
  const auto top = body_fields(body);
  if (!top) return tl::unexpected(top.error());
  return read_entries_of<broker::ChangedEntry>(*top, read_entry);
}

std::string render_changed(const std::vector<broker::ChangedEntry>& entries,
                           const broker::ChangedAnswer& answer) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("safeTime").instant(answer.safe_time_us).name("safeTimeDegraded").boolean(false);
  out.name("entries").open('[');
  for (std::size_t i = 0; i < answer.entries.size(); ++i) {
    out.open('{').name("queue").text(entries[i].queue);
    if (answer.entries[i].error.empty()) {
      write_page(out, answer.entries[i]);
    } else {
      out.name("error").text(answer.entries[i].error);
    }
    out.close('}');
  }
  out.close(']').close('}');
  return text;
}

void handle_changed(const SharedContext& context, Inbound inbound) {
  const auto parsed = parse_changed(inbound.request.body);
  if (!parsed) return inbound.reply->send(refusal_response(parsed.error()));
  const broker::ChangedAnswer answer = context->broker.changed(inbound.tenant, *parsed);
  inbound.reply->send(json_response(200, render_changed(*parsed, answer)));
}

}  // namespace queen::api

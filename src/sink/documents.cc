#include "sink/documents.h"

#include <fmt/format.h>

#include "base/text.h"
#include "sink/detail/json_fields.h"

namespace queen::sink {
namespace {

std::int64_t committed_end(detail::JsonFields& fields) {
  const auto raw = fields.raw("tEnd");
  std::string_view text;
  if (!raw || raw->get(text) != simdjson::SUCCESS) return fields.integer("tEnd");
  const auto us = parse_iso_micros_strict(text);
  if (!us) fields.fail("has a tEnd that is no UTC time");
  return us.value_or(0);
}

}  // namespace

Intent make_intent(const WindowBounds& bounds, const WindowFormat& format, std::string writer) {
  return Intent{bounds, std::string(lake::name_of(format.kind.format)),
                std::string(lake::name_of(format.kind.codec)), std::string(name_of(format.layout)),
                std::move(writer)};
}

Result<WindowFormat> format_of(const Intent& intent) {
  const auto refuse = [](std::string_view field, const std::string& value) {
    return Error{Errc::invalid, fmt::format("this build cannot write {} {}", field, json_string(value))};
  };
  const auto format = lake::parse_format(intent.format);
  if (!format) return refuse("format", intent.format);
  const auto codec = lake::parse_codec(intent.compression);
  if (!codec || !lake::can_write({*format, *codec})) return refuse("compression", intent.compression);
  const auto layout = parse_layout(intent.layout);
  if (!layout) return refuse("layout", intent.layout);
  return WindowFormat{{*format, *codec}, *layout};
}

std::string encode(const LeaseRow& row) {
  return fmt::format(R"({{"instance": {}, "incarnation": {}, "sinceMs": {}}})", json_string(row.instance),
                     json_string(row.incarnation), row.since_ms);
}

std::string encode(const Intent& intent) {
  return fmt::format(
      R"({{"k": {}, "tStart": {}, "tEnd": {}, "format": {}, "compression": {}, "layout": {}, "writer": {}}})",
      intent.bounds.k, intent.bounds.t_start, intent.bounds.t_end, json_string(intent.format),
      json_string(intent.compression), json_string(intent.layout), json_string(intent.writer));
}

std::string encode(const Committed& committed) {
  return fmt::format(
      R"({{"k": {}, "tEnd": "{}", "manifest": {}, "records": {}, "bytes": {}, "committedAtMs": {}}})",
      committed.k, iso_micros(committed.t_end), json_string(committed.manifest), committed.records,
      committed.bytes, committed.committed_at_ms);
}

Result<LeaseRow> parse_lease_row(std::string_view json) {
  simdjson::dom::parser parser;
  auto document = detail::parse_json(parser, json, "the lease row");
  if (!document) return std::move(document).error();
  detail::JsonFields fields("the lease row", *document);
  LeaseRow row{fields.text("instance"), fields.text("incarnation"), fields.integer("sinceMs")};
  if (auto status = fields.status(); !status) return std::move(status).error();
  return row;
}

Result<Intent> parse_intent(std::string_view json) {
  simdjson::dom::parser parser;
  auto document = detail::parse_json(parser, json, "the intent");
  if (!document) return std::move(document).error();
  detail::JsonFields fields("the intent", *document);
  Intent intent;
  intent.bounds = {fields.count("k"), fields.integer("tStart"), fields.integer("tEnd")};
  intent.format = fields.text("format");
  intent.compression = fields.text("compression");
  intent.layout = fields.text("layout");
  intent.writer = fields.text("writer");
  if (intent.bounds.k == 0 || intent.bounds.t_start >= intent.bounds.t_end)
    fields.fail("names no window: k starts at 1 and tStart lies below tEnd");
  if (auto status = fields.status(); !status) return std::move(status).error();
  return intent;
}

Result<Committed> parse_committed(std::string_view json) {
  simdjson::dom::parser parser;
  auto document = detail::parse_json(parser, json, "the commit pointer");
  if (!document) return std::move(document).error();
  detail::JsonFields fields("the commit pointer", *document);
  Committed committed;
  committed.k = fields.count("k");
  committed.t_end = committed_end(fields);
  committed.manifest = fields.text("manifest");
  committed.records = fields.count("records");
  committed.bytes = fields.count("bytes");
  committed.committed_at_ms = fields.integer("committedAtMs");
  if (committed.k == 0) fields.fail("has k 0, but windows are numbered from 1");
  if (auto status = fields.status(); !status) return std::move(status).error();
  return committed;
}

}  // namespace queen::sink

// What the reads by offset have in common: a body with `entries`, each of which names a queue.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/detail/json_check.h"
#include "api/detail/names.h"
#include "broker/broker.h"

namespace queen::api {

inline constexpr std::size_t kReadEntriesMax = 1024;

// The fields of the body; it must be an object. Errors: bad_body.
inline broker::Answer<JsonFields> body_fields(std::string_view body) {
  const auto value = body_value(body);
  if (!value) return tl::unexpected(value.error());
  auto top = JsonFields::of(*value);
  if (!top) return tl::unexpected(bad_body("the body must be an object"));
  return *std::move(top);
}

// `entries` of the body, each read by `read(fields, entry)`, which gives a refusal or nothing; none when the
// body has none. Errors: bad_body.
template <class Entry, class Read>
broker::Answer<std::vector<Entry>> read_entries_of(const JsonFields& top, Read read) {
  std::vector<Entry> out;
  const JsonValue* entries = top.find_set("entries");
  if (entries == nullptr) return out;
  const auto elements = elements_of(*entries);
  if (!elements) return tl::unexpected(bad_body("entries must be an array"));
  if (elements->size() > kReadEntriesMax) return tl::unexpected(bad_body("too many entries"));
  for (const JsonValue& element : *elements) {
    const auto fields = JsonFields::of(element);
    if (!fields) return tl::unexpected(bad_body("an entry must be an object"));
    const JsonValue* queue = fields->find("queue");
    auto name = queue != nullptr ? string_of(*queue) : std::nullopt;
    if (!name) return tl::unexpected(bad_body("queue must be a string"));
    Entry entry;
    entry.queue = *std::move(name);
    if (auto refusal = read(*fields, entry)) return tl::unexpected(*std::move(refusal));
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace queen::api

// What the paged lists share: `limit` and `offset` of the query, `pagination` of the answer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "api/detail/query.h"
#include "api/json_writer.h"
#include "broker/page_range.h"

namespace queen::api {

// `limit` within 1..1000, `offset` from 0; what does not parse is the query's fault().
inline broker::PageRange page_of(Query& query, std::int64_t limit_default) {
  constexpr std::int64_t kLimitMax = 1000;
  constexpr std::int64_t kOffsetMax = std::numeric_limits<std::int64_t>::max() / 2;
  broker::PageRange range;
  range.limit = static_cast<std::size_t>(
      std::clamp<std::int64_t>(query.integer("limit").value_or(limit_default), 1, kLimitMax));
  range.offset =
      static_cast<std::size_t>(std::clamp<std::int64_t>(query.integer("offset").value_or(0), 0, kOffsetMax));
  return range;
}

inline void write_total(JsonWriter& out, std::uint64_t total, const broker::PageRange& range) {
  out.name("total").number(total).name("pagination").open('{');
  out.name("limit").number(range.limit).name("offset").number(range.offset).close('}');
}

inline Query query_of(const http::Request& request) {
  return Query([&request](std::string_view name) { return request.query_value(name); });
}

}  // namespace queen::api

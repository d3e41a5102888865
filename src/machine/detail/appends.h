// A walk over the appends of a partition: those whose rows left RAM as the command's facts have them, the
// rest as rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "machine/cold.h"
#include "machine/detail/lookup.h"

namespace queen::machine::detail {

struct SeenAppend {
  std::int64_t base = 0, end = 0;  // offsets, both inclusive
  std::int64_t created_at = 0;
  std::uint64_t raw_bytes = 0;
  BytesView hashes;  // 16 per message; empty when the log's record cannot be read

  Hash128 hash(std::int64_t offset) const {
    Hash128 out;
    std::copy_n(hashes.data() + (offset - base) * 16, 16, reinterpret_cast<char*>(out.canonical.data()));
    return out;
  }
};

// Visits the appends that hold offsets of [from, to], ascending, until `visit` gives false.
template <class Visit>
void each_append(const View& view, const ColdFacts& facts, Pid pid, std::int64_t from, std::int64_t to,
                 const Visit& visit) {
  if (from > to) return;
  std::int64_t next = from;
  for (auto at = facts.at(pid, from); at != facts.appends.end() && at->first.pid == pid; ++at) {
    const ColdAppend& append = at->second;
    if (at->first.base > to) return;
    if (!visit(SeenAppend{at->first.base, append.end, append.created_at, append.raw_bytes, append.hashes}))
      return;
    next = append.end + 1;
  }
  if (next > to) return;
  const auto start = append_at(view, pid, next);
  const Bytes first = store::txns_key(pid, start ? start->base : next);
  view.scan(Keyspace::txns, store::txns_prefix(pid), first, [&](BytesView key, BytesView value) {
    const std::int64_t base = store::parse_txns_key(key)->base_offset;
    if (base > to) return false;
    const auto row = must(store::AppendRowView::decode(value));
    return visit(SeenAppend{base, row.end, row.created_at, row.retained_bytes.value_or(0), row.hashes});
  });
}

}  // namespace queen::machine::detail

#include "broker/kv_reads.h"

#include <algorithm>

#include "base/invariant.h"
#include "broker/store_steps.h"
#include "machine/apply.h"
#include "store/keys.h"

namespace queen::broker {
namespace {

using store::Keyspace;

constexpr std::size_t kPageValueBytesMax = 4ULL << 20;

std::int64_t greatest_stamp(const store::Store& store) {
  const auto gate = store.read_gate();
  return machine::safe_time_us(store);
}

}  // namespace

std::vector<KvNamespace> KvReads::namespaces(const std::string& tenant) const {
  std::vector<KvNamespace> out;
  each_row(store_, Keyspace::kv, store::kv_prefix(tenant), [&](BytesView key, BytesView) {
    auto name = store::parse_kv_key(key);
    INVARIANT(name.has_value(), "a kv row has a broken key");
    if (out.empty() || out.back().name != name->ns) out.push_back({std::move(name->ns), 0});
    ++out.back().keys;
    return true;
  });
  return out;
}

KvListPage KvReads::list(const std::string& tenant, const KvListQuery& query, std::int64_t wall_us) const {
  KvListPage out;
  const Bytes ns = store::kv_prefix(tenant, query.ns);
  const std::int64_t now = std::max(wall_us, greatest_stamp(store_));
  RowWalk walk(store_, Keyspace::kv, ns + query.prefix, kRowsPerStep);
  // The first key above `after` is `after` with a zero byte.
  if (!query.after.empty() && query.after >= query.prefix) walk.start_at(ns + query.after + '\0');
  while (walk.step([&](BytesView key, BytesView value) {
    auto row = decode_row<store::KvRow>(value);
    const bool expired = !row.live_at(now);
    if (expired && !query.include_expired) return true;
    out.truncated = out.rows.size() == query.limit || out.bytes >= kPageValueBytesMax;
    if (out.truncated) return false;
    if (!query.values) row.value.clear();
    out.rows.push_back({Bytes(key.substr(ns.size())), std::move(row), expired});
    out.bytes += out.rows.back().key.size() + out.rows.back().row.value.size();
    return true;
  })) {
  }
  return out;
}

}  // namespace queen::broker

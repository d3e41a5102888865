#include "broker/streams_reads.h"

#include <algorithm>

#include "broker/partition_lookup.h"
#include "broker/store_steps.h"

namespace queen::broker {
namespace {

using store::Keyspace;

}  // namespace

// With a read gate held.
bool StreamsReads::there(const std::string& tenant, const Uuid& query, Pid pid) const {
  if (!store_.get(Keyspace::streams_queries, store::streams_query_key(tenant, query))) return false;
  const auto partition = store_.get(Keyspace::partitions, store::partition_key(pid));
  return partition && decode_row<store::PartitionRow>(*partition).tenant == tenant;
}

std::optional<Pid> StreamsReads::place(const std::string& tenant, const Uuid& query,
                                       std::string_view text) const {
  const auto pid = find_partition(store_, tenant, text);
  if (!pid) return std::nullopt;
  const auto gate = store_.read_gate();
  return there(tenant, query, *pid) ? pid : std::nullopt;
}

std::optional<std::vector<StreamsState>> StreamsReads::state(const std::string& tenant, const Uuid& query,
                                                             Pid pid,
                                                             const StreamsStateFilter& filter) const {
  std::vector<std::string> keys = filter.keys;
  std::erase_if(keys, [&](const std::string& key) { return !key.starts_with(filter.key_prefix); });
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());

  std::vector<StreamsState> out;
  const auto gate = store_.read_gate();
  if (!there(tenant, query, pid)) return std::nullopt;
  if (!filter.keys.empty()) {
    for (std::string& key : keys)
      if (const auto row = store_.get(Keyspace::streams_state, store::streams_state_key(query, pid, key)))
        out.push_back({std::move(key), decode_row<store::StreamsStateRow>(*row)});
    return out;
  }
  // A name in a key is its bytes, escaped, and then its end: two bytes.
  Bytes start = store::streams_state_key(query, pid, filter.key_prefix);
  start.resize(start.size() - 2);
  store_.scan(Keyspace::streams_state, start, {}, [&](BytesView key, BytesView value) {
    auto name = store::parse_streams_state_key(key);
    INVARIANT(name.has_value(), "a key of streams_state is damaged");
    out.push_back({std::move(name->key), decode_row<store::StreamsStateRow>(value)});
    return true;
  });
  return out;
}

}  // namespace queen::broker

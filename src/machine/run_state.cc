// What the effects of streams, flags, quotas and in-memory queues do to the rows.
#include <vector>

#include "machine/detail/run.h"

namespace queen::machine::detail {

Status run(const Where& at, const StreamsQueryUpsert& effect) {
  const Bytes key = store::streams_query_key(effect.tenant, effect.id);
  const auto old = read_row<store::StreamsQueryRow>(at.view, Keyspace::streams_queries, key);
  if (!old) return old.error();
  at.view.put(Keyspace::streams_queries, key, effect.row.encode());
  if (!*old || (*old)->config_hash == effect.row.config_hash) return {};
  std::vector<Bytes> state;
  at.view.scan(Keyspace::streams_state, store::streams_state_prefix(effect.id), {},
               [&](BytesView state_key, BytesView) {
                 state.emplace_back(state_key);
                 return true;
               });
  for (const Bytes& one : state) at.view.erase(Keyspace::streams_state, one);
  return {};
}

Status run(const Where& at, const StreamsStatePut& effect) {
  at.view.put(Keyspace::streams_state, store::streams_state_key(effect.id, effect.pid, effect.key),
              effect.row.encode());
  return {};
}

Status run(const Where& at, const StreamsStateDelete& effect) {
  at.view.erase(Keyspace::streams_state, store::streams_state_key(effect.id, effect.pid, effect.key));
  return {};
}

Status run(const Where& at, const FlagSet& effect) {
  const Bytes key = store::flag_key(effect.name);
  if (effect.value)
    at.view.put(Keyspace::flags, key, store::encode_bytes_row(*effect.value));
  else
    at.view.erase(Keyspace::flags, key);
  return {};
}

Status run(const Where& at, const QuotaSet& effect) {
  const Bytes key = store::quota_key(effect.kind, effect.tenant);
  if (effect.row)
    at.view.put(Keyspace::quotas, key, effect.row->encode());
  else
    at.view.erase(Keyspace::quotas, key);
  return {};
}

Status run(const Where& at, const EphemeralConfigSet& effect) {
  at.view.put(Keyspace::eph_config, store::eph_config_key(effect.tenant, effect.queue), effect.row.encode());
  return {};
}

Status run(const Where& at, const EphemeralConfigDelete& effect) {
  at.view.erase(Keyspace::eph_config, store::eph_config_key(effect.tenant, effect.queue));
  return {};
}

}  // namespace queen::machine::detail

// What trace effects do to the rows: an event, a row for each of its names, and one for its age.
#include "machine/detail/run.h"

namespace queen::machine::detail {
namespace {

// Behind the last one of the message that is still there, so that order is kept when the older ones went.
Result<std::uint64_t> next_sequence(const View& view, const TraceAppend& effect) {
  constexpr std::uint64_t kLast = ~0ULL;
  const auto last = view.last_at_or_below(
      Keyspace::traces, store::traces_prefix(effect.tenant, effect.pid, effect.transaction_id),
      store::trace_key(effect.tenant, effect.pid, effect.transaction_id, kLast));
  if (!last) return std::uint64_t{0};
  const auto key = store::parse_trace_key(last->key);
  if (!key) return fatal("a trace has a broken key");
  return key->sequence + 1;
}

struct Expired {
  Bytes expiry_key;
  store::TraceExpiryKey at;
  Bytes trace_key;
};

Result<std::vector<Expired>> expired_before(const View& view, const TraceExpire& effect) {
  std::vector<Expired> out;
  bool broken = false;
  view.scan(Keyspace::trace_expiry, {}, {}, [&](BytesView key, BytesView value) {
    const auto at = store::parse_trace_expiry_key(key);
    auto trace = store::decode_bytes_row(value);
    broken = !at || !trace;
    if (broken || at->created_at >= effect.cutoff) return false;
    out.push_back({Bytes(key), *at, std::move(*trace)});
    return out.size() < effect.limit;
  });
  if (broken) return fatal("a trace_expiry row is damaged");
  return out;
}

}  // namespace

Status run(const Where& at, const TraceAppend& effect) {
  const auto sequence = next_sequence(at.view, effect);
  if (!sequence) return sequence.error();
  const store::TraceRow& row = effect.row;
  const Bytes key = store::trace_key(effect.tenant, effect.pid, effect.transaction_id, *sequence);
  at.view.put(Keyspace::traces, key, row.encode());
  for (const std::string& name : row.names)
    at.view.put(Keyspace::trace_names, store::trace_name_key(effect.tenant, name, row.created_at, row.id),
                store::encode_bytes_row(key));
  at.view.put(Keyspace::trace_expiry, store::trace_expiry_key(row.created_at, row.id),
              store::encode_bytes_row(key));
  return {};
}

Status run(const Where& at, const TraceExpire& effect) {
  const auto expired = expired_before(at.view, effect);
  if (!expired) return expired.error();
  for (const Expired& one : *expired) {
    const auto name = store::parse_trace_key(one.trace_key);
    const auto row = read_row<store::TraceRow>(at.view, Keyspace::traces, one.trace_key);
    if (!name || !row || !*row) return fatal("trace_expiry names a trace that is not there");
    for (const std::string& trace_name : (*row)->names)
      at.view.erase(Keyspace::trace_names,
                    store::trace_name_key(name->tenant, trace_name, one.at.created_at, one.at.id));
    at.view.erase(Keyspace::traces, one.trace_key);
    at.view.erase(Keyspace::trace_expiry, one.expiry_key);
  }
  return {};
}

}  // namespace queen::machine::detail

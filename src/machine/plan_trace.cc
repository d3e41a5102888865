// Traces: storing one, and dropping those that are too old (api-messaging.md 13; storage.md RT-16).
#include "machine/detail/cycle.h"

namespace queen::machine::detail {

TraceOutcome plan_trace(Cycle& cycle, const Command& command, const TraceCommand& body) {
  if (body.pid) {
    const auto partition = must(partition_row(cycle.view, *body.pid));
    if (!partition || partition->tenant != command.tenant) return {false};
  }
  TraceAppend append{command.tenant, body.pid, body.transaction_id, body.row};
  append.row.created_at = cycle.now;
  cycle.emit(std::move(append));
  return {true};
}

TraceExpireOutcome plan_trace_expire(Cycle& cycle, const TraceExpireCommand& body) {
  const std::int64_t cutoff = cycle.now - body.retention_us;
  std::uint64_t expired = 0;
  cycle.view.scan(Keyspace::trace_expiry, {}, {}, [&](BytesView key, BytesView) {
    const auto at = store::parse_trace_expiry_key(key);
    INVARIANT(at.has_value(), "a trace_expiry row has a broken key");
    if (at->created_at >= cutoff) return false;
    return ++expired <= body.limit;
  });
  if (expired == 0) return {};
  cycle.emit(TraceExpire{cutoff, body.limit});
  return {expired > body.limit};
}

}  // namespace queen::machine::detail

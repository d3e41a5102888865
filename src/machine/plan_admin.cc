// Operator's switches, quotas, and declarations of in-memory queues (operations.md 8; api-state.md EP-12).
// What changes nothing is not logged.
#include "machine/detail/cycle.h"

namespace queen::machine::detail {
namespace {

std::optional<store::EphemeralRow> declared(const Cycle& cycle, const Command& command,
                                            std::string_view queue) {
  return must(read_row<store::EphemeralRow>(cycle.view, Keyspace::eph_config,
                                            store::eph_config_key(command.tenant, queue)));
}

}  // namespace

void plan_flag(Cycle& cycle, const FlagCommand& body) {
  std::optional<Bytes> old = cycle.view.get(Keyspace::flags, store::flag_key(body.name));
  if (old) old = must(store::decode_bytes_row(*old));
  if (old != body.value) cycle.emit(FlagSet{body.name, body.value});
}

void plan_quota(Cycle& cycle, const QuotaCommand& body) {
  const auto old =
      must(read_row<store::QuotaRow>(cycle.view, Keyspace::quotas, store::quota_key(body.kind, body.tenant)));
  if (old != body.row) cycle.emit(QuotaSet{body.kind, body.tenant, body.row});
}

EphemeralConfigureOutcome plan_ephemeral_configure(Cycle& cycle, const Command& command,
                                                   const EphemeralConfigureCommand& body) {
  const auto old = declared(cycle, command, body.queue);
  store::EphemeralRow row = body.row;
  row.created = old ? old->created : cycle.now;
  if (old != row) cycle.emit(EphemeralConfigSet{command.tenant, body.queue, row});
  return {row};
}

EphemeralDeleteOutcome plan_ephemeral_delete(Cycle& cycle, const Command& command,
                                             const EphemeralDeleteCommand& body) {
  if (!declared(cycle, command, body.queue)) return {false};
  cycle.emit(EphemeralConfigDelete{command.tenant, body.queue});
  return {true};
}

}  // namespace queen::machine::detail

// Lease renewal (api-messaging.md 6).
#include <algorithm>

#include "base/planted_bugs.h"
#include "machine/detail/cycle.h"

namespace queen::machine::detail {

RenewOutcome plan_renew(Cycle& cycle, const Command& command, const RenewCommand& renew) {
  std::vector<store::LeaseByWorkerKey> leases;
  cycle.view.scan(Keyspace::leases_by_worker, store::leases_by_worker_prefix(renew.lease_id), {},
                  [&](BytesView key, BytesView) {
                    auto lease = store::parse_lease_by_worker_key(key);
                    INVARIANT(lease.has_value(), "a lease key is damaged");
                    leases.push_back(std::move(*lease));
                    return true;
                  });
  RenewOutcome out;
  for (const store::LeaseByWorkerKey& lease : leases) {
    const auto partition = must(partition_row(cycle.view, lease.pid));
    // Another tenant's, or of a queue that was deleted: it does not exist.
    if (!partition || partition->tenant != command.tenant) continue;
    auto cursor = must(cursor_row(cycle.view, lease.pid, lease.group));
    if (!cursor || cursor->worker != renew.lease_id || !lease_live(*cursor, cycle.now)) continue;
    const std::int64_t expires = std::max(*cursor->lease_expires, cycle.now + renew.seconds * kSecondUs);
    ++out.renewed;
    out.expires_at = std::min(out.expires_at.value_or(expires), expires);
    if (expires == *cursor->lease_expires || planted(PlantedBug::machine_renewal_not_written)) continue;
    cursor->lease_expires = expires;
    cycle.emit(CursorSet{lease.pid, lease.group, std::move(*cursor), 0,
                         queue_id(partition->tenant, partition->queue)});
  }
  return out;
}

}  // namespace queen::machine::detail

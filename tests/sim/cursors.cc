#include "cursors.h"

#include <algorithm>

namespace queen::sim {

// Only what is sure: the earliest end of the older lease against the latest moment of the newer claim.
void Cursors::judge_lease(const ClaimSeen& claim, const Cursor& cursor, const Move& move) {
  for (const Lease& lease : cursor.leases) {
    if (move.open > 0 || lease.before_us < move.sure_from) continue;
    if (lease.may_have_ended() || lease.id == claim.lease_id) continue;
    const bool older = lease.after_us <= claim.before_us;
    const bool lives = claim.after_us < lease.before_us + lease.lease_us;
    if (older && lives)
      story_.violate("leases are exclusive",
                     "{}/{} group {}: {} claimed in ({}, {}] for {} us, {} in ({}, {}]", claim.where.queue,
                     claim.where.partition, claim.group, lease.id, lease.before_us, lease.after_us,
                     lease.lease_us, claim.lease_id, claim.before_us, claim.after_us);
  }
}

void Cursors::claimed(const ClaimSeen& claim) {
  Cursor& cursor = of(claim.where, claim.group);
  const Move& move = moves_[{claim.where.queue, claim.group}];
  for (const Floor& floor : cursor.floors)
    if (move.open == 0 && floor.before_us >= move.sure_from && floor.by_us <= claim.before_us &&
        claim.first <= floor.offset)
      story_.violate("acks are final", "{}/{} group {}: offset {} given out at {}, was acked to {} by {}",
                     claim.where.queue, claim.where.partition, claim.group, claim.first, claim.before_us,
                     floor.offset, floor.by_us);
  const bool retained = claim.kept == Kept::all || (claim.kept == Kept::unread && !cursor.leases.empty());
  if (retained && !move.ever && claim.first > cursor.ceiling() + 1)
    story_.violate("nothing is skipped",
                   "{}/{} group {}: claimed from {}, nothing beyond {} can have been acked",
                   claim.where.queue, claim.where.partition, claim.group, claim.first, cursor.ceiling());
  // What a group met first behind a loss is where it starts: a lease that runs out brings it back there.
  if (claim.kept != Kept::all && cursor.leases.empty()) cursor.ceilings.insert(claim.first - 1);
  judge_lease(claim, cursor, move);
  cursor.leases.push_back({claim.lease_id, claim.before_us, claim.after_us, claim.lease_us});
  for (std::int64_t offset = claim.first; offset <= claim.last; ++offset) cursor.delivered.insert(offset);
}

void Cursors::acking(const ClaimSeen& claim, std::int64_t to, bool ends) {
  Cursor& cursor = of(claim.where, claim.group);
  cursor.ceilings.insert(to);
  for (Lease& lease : cursor.leases)
    if (ends && lease.id == claim.lease_id) ++lease.settlings;
}

void Cursors::not_acked(const ClaimSeen& claim, std::int64_t to, bool ends) {
  Cursor& cursor = of(claim.where, claim.group);
  cursor.ceilings.erase(cursor.ceilings.find(to));
  for (Lease& lease : cursor.leases)
    if (ends && lease.id == claim.lease_id) --lease.settlings;
}

void Cursors::acked(const ClaimSeen& claim, std::int64_t to, std::int64_t before_us, std::int64_t after_us) {
  Cursor& cursor = of(claim.where, claim.group);
  bool open = renewed_.contains(claim.lease_id);
  const int own = to == claim.last ? 1 : 0;
  for (const Lease& lease : cursor.leases)  // settled before: this repeats it
    open = open || (lease.id == claim.lease_id && lease.settlings > own);
  if (!open && before_us >= claim.after_us + claim.lease_us)
    story_.violate("acks need a live lease",
                   "{}/{} group {}: lease {} of ({}, {}] for {} us took an ack after {}", claim.where.queue,
                   claim.where.partition, claim.group, claim.lease_id, claim.before_us, claim.after_us,
                   claim.lease_us, before_us);
  auto& floors = cursor.floors;
  const std::int64_t sure_from = moves_[{claim.where.queue, claim.group}].sure_from;
  if (!floors.empty() && floors.back().before_us < sure_from && before_us >= sure_from) floors.clear();
  if (floors.empty() || floors.back().offset < to)
    floors.push_back({before_us, floors.empty() ? after_us : std::max(after_us, floors.back().by_us), to});
}

void Cursors::moving(const std::string& queue, const std::string& group) {
  Move& move = moves_[{queue, group}];
  move.ever = true;
  ++move.open;
}

void Cursors::moved(const std::string& queue, const std::string& group, std::int64_t after_us) {
  Move& move = moves_[{queue, group}];
  --move.open;
  move.sure_from = std::max(move.sure_from, after_us);
}

void Cursors::deliver_again(const std::string& queue, const std::string& group) {
  for (auto& [name, cursor] : cursors_)
    if (name.first.queue == queue && name.second == group) cursor.delivered.clear();
}

// Only what is sure: when all leases of that id were still there.
void Cursors::renewed(const std::string& lease_id, std::size_t count, std::int64_t us, std::int64_t before_us,
                      std::int64_t after_us) {
  std::vector<Lease*> leases;
  for (auto& [key, cursor] : cursors_)
    for (Lease& lease : cursor.leases)
      if (lease.id == lease_id) leases.push_back(&lease);
  if (count < leases.size()) return;
  for (Lease* lease : leases) {
    if (before_us + us <= lease->before_us + lease->lease_us) continue;
    lease->before_us = before_us;
    lease->after_us = std::max(lease->after_us, after_us);
    lease->lease_us = us;
  }
}

void Cursors::failed(const ClaimSeen& claim, std::int64_t offset, std::int64_t retry_limit) {
  Cursor& cursor = of(claim.where, claim.group);
  if (cursor.failing != offset) cursor.failures = 0;
  cursor.failing = offset;
  if (++cursor.failures > retry_limit)
    story_.violate("retries are counted", "{}/{} group {} offset {}: failed {} times and is not filed",
                   claim.where.queue, claim.where.partition, claim.group, offset, cursor.failures);
}

void Cursors::delivered_for_good(const PartitionName& where, const std::string& group, std::int64_t first,
                                 std::int64_t last) {
  auto& delivered = of(where, group).delivered;
  for (std::int64_t offset = first; offset <= last; ++offset)
    if (!delivered.insert(offset).second)
      story_.violate("committed on delivery is given out once", "{}/{} group {} offset {}", where.queue,
                     where.partition, group, offset);
}

void Cursors::check_all_delivered(const std::map<PartitionName, PartitionRead>& logs,
                                  const std::string& queue, const std::set<std::string>& groups) {
  for (const auto& [where, log] : logs) {
    if (where.queue != queue) continue;
    for (const auto& group : groups) {
      const auto& delivered = of(where, group).delivered;
      for (const auto& record : log.records)
        if (!delivered.contains(static_cast<std::int64_t>(record.offset)))
          return story_.violate("everything is delivered", "{}/{} group {}: offset {} never was", where.queue,
                                where.partition, group, record.offset);
    }
  }
}

}  // namespace queen::sim

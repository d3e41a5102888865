#include "sink/tenant_sinks.h"

#include <algorithm>
#include <utility>

#include "sink/tenant_document.h"

namespace queen::sink {
namespace {

constexpr std::int64_t kReadEveryUs = 5 * kSecondUs;
constexpr std::int64_t kWarnEveryUs = 60 * kSecondUs;

// A sink runs while its cluster and the cluster's owner may at least be read.
bool runs(const ClusterStanding& standing) {
  const Standing worse = std::max(standing.cluster, standing.owner);
  return worse == Standing::active || worse == Standing::push_blocked;
}

}  // namespace

TenantSinks::TenantSinks(const HostParts& parts, ControlPlanePort& rows, const auth::PayloadCipher* cipher)
    : parts_(parts),
      rows_(rows),
      cipher_(cipher),
      log_(parts.log),
      interrupt_(parts.executor),
      hosts_(parts.executor) {}

void TenantSinks::stop() {
  interrupt_.stop();
  for (auto& [tenant, slot] : slots_) {
    if (slot.unit) slot.unit->stop();
  }
}

std::string TenantSinks::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void TenantSinks::set_error(std::string error) {
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
}

void TenantSinks::visit(const std::function<void(const HostedUnit&)>& look) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [tenant, slot] : slots_) {
    if (slot.unit) look(*slot.unit);
  }
}

Task<void> TenantSinks::run() {
  while (!interrupt_.stopping()) {
    co_await reconcile();
    co_await interrupt_.pause(kReadEveryUs);
  }
  co_await hosts_.all_ended();
}

// A failed read changes nothing: the sinks go on as the last good one said.
Task<void> TenantSinks::reconcile() {
  auto wanted = co_await read();
  if (interrupt_.stopping()) co_return;
  if (wanted) {
    set_error("");
    match(std::move(*wanted));
    co_return;
  }
  const std::string why = sentence("the sinks of tenants", wanted.error());
  set_error(why);
  if (const auto suppressed = limit_.pass("rows", parts_.executor.clock().mono_us(), kWarnEveryUs))
    log_.warn("control_plane_unreadable", {{"error", why}, {"suppressed", *suppressed}});
}

Task<CallOutcome<TenantSinks::AllWanted>> TenantSinks::read() {
  AllWanted wanted;
  std::string after;
  while (true) {
    auto page = co_await rows_.page(after);
    if (!page) co_return tl::unexpected(page.error());
    for (const SinkRow& row : page->rows) take_row(row, wanted);
    if (!page->next || *page->next <= after) co_return wanted;
    after = std::move(*page->next);
  }
}

void TenantSinks::take_row(const SinkRow& row, AllWanted& wanted) {
  auto sink = parse_sink_row(row.value);
  if (!sink) {
    if (const auto suppressed = limit_.pass("row", parts_.executor.clock().mono_us(), kWarnEveryUs))
      log_.warn("control_plane_row_skipped",
                {{"key", row.key}, {"error", sink.error().what}, {"suppressed", *suppressed}});
    return;
  }
  const bool reserved = sink->tenant == kDefaultTenant || sink->tenant == kProxyTenant;
  if (reserved || !sink->enabled || !runs(row.standing)) return;
  const std::string tenant = sink->tenant;
  // One sink for a tenant; of two clusters of one tenant the first by id has it.
  const auto [place, fresh] =
      wanted.try_emplace(tenant, Wanted{.sink = std::move(*sink), .cluster = row.standing.slug});
  if (!fresh) {
    if (const auto suppressed = limit_.pass("second", parts_.executor.clock().mono_us(), kWarnEveryUs))
      log_.warn("tenant_has_sink", {{"key", row.key},
                                    {"tenant", tenant},
                                    {"cluster_id", place->second.sink.cluster_id},
                                    {"suppressed", *suppressed}});
  }
}

void TenantSinks::match(AllWanted wanted) {
  for (auto& [tenant, slot] : slots_) {
    const auto found = wanted.find(tenant);
    const bool same = found != wanted.end() && found->second.sink.updated_at_us == slot.built_from_us;
    if (found == wanted.end()) {
      slot.wanted.reset();
    } else {
      slot.wanted = std::move(found->second);
      wanted.erase(found);
    }
    if (!same && slot.unit) slot.unit->stop();
  }
  for (auto& [tenant, fresh] : wanted) {
    {
      const std::lock_guard lock(mutex_);
      slots_[tenant].wanted = std::move(fresh);
    }
    hosts_.start(host(tenant));
  }
}

// The sinks of one tenant, one after the other, until none is wanted.
Task<void> TenantSinks::host(std::string tenant) {
  Slot& slot = slots_.at(tenant);
  while (slot.wanted && !interrupt_.stopping()) {
    slot.built_from_us = slot.wanted->sink.updated_at_us;
    auto next = make_unit(*slot.wanted);
    {
      const std::lock_guard lock(mutex_);
      std::swap(slot.unit, next);
    }
    next.reset();
    co_await slot.unit->run();
  }
  if (interrupt_.stopping()) co_return;  // it stays in the status as stopped
  std::unique_ptr<HostedUnit> last;
  {
    const std::lock_guard lock(mutex_);
    last = std::move(slot.unit);
    slots_.erase(tenant);
  }
  last.reset();
  parts_.shared.metrics.forget(tenant);
}

std::unique_ptr<HostedUnit> TenantSinks::make_unit(const Wanted& wanted) const {
  UnitOwner owner{.tenant = wanted.sink.tenant, .source = "cp", .cluster = wanted.cluster};
  return std::make_unique<HostedUnit>(parts_, std::move(owner), settings_of(wanted.sink));
}

Result<UnitSettings> TenantSinks::settings_of(const StoredSink& sink) const {
  if (cipher_ == nullptr)
    return Error{Errc::invalid,
                 "QUEEN_ENCRYPTION_KEY is not set on this node, which opens the secret key of the sink"};
  auto secret = cipher_->open(sink.secret_key_sealed);
  if (!secret)
    return Error{Errc::invalid,
                 "the secret key of the sink was not sealed with the QUEEN_ENCRYPTION_KEY of this node"};
  auto settings = read_tenant_document(
      {.tenant = sink.tenant, .config = sink.config, .secret_key = std::string(*secret)});
  auth::wipe(*secret);
  return settings;
}

}  // namespace queen::sink

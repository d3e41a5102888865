#include "api/detail/ladder.h"

#include <fmt/format.h>

#include <mutex>
#include <unordered_map>

#include "api/detail/allowance.h"
#include "api/json_writer.h"
#include "broker/broker.h"

namespace queen::api {
namespace {

// How long what was read of switches and quotas is good for.
constexpr std::int64_t kRememberUs = 1'000'000;
constexpr std::int64_t kCountEveryUs = 10'000'000;
constexpr std::int64_t kCountHotUs = 1'000'000;
// A tenant's rows are walked for a twentieth of the time at most.
constexpr std::int64_t kCountShare = 20;

struct Quotas {
  std::optional<store::QuotaRow> kv, ephemeral;
  std::int64_t read_at = 0;
  std::uint64_t epoch = 0;  // of State::epoch when they were read
};

struct Tenant {
  Quotas quotas;
  TokenBucket kv_reads, kv_writes, messages;
  Allowance rows, bytes, timers;
  bool counting = false;
  std::optional<std::int64_t> counted_at;
  std::int64_t count_at = 0;  // when the next count is due

  bool hot(std::int64_t percent) const {
    if (!quotas.kv) return false;
    return rows.above(quotas.kv->max_rows, percent) || bytes.above(quotas.kv->max_bytes, percent) ||
           timers.above(quotas.kv->max_timers, percent);
  }
};

bool limits_use(const store::QuotaRow& row) {
  return row.max_rows > 0 || row.max_bytes > 0 || row.max_timers > 0;
}

// The tenant's own rate wins; then a burst is two seconds of it, as with the defaults.
ApiSettings::Rate rate_of(std::int64_t own, const ApiSettings::Rate& otherwise) {
  if (own <= 0) return otherwise;
  return {own, own > INT64_MAX / 2 ? own : 2 * own};
}

Denied unavailable(std::string_view surface, std::string detail) {
  return {503, std::string(surface) + "_unavailable", std::move(detail), 1};
}

}  // namespace

struct Ladder::State {
  std::mutex mutex;  // guards everything below; the store is not read under it
  std::unordered_map<std::string, Tenant> tenants;
  std::uint64_t epoch = 1;  // of what an operator has said; grows with forget()
  bool kv = true, timers_schedule = true, timers_fire = true, ephemeral = true;
  std::int64_t switches_read_at = 0;
  std::uint64_t switches_epoch = 0;
};

Ladder::Sources Ladder::sources_of(const broker::Broker& broker) {
  const broker::Broker* from = &broker;
  return {
      [from](std::string_view name) { return from->state().on(name); },
      [from](store::QuotaKind kind, const std::string& tenant) { return from->state().quota(kind, tenant); },
      [from] { return from->state().quotas(store::QuotaKind::kv); },
      [from](const std::string& tenant, broker::Counted what) {
        return broker::count_use(from->state(), tenant, what);
      }};
}

Ladder::Ladder(Sources sources, Clock& clock, const ApiSettings& settings)
    : sources_(std::move(sources)), clock_(clock), settings_(settings), state_(std::make_shared<State>()) {}
Ladder::~Ladder() = default;

void Ladder::Charge::settle(bool spent) {
  const auto state = std::exchange(state_, nullptr);
  if (!state) return;
  const std::scoped_lock lock(state->mutex);
  Tenant& tenant = state->tenants.at(tenant_);
  tenant.rows.settle(taken_.rows, spent);
  tenant.bytes.settle(taken_.bytes, spent);
  tenant.timers.settle(taken_.timers, spent);
}

void Ladder::refresh_switches() {
  std::uint64_t epoch = 0;
  {
    const std::scoped_lock lock(state_->mutex);
    const bool known = state_->switches_epoch == state_->epoch;
    if (known && clock_.mono_us() - state_->switches_read_at < kRememberUs) return;
    epoch = state_->epoch;
  }
  const bool kv = sources_.on(broker::kKvSwitch);
  const bool schedule = sources_.on(broker::kTimersScheduleSwitch);
  const bool fire = sources_.on(broker::kTimersFireSwitch);
  const bool ephemeral = sources_.on(broker::kEphemeralSwitch);
  const std::scoped_lock lock(state_->mutex);
  state_->kv = kv;
  state_->timers_schedule = schedule;
  state_->timers_fire = fire;
  state_->ephemeral = ephemeral;
  state_->switches_read_at = clock_.mono_us();
  state_->switches_epoch = epoch;
}

std::optional<Denied> Ladder::paused(bool State::* on, std::string_view surface) {
  refresh_switches();
  const std::scoped_lock lock(state_->mutex);
  if (state_.get()->*on) return std::nullopt;
  return Denied{503, std::string(surface) + "_disabled", "an operator has paused this surface", 1};
}

// Afterwards the tenant is in the table, with quotas that are recent.
std::optional<Denied> Ladder::enter(const std::string& tenant, store::QuotaKind kind,
                                    std::string_view surface) {
  Quotas quotas;
  bool known = false;
  {
    const std::scoped_lock lock(state_->mutex);
    const auto at = state_->tenants.find(tenant);
    if (at != state_->tenants.end()) {
      quotas = at->second.quotas;
      known = quotas.epoch == state_->epoch && clock_.mono_us() - quotas.read_at < kRememberUs;
    }
    quotas.epoch = state_->epoch;
  }
  if (!known) {
    quotas.kv = sources_.quota(store::QuotaKind::kv, tenant);
    quotas.ephemeral = sources_.quota(store::QuotaKind::ephemeral, tenant);
    quotas.read_at = clock_.mono_us();
  }
  const bool of_kv = kind == store::QuotaKind::kv;
  const auto& row = of_kv ? quotas.kv : quotas.ephemeral;
  const bool needed = of_kv ? settings_.kv_require_grant : settings_.ephemeral_require_grant;
  // A row that is not enabled takes away what no row would leave open.
  if (tenant != kDefaultTenant && !(row ? row->enabled : !needed))
    return Denied{403, "feature_gated", "this tenant has no grant for it", 0};
  const std::scoped_lock lock(state_->mutex);
  auto at = state_->tenants.find(tenant);
  if (at == state_->tenants.end()) {
    if (state_->tenants.size() >= settings_.tenants_max)
      return unavailable(surface, "this node keeps track of as many tenants as it may");
    at = state_->tenants.try_emplace(tenant).first;
  }
  if (!known) at->second.quotas = std::move(quotas);
  return std::nullopt;
}

std::optional<Denied> Ladder::spend_kv(const std::string& tenant, bool writes, std::string_view surface) {
  if (auto denied = enter(tenant, store::QuotaKind::kv, surface)) return denied;
  const std::scoped_lock lock(state_->mutex);
  Tenant& of = state_->tenants.at(tenant);
  const store::QuotaRow none;
  const store::QuotaRow& row = of.quotas.kv ? *of.quotas.kv : none;
  const auto rate = writes ? rate_of(row.max_writes_per_s, settings_.kv_writes)
                           : rate_of(row.max_reads_per_s, settings_.kv_reads);
  auto& bucket = writes ? of.kv_writes : of.kv_reads;
  const auto wait = bucket.take(clock_.mono_us(), 1, rate.per_second, rate.burst);
  if (!wait) return std::nullopt;
  return Denied{
      429, "rate_limited",
      fmt::format("this tenant may make {} {} calls in a second", rate.per_second, writes ? "write" : "read"),
      *wait};
}

Ladder::Pass Ladder::charge(const std::string& tenant, const Weight& adds, std::string_view surface) {
  const std::scoped_lock lock(state_->mutex);
  Tenant& of = state_->tenants.at(tenant);
  if (of.quotas.kv && limits_use(*of.quotas.kv)) {
    const store::QuotaRow& row = *of.quotas.kv;
    const bool rows_unknown = row.max_rows > 0 || row.max_bytes > 0 ? !of.rows.counted() : false;
    if (rows_unknown || (row.max_timers > 0 && !of.timers.counted()))
      return tl::unexpected(unavailable(surface, "what this tenant holds is not counted yet"));
    const std::int64_t release = settings_.kv_quota_release_percent;
    // Each is looked at: a blocked one must be known as blocked.
    const bool rows = of.rows.fits(adds.rows, row.max_rows, release);
    const bool bytes = of.bytes.fits(adds.bytes, row.max_bytes, release);
    const bool timers = of.timers.fits(adds.timers, row.max_timers, release);
    if (!rows || !bytes || !timers) {
      of.count_at = std::min(of.count_at, of.counted_at.value_or(0) + kCountHotUs);
      return tl::unexpected(
          Denied{403, std::string(surface) + "_quota_exceeded",
                 fmt::format("the tenant's allowance of {} is used up", !rows    ? "rows"
                                                                        : !bytes ? "bytes"
                                                                                 : "pending timers"),
                 0});
    }
  }
  of.rows.take(adds.rows);
  of.bytes.take(adds.bytes);
  of.timers.take(adds.timers);
  return Charge(state_, tenant, adds);
}

Ladder::Pass Ladder::kv(const std::string& tenant, bool writes, const Weight& adds) {
  if (auto denied = paused(&State::kv, "kv")) return tl::unexpected(*std::move(denied));
  if (auto denied = spend_kv(tenant, writes, "kv")) return tl::unexpected(*std::move(denied));
  return charge(tenant, adds, "kv");
}

std::optional<Denied> Ladder::kv_console(const std::string& tenant) {
  return spend_kv(tenant, false, "kv");
}

Ladder::Pass Ladder::kv_in_transaction(const std::string& tenant, const Weight& adds) {
  if (auto denied = paused(&State::kv, "kv")) {
    denied->status = 403;
    denied->retry_after_s = 0;
    return tl::unexpected(*std::move(denied));
  }
  if (auto denied = enter(tenant, store::QuotaKind::kv, "kv")) return tl::unexpected(*std::move(denied));
  return charge(tenant, adds, "kv");
}

Ladder::Pass Ladder::charge_timers(const std::string& tenant, const Weight& adds, std::int64_t delay_us_max) {
  std::int64_t horizon_s = 0;
  {
    const std::scoped_lock lock(state_->mutex);
    const auto& row = state_->tenants.at(tenant).quotas.kv;
    horizon_s = row ? row->max_timer_horizon_s : 0;
  }
  if (horizon_s > 0 && delay_us_max > 0 && delay_us_max / 1'000'000 >= horizon_s &&
      (delay_us_max / 1'000'000 > horizon_s || delay_us_max % 1'000'000 > 0))
    return tl::unexpected(Denied{400, "timer_horizon_exceeded",
                                 fmt::format("this tenant may schedule {} s ahead", horizon_s), 0});
  return charge(tenant, adds, "timers");
}

Ladder::Pass Ladder::timers(const std::string& tenant, const Weight& adds, std::int64_t delay_us_max) {
  if (auto denied = paused(&State::timers_schedule, "timers")) return tl::unexpected(*std::move(denied));
  if (auto denied = spend_kv(tenant, true, "timers")) return tl::unexpected(*std::move(denied));
  return charge_timers(tenant, adds, delay_us_max);
}

Ladder::Pass Ladder::timers_in_transaction(const std::string& tenant, const Weight& adds,
                                           std::int64_t delay_us_max) {
  if (auto denied = paused(&State::timers_schedule, "timers")) {
    denied->status = 403;
    denied->retry_after_s = 0;
    return tl::unexpected(*std::move(denied));
  }
  if (auto denied = enter(tenant, store::QuotaKind::kv, "timers")) return tl::unexpected(*std::move(denied));
  return charge_timers(tenant, adds, delay_us_max);
}

std::optional<Denied> Ladder::ephemeral(const std::string& tenant, std::int64_t messages) {
  if (auto denied = paused(&State::ephemeral, "ephemeral")) return denied;
  if (auto denied = enter(tenant, store::QuotaKind::ephemeral, "ephemeral")) return denied;
  if (messages == 0) return std::nullopt;
  const std::scoped_lock lock(state_->mutex);
  Tenant& of = state_->tenants.at(tenant);
  const auto rate =
      rate_of(of.quotas.ephemeral ? of.quotas.ephemeral->max_msgs_per_s : 0, settings_.ephemeral_messages);
  const auto wait = of.messages.take(clock_.mono_us(), messages, rate.per_second, rate.burst);
  if (!wait) return std::nullopt;
  return Denied{429, "rate_limited",
                fmt::format("this tenant may push {} messages in a second", rate.per_second), *wait};
}

std::optional<store::QuotaRow> Ladder::quota(store::QuotaKind kind, const std::string& tenant) {
  {
    const std::scoped_lock lock(state_->mutex);
    const auto at = state_->tenants.find(tenant);
    if (kind != store::QuotaKind::streams && at != state_->tenants.end()) {
      const Quotas& quotas = at->second.quotas;
      if (quotas.epoch == state_->epoch && clock_.mono_us() - quotas.read_at < kRememberUs)
        return kind == store::QuotaKind::kv ? quotas.kv : quotas.ephemeral;
    }
  }
  return sources_.quota(kind, tenant);
}

Ladder::Shown Ladder::shown() {
  refresh_switches();
  Shown out;
  const std::int64_t now = clock_.mono_us();
  const std::scoped_lock lock(state_->mutex);
  out.kv = state_->kv;
  out.timers_schedule = state_->timers_schedule;
  out.timers_fire = state_->timers_fire;
  out.ephemeral = state_->ephemeral;
  for (const auto& [name, tenant] : state_->tenants) {
    if (!tenant.quotas.kv || !limits_use(*tenant.quotas.kv) || !tenant.counted_at) continue;
    ++out.quota_tenants;
    out.quota_age_us = std::max(out.quota_age_us, now - *tenant.counted_at);
    out.quota_hot = out.quota_hot || tenant.hot(settings_.kv_quota_hot_percent);
  }
  return out;
}

void Ladder::forget() {
  const std::scoped_lock lock(state_->mutex);
  ++state_->epoch;
}

void Ladder::count(const std::string& name, const store::QuotaRow& row, bool at_once) {
  {
    const std::scoped_lock lock(state_->mutex);
    const std::int64_t now = clock_.mono_us();
    auto at = state_->tenants.find(name);
    if (at == state_->tenants.end()) {
      if (state_->tenants.size() >= settings_.tenants_max) return;
      at = state_->tenants.try_emplace(name).first;
    }
    Tenant& tenant = at->second;
    if (tenant.counting || (!at_once && tenant.counted_at && now < tenant.count_at)) return;
    tenant.counting = true;
    for (Allowance* one : {&tenant.rows, &tenant.bytes, &tenant.timers}) one->count_begins();
  }
  const bool of_kv = row.max_rows > 0 || row.max_bytes > 0;
  const auto what = row.max_timers == 0 ? broker::Counted::kv
                    : of_kv             ? broker::Counted::both
                                        : broker::Counted::timers;
  const std::int64_t began = clock_.mono_us();
  const broker::TenantUse use = sources_.use(name, what);
  const std::scoped_lock lock(state_->mutex);
  Tenant& tenant = state_->tenants.at(name);
  const std::int64_t release = settings_.kv_quota_release_percent;
  tenant.quotas.kv = row;  // what follows is judged by it; stale is stale still
  if (what != broker::Counted::timers) {
    tenant.rows.count_ends(use.kv_rows, row.max_rows, release);
    tenant.bytes.count_ends(use.kv_bytes, row.max_bytes, release);
  }
  if (what != broker::Counted::kv) tenant.timers.count_ends(use.timers, row.max_timers, release);
  const std::int64_t now = clock_.mono_us();
  const std::int64_t every = tenant.hot(settings_.kv_quota_hot_percent) ? kCountHotUs : kCountEveryUs;
  tenant.counting = false;
  tenant.counted_at = now;
  tenant.count_at = now + std::max(every, kCountShare * (now - began));
}

void Ladder::count_due() {
  for (const auto& [tenant, row] : sources_.kv_quotas())
    if (limits_use(row)) count(tenant, row, false);
}

void Ladder::count_now(const std::string& tenant) {
  const auto row = sources_.quota(store::QuotaKind::kv, tenant);
  if (row && limits_use(*row)) count(tenant, *row, true);
}

http::Response denied_response(const Denied& denied) {
  http::Response response;
  response.status = denied.status;
  JsonWriter out(response.body);
  out.open('{').name("error").text(denied.error).name("detail").text(denied.detail).close('}');
  if (denied.retry_after_s > 0)
    response.headers.emplace_back("Retry-After", std::to_string(denied.retry_after_s));
  return response;
}

}  // namespace queen::api

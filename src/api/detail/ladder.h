// Who may call the state plane, how often and for how much (api-state.md 1.7): a call climbs pause, grant,
// rate and occupancy, and the first that denies it names the answer. Rates and occupancy are of one tenant on
// this node.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/api.h"
#include "broker/state_reads.h"
#include "broker/tenant_use.h"

namespace queen::api {

// Why a call may not run.
struct Denied {
  int status = 403;
  std::string error;  // feature_gated, rate_limited, kv_disabled, kv_quota_exceeded …
  std::string detail;
  std::int64_t retry_after_s = 0;  // 0: the header is not sent
};
// `{"error":…,"detail":…}`, and Retry-After.
http::Response denied_response(const Denied& denied);

// What a call may add to what its tenant holds: a row for each put, putIfAbsent and incr, bytes of values,
// pending timers.
struct Weight {
  std::int64_t rows = 0, bytes = 0, timers = 0;
};
// Whether it is certain that a call refused so took no effect.
inline bool is_certain(const broker::Refusal& refusal) {
  return refusal.code != "timeout" && refusal.code != "retry" && refusal.code != "outcome_unknown" &&
         refusal.code != "internal";
}

// Thread-safe. Blocks at most for short reads of the store, but where it says that it walks.
class Ladder {
  struct State;

 public:
  // Where rows and switches come from; thread-safe. `use` may walk.
  struct Sources {
    std::function<bool(std::string_view name)> on;
    std::function<std::optional<store::QuotaRow>(store::QuotaKind, const std::string& tenant)> quota;
    std::function<std::vector<std::pair<std::string, store::QuotaRow>>()> kv_quotas;
    std::function<broker::TenantUse(const std::string& tenant, broker::Counted what)> use;
  };
  static Sources sources_of(const broker::Broker& broker);

  // `settings` and `clock` outlive it.
  Ladder(Sources sources, Clock& clock, const ApiSettings& settings);
  ~Ladder();

  // What a call took of its tenant's allowance. Going out of scope it stays spent until the next count of
  // the rows; give_back() when the call certainly wrote nothing. May outlive the ladder.
  class Charge {
   public:
    Charge() = default;
    Charge(std::shared_ptr<State> state, std::string tenant, const Weight& taken)
        : state_(std::move(state)), tenant_(std::move(tenant)), taken_(taken) {}
    Charge(Charge&& other) noexcept = default;
    Charge& operator=(Charge&& other) noexcept = delete;
    ~Charge() { settle(true); }
    void give_back() { settle(false); }

   private:
    void settle(bool spent);
    std::shared_ptr<State> state_;  // null: settled
    std::string tenant_;
    Weight taken_;
  };
  using Pass = tl::expected<Charge, Denied>;

  // A KV call: one read or one write of the rate, and what it may add.
  Pass kv(const std::string& tenant, bool writes, const Weight& adds);
  // A read of the console: one read of the rate, whatever the switch says.
  std::optional<Denied> kv_console(const std::string& tenant);
  // KV operations of a transaction: no rate, and a pause is for good there (403).
  Pass kv_in_transaction(const std::string& tenant, const Weight& adds);
  // Schedules, of which the latest is `delay_us_max` away: one write of the KV rate, `adds.timers` of the
  // pending allowance, the tenant's own horizon. A call of cancels alone does not come here.
  Pass timers(const std::string& tenant, const Weight& adds, std::int64_t delay_us_max);
  Pass timers_in_transaction(const std::string& tenant, const Weight& adds, std::int64_t delay_us_max);
  // A call on in-memory queues; `messages` that it pushes are what the rate counts.
  std::optional<Denied> ephemeral(const std::string& tenant, std::int64_t messages);
  // As this node knows it, at most a second late.
  std::optional<store::QuotaRow> quota(store::QuotaKind kind, const std::string& tenant);

  // What an operator sees (operations.md 8).
  struct Shown {
    bool kv = true, timers_schedule = true, timers_fire = true, ephemeral = true;
    std::size_t quota_tenants = 0;  // whose use is counted
    std::int64_t quota_age_us = 0;  // of the oldest count
    bool quota_hot = false;         // somebody is near a cap and is counted more often
  };
  Shown shown();
  // A switch or a quota was changed through this node: what is remembered of them is forgotten.
  void forget();

  // How often count_due() wants to run.
  static constexpr std::int64_t kTickUs = 1'000'000;
  // Counts the rows of every limited tenant whose count is due, or of one at once. Walks: for Broker::look.
  void count_due();
  void count_now(const std::string& tenant);

 private:
  std::optional<Denied> paused(bool State::* on, std::string_view surface);
  std::optional<Denied> enter(const std::string& tenant, store::QuotaKind kind, std::string_view surface);
  std::optional<Denied> spend_kv(const std::string& tenant, bool writes, std::string_view surface);
  Pass charge(const std::string& tenant, const Weight& adds, std::string_view surface);
  Pass charge_timers(const std::string& tenant, const Weight& adds, std::int64_t delay_us_max);
  void refresh_switches();
  void count(const std::string& tenant, const store::QuotaRow& row, bool at_once);

  const Sources sources_;
  Clock& clock_;
  const ApiSettings& settings_;
  const std::shared_ptr<State> state_;
};

}  // namespace queen::api

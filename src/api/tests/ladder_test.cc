// The ladder over sources of its own, in virtual time.
#include "api/detail/ladder.h"

#include <gtest/gtest.h>

#include <map>

#include "api/detail/allowance.h"

namespace queen::api {
namespace {

using store::QuotaKind;
using store::QuotaRow;

const std::string kDefault(kDefaultTenant);
const std::string kOther = "01b7c0de-0001-7aaa-8bbb-00000000000a";
const std::string kThird = "01b7c0de-0001-7aaa-8bbb-00000000000b";

struct World {
  ManualClock clock;
  ApiSettings settings;
  std::map<std::string, bool, std::less<>> off;
  std::map<std::pair<QuotaKind, std::string>, QuotaRow> quotas;
  broker::TenantUse use;
  std::vector<broker::Counted> counts;
  std::unique_ptr<Ladder> made;

  Ladder& ladder() {
    if (!made) made = std::make_unique<Ladder>(sources(), clock, settings);
    return *made;
  }
  Ladder::Sources sources() {
    return {[this](std::string_view name) { return off.find(name) == off.end(); },
            [this](QuotaKind kind, const std::string& tenant) -> std::optional<QuotaRow> {
              const auto at = quotas.find({kind, tenant});
              if (at == quotas.end()) return std::nullopt;
              return at->second;
            },
            [this] {
              std::vector<std::pair<std::string, QuotaRow>> out;
              for (const auto& [key, row] : quotas)
                if (key.first == QuotaKind::kv) out.emplace_back(key.second, row);
              return out;
            },
            [this](const std::string&, broker::Counted what) {
              counts.push_back(what);
              return use;
            }};
  }
  void limit(const std::string& tenant, QuotaRow row) {
    row.enabled = true;
    quotas[{QuotaKind::kv, tenant}] = row;
    ladder().forget();
    ladder().count_now(tenant);
  }
  std::string kv(const std::string& tenant, bool writes, const Weight& adds = {}) {
    return verdict(ladder().kv(tenant, writes, adds));
  }
  static std::string verdict(const Ladder::Pass& pass) { return pass ? "" : text(pass.error()); }
  static std::string verdict(const std::optional<Denied>& denied) { return denied ? text(*denied) : ""; }
  static std::string text(const Denied& denied) {
    return std::to_string(denied.status) + " " + denied.error + " " + std::to_string(denied.retry_after_s);
  }
};

QuotaRow rows(std::int64_t count) {
  QuotaRow row;
  row.max_rows = count;
  return row;
}

TEST(Ladder, LetsABurstPassAndThenTheRate) {
  World world;
  for (int i = 0; i < 200; ++i) ASSERT_EQ(world.kv(kDefault, true), "") << i;
  EXPECT_EQ(world.kv(kDefault, true), "429 rate_limited 1");
  for (int i = 0; i < 400; ++i) ASSERT_EQ(world.kv(kDefault, false), "") << i;
  EXPECT_EQ(world.kv(kDefault, false), "429 rate_limited 1");
  world.clock.advance(100'000);  // ten writes, twenty reads
  for (int i = 0; i < 10; ++i) ASSERT_EQ(world.kv(kDefault, true), "") << i;
  EXPECT_EQ(world.kv(kDefault, true), "429 rate_limited 1");
  EXPECT_EQ(world.kv(kOther, true), "");  // another tenant has a bucket of its own
}

TEST(Ladder, TellsWhenToComeAgain) {
  World world;
  world.settings.ephemeral_messages = {10, 100};
  EXPECT_EQ(World::verdict(world.ladder().ephemeral(kDefault, 100)), "");
  EXPECT_EQ(World::verdict(world.ladder().ephemeral(kDefault, 35)), "429 rate_limited 4");
  world.clock.advance(3'500'000);
  EXPECT_EQ(World::verdict(world.ladder().ephemeral(kDefault, 35)), "");
}

TEST(Ladder, LetsACallAboveTheBurstPassWhenTheBucketIsFull) {
  World world;
  world.settings.ephemeral_messages = {10, 100};
  EXPECT_EQ(World::verdict(world.ladder().ephemeral(kDefault, 150)), "");
  world.clock.advance(5'000'000);  // pays the debt
  EXPECT_EQ(World::verdict(world.ladder().ephemeral(kDefault, 1)), "429 rate_limited 1");
  world.clock.advance(100'000);
  EXPECT_EQ(World::verdict(world.ladder().ephemeral(kDefault, 1)), "");
}

TEST(Ladder, TakesTheRatesOfTheTenant) {
  World world;
  QuotaRow row;
  row.max_writes_per_s = 3;
  world.limit(kDefault, row);
  for (int i = 0; i < 6; ++i) ASSERT_EQ(world.kv(kDefault, true), "") << i;
  EXPECT_EQ(world.kv(kDefault, true), "429 rate_limited 1");
}

TEST(Ladder, ClimbsPauseGrantRateOccupancyInThisOrder) {
  World world;
  world.settings.kv_writes = {1, 1};
  world.off["kv_enabled"] = true;
  QuotaRow row = rows(1);
  world.limit(kOther, row);
  world.quotas.at({QuotaKind::kv, kOther}).enabled = false;
  world.ladder().forget();
  EXPECT_EQ(world.kv(kOther, true, {5, 0, 0}), "503 kv_disabled 1");
  world.off.clear();
  world.ladder().forget();
  EXPECT_EQ(world.kv(kOther, true, {5, 0, 0}), "403 feature_gated 0");
  world.quotas.at({QuotaKind::kv, kOther}).enabled = true;
  world.ladder().forget();
  EXPECT_EQ(world.kv(kOther, true, {5, 0, 0}), "403 kv_quota_exceeded 0");
  EXPECT_EQ(world.kv(kOther, true, {5, 0, 0}), "429 rate_limited 1");  // the refused call spent its token
}

TEST(Ladder, AsksForAGrantWhenItMust) {
  World world;
  EXPECT_EQ(world.kv(kOther, false), "");
  World strict;
  strict.settings.kv_require_grant = strict.settings.ephemeral_require_grant = true;
  EXPECT_EQ(strict.kv(kOther, false), "403 feature_gated 0");
  EXPECT_EQ(World::verdict(strict.ladder().ephemeral(kOther, 0)), "403 feature_gated 0");
  EXPECT_EQ(World::verdict(strict.ladder().timers(kOther, {}, 0)), "403 feature_gated 0");
  EXPECT_EQ(strict.kv(kDefault, false), "");
  strict.limit(kOther, {});
  EXPECT_EQ(strict.kv(kOther, false), "");
  EXPECT_EQ(World::verdict(strict.ladder().ephemeral(kOther, 0)), "403 feature_gated 0");
}

TEST(Ladder, KeepsNoMoreTenantsThanItMay) {
  World world;
  world.settings.tenants_max = 2;
  EXPECT_EQ(world.kv(kDefault, false), "");
  EXPECT_EQ(world.kv(kOther, false), "");
  EXPECT_EQ(world.kv(kThird, false), "503 kv_unavailable 1");
  EXPECT_EQ(World::verdict(world.ladder().ephemeral(kThird, 1)), "503 ephemeral_unavailable 1");
  EXPECT_EQ(world.kv(kOther, false), "");
}

TEST(Ladder, SeesWhatAnOperatorSaidWithinASecond) {
  World world;
  EXPECT_EQ(world.kv(kDefault, false), "");
  world.off["kv_enabled"] = true;
  EXPECT_EQ(world.kv(kDefault, false), "");
  world.clock.advance(1'000'000);
  EXPECT_EQ(world.kv(kDefault, false), "503 kv_disabled 1");
  EXPECT_EQ(World::verdict(world.ladder().kv_console(kDefault)), "");  // needs no surface
  EXPECT_FALSE(world.ladder().shown().kv);
}

TEST(Ladder, RefusesForGoodInsideATransaction) {
  World world;
  world.settings.kv_writes = {1, 1};
  EXPECT_EQ(world.kv(kDefault, true), "");
  EXPECT_EQ(World::verdict(world.ladder().kv_in_transaction(kDefault, {})), "");  // no rate
  world.off["kv_enabled"] = world.off["timers_schedule_enabled"] = true;
  world.ladder().forget();
  EXPECT_EQ(World::verdict(world.ladder().kv_in_transaction(kDefault, {})), "403 kv_disabled 0");
  EXPECT_EQ(World::verdict(world.ladder().timers_in_transaction(kDefault, {}, 0)), "403 timers_disabled 0");
}

TEST(Ladder, ChargesRowsAndBytesAndGivesThemBack) {
  World world;
  world.use = {8, 100, 0};
  QuotaRow row = rows(10);
  row.max_bytes = 150;
  world.limit(kDefault, row);
  EXPECT_EQ(world.kv(kDefault, true, {1, 51, 0}), "403 kv_quota_exceeded 0");
  {
    auto pass = world.ladder().kv(kDefault, true, {2, 20, 0});
    ASSERT_TRUE(pass);
    EXPECT_EQ(world.kv(kDefault, true, {1, 0, 0}), "403 kv_quota_exceeded 0");
    EXPECT_EQ(world.kv(kDefault, true, {}), "");  // deletes add nothing
    pass->give_back();
  }
  world.ladder().count_now(kDefault);
  EXPECT_EQ(world.kv(kDefault, true, {2, 20, 0}), "");  // stays spent
  EXPECT_EQ(world.kv(kDefault, true, {1, 0, 0}), "403 kv_quota_exceeded 0");
}

TEST(Ladder, ReleasesABlockedTenantBelowItsShare) {
  World world;
  world.use = {100, 0, 0};
  world.limit(kDefault, rows(100));
  EXPECT_EQ(world.kv(kDefault, true, {1, 0, 0}), "403 kv_quota_exceeded 0");
  world.use.kv_rows = 95;
  world.ladder().count_now(kDefault);
  EXPECT_EQ(world.kv(kDefault, true, {1, 0, 0}), "403 kv_quota_exceeded 0");
  world.use.kv_rows = 89;
  world.ladder().count_now(kDefault);
  EXPECT_EQ(world.kv(kDefault, true, {1, 0, 0}), "");
}

TEST(Ladder, DoesNotBlockForOneCallThatIsTooLarge) {
  World world;
  world.use = {50, 0, 0};
  world.limit(kDefault, rows(100));
  EXPECT_EQ(world.kv(kDefault, true, {51, 0, 0}), "403 kv_quota_exceeded 0");
  EXPECT_EQ(world.kv(kDefault, true, {50, 0, 0}), "");
}

TEST(Ladder, CountsALimitedTenantMoreOftenWhenItIsNearItsCap) {
  World world;
  world.use = {10, 0, 0};
  world.limit(kDefault, rows(100));
  EXPECT_EQ(world.counts, std::vector{broker::Counted::kv});
  const auto counts_within = [&](std::int64_t seconds) {
    world.counts.clear();
    for (std::int64_t i = 0; i < seconds; ++i) {
      world.clock.advance(1'000'000);
      world.ladder().count_due();
    }
    return world.counts.size();
  };
  EXPECT_EQ(counts_within(20), 2U);
  EXPECT_FALSE(world.ladder().shown().quota_hot);
  world.use.kv_rows = 80;
  counts_within(10);
  EXPECT_EQ(counts_within(10), 10U);
  EXPECT_TRUE(world.ladder().shown().quota_hot);
  EXPECT_EQ(world.ladder().shown().quota_tenants, 1U);
}

TEST(Ladder, RefusesUntilALimitedTenantIsCounted) {
  World world;
  QuotaRow row = rows(10);
  row.enabled = true;
  world.quotas[{QuotaKind::kv, kDefault}] = row;
  EXPECT_EQ(world.kv(kDefault, true, {1, 1, 0}), "503 kv_unavailable 1");
  EXPECT_EQ(world.kv(kDefault, false), "503 kv_unavailable 1");
  world.ladder().count_due();
  EXPECT_EQ(world.kv(kDefault, true, {1, 1, 0}), "");
}

TEST(Ladder, HoldsTimersToTheirAllowanceAndHorizon) {
  World world;
  world.use.timers = 8;
  QuotaRow row;
  row.max_timers = 10;
  row.max_timer_horizon_s = 60;
  world.limit(kDefault, row);
  EXPECT_EQ(world.counts, std::vector{broker::Counted::timers});
  EXPECT_EQ(World::verdict(world.ladder().timers(kDefault, {0, 0, 1}, 60'000'001)),
            "400 timer_horizon_exceeded 0");
  EXPECT_EQ(World::verdict(world.ladder().timers(kDefault, {0, 0, 3}, 60'000'000)),
            "403 timers_quota_exceeded 0");
  EXPECT_EQ(World::verdict(world.ladder().timers(kDefault, {0, 0, 1}, -5)), "");
  EXPECT_EQ(world.kv(kDefault, true, {7, 7, 0}), "");  // KV has no cap
}

TEST(Ladder, SpendsTheWriteRateOfKvOnSchedules) {
  World world;
  world.settings.kv_writes = {1, 1};
  EXPECT_EQ(World::verdict(world.ladder().timers(kDefault, {0, 0, 1}, 0)), "");
  EXPECT_EQ(world.kv(kDefault, true), "429 rate_limited 1");
}

TEST(Allowance, CountsWhatIsInFlightThroughACount) {
  Allowance allowance;
  allowance.count_begins();
  allowance.count_ends(0, 10, 90);
  allowance.take(3);
  allowance.count_begins();
  allowance.settle(3, true);
  allowance.count_ends(3, 10, 90);
  EXPECT_EQ(allowance.held(), 6);  // the count may not have met it: never too little
  allowance.count_begins();
  allowance.count_ends(3, 10, 90);
  EXPECT_EQ(allowance.held(), 3);
}

}  // namespace
}  // namespace queen::api

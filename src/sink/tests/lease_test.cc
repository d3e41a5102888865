// Lease, presence and placement, one rule each (acceptance list F).
#include "sink/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "sink/placement.h"
#include "sink/presence.h"
#include "sink/tests/fake_broker.h"

namespace queen::sink::test {
namespace {

constexpr std::int64_t kTtl = 9 * kSecond;
const std::string kKey = "s3:default:rides:lease";

struct Desk {
  ManualClock clock{kEpoch};
  ManualExecutor executor{clock};
  FakeBroker broker{executor};
  BrokerCalls calls{broker, executor};
  Logger log{null_log(), "queen-s3"};

  // Runs `task` to its end, in virtual time.
  template <class T>
  T wait(Task<T> task, std::int64_t us = 60 * kSecond) {
    std::optional<T> out;
    auto run = [](Task<T> inner, std::optional<T>& into) -> Task<void> {
      into.emplace(co_await std::move(inner));
    };
    spawn(executor, run(std::move(task), out));
    for (std::int64_t passed = 0; passed < us && !out; passed += 1000) executor.run_for(1000);
    EXPECT_TRUE(out.has_value()) << "the task does not end";
    return std::move(*out);
  }
  std::int64_t wait_void(Task<void> task, std::int64_t us = 60 * kSecond) {
    const std::int64_t began = clock.mono_us();
    bool ended = false;
    spawn(executor, std::move(task), [&] { ended = true; });
    while (!ended && clock.mono_us() - began < us) executor.run_for(1000);
    EXPECT_TRUE(ended);
    return clock.mono_us() - began;
  }
};

struct OneLease {
  OneLease(Desk& desk, std::string instance, std::string incarnation)
      : lease(desk.calls,
              {.key = kKey, .instance = std::move(instance), .incarnation = std::move(incarnation)}, kTtl,
              desk.log) {}
  Lease lease;
};

TEST(Lease, FirstClaimWinsAndTheLoserIsToldTheOwner) {
  Desk desk;
  OneLease a(desk, "a", "01"), b(desk, "b", "02");
  EXPECT_TRUE(desk.wait(a.lease.claim())->taken);
  const auto second = desk.wait(b.lease.claim());
  EXPECT_FALSE(second->taken);
  EXPECT_EQ(second->holder, "a");
}

TEST(Lease, RefreshTakesANewVersionAndTheFenceFollows) {
  Desk desk;
  OneLease a(desk, "a", "01");
  ASSERT_TRUE(desk.wait(a.lease.claim())->taken);
  const auto before = desk.broker.live(kKey)->version;
  ASSERT_TRUE(desk.wait(a.lease.refresh()));
  EXPECT_NE(desk.broker.live(kKey)->version, before);
  auto batch = desk.wait(a.lease.fenced({kv_put_required("x", "1", std::nullopt, 0)}));
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->size(), 1U);
  EXPECT_TRUE(desk.broker.live("x"));
  ASSERT_TRUE(desk.wait(a.lease.refresh())) << "the batch moved the version that the refresh expects";
}

TEST(Lease, StaleFenceRollsTheWholeBatchBack) {
  Desk desk;
  OneLease a(desk, "a", "01");
  ASSERT_TRUE(desk.wait(a.lease.claim())->taken);
  desk.broker.put_behind(kKey, encode(LeaseRow{.instance = "b", .incarnation = "02", .since_ms = 1}));
  bool told = false;
  a.lease.on_lost([&] { told = true; });
  const auto batch = desk.wait(a.lease.fenced({kv_put_required("x", "1", std::nullopt, 0)}));
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().cls, CallClass::precondition);
  EXPECT_TRUE(a.lease.lost());
  EXPECT_TRUE(told);
  EXPECT_FALSE(desk.broker.live("x"));
}

TEST(Lease, LostPointerRollsBackWithoutLosingTheLease) {
  Desk desk;
  OneLease a(desk, "a", "01");
  ASSERT_TRUE(desk.wait(a.lease.claim())->taken);
  const auto version = desk.broker.live(kKey)->version;
  const auto batch = desk.wait(a.lease.fenced({kv_put_required("x", "1", std::nullopt, 5)}));
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().cls, CallClass::precondition);
  EXPECT_THAT(batch.error().text, ::testing::HasSubstr("row x"));
  EXPECT_FALSE(a.lease.lost());
  EXPECT_EQ(desk.broker.live(kKey)->version, version);
}

TEST(Lease, ExpiredRowIsClaimableAndItsOwnerIsFenced) {
  Desk desk;
  OneLease a(desk, "a", "01"), b(desk, "b", "02");
  ASSERT_TRUE(desk.wait(a.lease.claim())->taken);
  desk.executor.run_for(kTtl + 1);
  EXPECT_EQ(desk.wait(b.lease.look())->row, LookResult::Row::free);
  EXPECT_TRUE(desk.wait(b.lease.claim())->taken);
  EXPECT_FALSE(desk.wait(a.lease.refresh()));
  EXPECT_TRUE(a.lease.lost());
}

TEST(Lease, ReleaseDeletesOnlyItsOwnIncarnationAtTheVersionOfTheRow) {
  Desk desk;
  OneLease a(desk, "a", "01");
  ASSERT_TRUE(desk.wait(a.lease.claim())->taken);
  // Our own incarnation at a version that this handle has not seen: an answer that was lost.
  desk.broker.put_behind(kKey, encode(LeaseRow{.instance = "a", .incarnation = "01", .since_ms = 1}));
  desk.wait_void(a.lease.release());
  EXPECT_FALSE(desk.broker.live(kKey));
  OneLease again(desk, "a", "03");
  ASSERT_TRUE(desk.wait(again.lease.claim())->taken);
  desk.broker.put_behind(kKey, encode(LeaseRow{.instance = "a", .incarnation = "04", .since_ms = 1}));
  desk.wait_void(again.lease.release());
  EXPECT_TRUE(desk.broker.live(kKey));
}

TEST(Lease, ReleaseOfAHandleThatNeverHeldCallsNothing) {
  Desk desk;
  OneLease a(desk, "a", "01");
  desk.wait_void(a.lease.release());
  EXPECT_EQ(desk.broker.kv_calls, 0U);
}

TEST(Lease, LookWritesNothingAndTellsWhoseRowItIs) {
  Desk desk;
  OneLease a(desk, "a", "01"), b(desk, "b", "02");
  EXPECT_EQ(desk.wait(a.lease.look())->row, LookResult::Row::free);
  ASSERT_TRUE(desk.wait(a.lease.claim())->taken);
  const auto writes = desk.broker.kv_writes;
  EXPECT_EQ(desk.wait(a.lease.look())->row, LookResult::Row::mine);
  const auto other = desk.wait(b.lease.look());
  EXPECT_EQ(other->row, LookResult::Row::other);
  EXPECT_EQ(other->holder, "a");
  desk.broker.put_behind(kKey, "not a row");
  EXPECT_EQ(desk.wait(b.lease.look())->holder, "unknown");
  EXPECT_EQ(desk.broker.kv_writes, writes);
}

TEST(Lease, EarlierLifeIsTakenOverAtOnceAndFencedOut) {
  Desk desk;
  OneLease before(desk, "a", "01"), now(desk, "a", "02");
  ASSERT_TRUE(desk.wait(before.lease.claim())->taken);
  EXPECT_TRUE(desk.wait(now.lease.claim())->taken);
  EXPECT_FALSE(desk.wait(before.lease.fenced({kv_put_required("x", "1", std::nullopt, 0)})));
  EXPECT_TRUE(desk.wait(now.lease.refresh()));
}

TEST(Lease, ReleaseRidesOutFourFailuresAndGivesUpAfterTenSeconds) {
  Desk desk;
  OneLease a(desk, "a", "01");
  ASSERT_TRUE(desk.wait(a.lease.claim())->taken);
  desk.broker.fail_kv = 4;
  EXPECT_LT(desk.wait_void(a.lease.release()), 2 * kSecond);
  EXPECT_FALSE(desk.broker.live(kKey));
  OneLease b(desk, "b", "02");
  ASSERT_TRUE(desk.wait(b.lease.claim())->taken);
  desk.broker.fail_kv = 1'000'000;
  const std::int64_t took = desk.wait_void(b.lease.release());
  EXPECT_GE(took, 9 * kSecond);
  EXPECT_LE(took, 10 * kSecond + 100'000);
  EXPECT_TRUE(desk.broker.rows.contains(kKey));
}

TEST(Lease, TransientFailureOfARefreshSkipsTheTickARefusalLosesTheHandle) {
  Desk desk;
  OneLease a(desk, "a", "01");
  ASSERT_TRUE(desk.wait(a.lease.claim())->taken);
  desk.broker.fail_kv = 1;
  EXPECT_FALSE(desk.wait(a.lease.refresh()));
  EXPECT_FALSE(a.lease.lost());
  EXPECT_TRUE(desk.wait(a.lease.refresh()));
  desk.broker.refuse_kv = 1;
  EXPECT_FALSE(desk.wait(a.lease.refresh()));
  EXPECT_TRUE(a.lease.lost());
  const auto calls = desk.broker.kv_calls;
  EXPECT_FALSE(desk.wait(a.lease.refresh()));
  EXPECT_EQ(desk.broker.kv_calls, calls) << "a lost handle starts no call";
  EXPECT_EQ(a.lease.batches_rolled_back(), 0U);
}

// 6.1(6): the batch was applied and its answer lost. The repeat is fenced out by the version that the first
// one wrote, and nothing is written twice.
TEST(Lease, RepeatOfABatchWhoseAnswerWasLostIsFencedOut) {
  Desk desk;
  OneLease a(desk, "a", "01");
  ASSERT_TRUE(desk.wait(a.lease.claim())->taken);
  desk.broker.lose_kv_answers = 1;
  const auto first = desk.wait(a.lease.fenced({kv_put_required("x", "1", std::nullopt, 0)}));
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().cls, CallClass::transport);
  EXPECT_TRUE(desk.broker.live("x"));
  EXPECT_FALSE(a.lease.lost());
  const auto second = desk.wait(a.lease.fenced({kv_put_required("x", "2", std::nullopt, 0)}));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().cls, CallClass::precondition);
  EXPECT_TRUE(a.lease.lost());
  EXPECT_EQ(a.lease.batches_rolled_back(), 1U);
  EXPECT_EQ(desk.broker.live("x")->value, "1");
  desk.wait_void(a.lease.release());
  EXPECT_FALSE(desk.broker.live(kKey)) << "the row is ours all the same";
}

TEST(Lease, BatchAndRefreshOfOneHandleNeverExpectTheSameVersion) {
  Desk desk;
  desk.broker.kv_latency_us = 40'000;
  OneLease a(desk, "a", "01");
  ASSERT_TRUE(desk.wait(a.lease.claim())->taken);
  int done = 0;
  auto refresh = [](Lease& lease, int& count) -> Task<void> {
    const auto refreshed = co_await lease.refresh();
    if (refreshed) ++count;
  };
  for (int i = 0; i < 5; ++i) spawn(desk.executor, refresh(a.lease, done));
  desk.executor.run_for(kSecond);
  EXPECT_EQ(done, 5);
  EXPECT_FALSE(a.lease.lost());
}

TEST(Lease, CallThatIsNeverAnsweredFailsWithinItsBudget) {
  Desk desk;
  desk.broker.kv_latency_us = 3600 * kSecond;
  OneLease a(desk, "a", "01");
  const auto looked = desk.wait(a.lease.look(), 11 * kSecond);
  ASSERT_FALSE(looked);
  EXPECT_EQ(looked.error().cls, CallClass::transport);
  EXPECT_TRUE(looked.error().retriable);
}

TEST(LeaseTimes, RefreshIsAThirdOfTheWholeSeconds) {
  EXPECT_EQ(refresh_interval_us(30 * kSecond), 10 * kSecond);
  EXPECT_EQ(refresh_interval_us(1'999'000), 333'000);
  EXPECT_EQ(ttl_seconds_of(1'999'000), 1);
  EXPECT_EQ(ttl_seconds_of(30 * kSecond), 30);
}

// ---- placement ----

TEST(Placement, ShareIsRoundedUp) {
  EXPECT_EQ(fair_share(6, 3), 2U);
  EXPECT_EQ(fair_share(7, 3), 3U);
  EXPECT_EQ(fair_share(0, 3), 0U);
  EXPECT_EQ(fair_share(5, 0), 5U);
}

TEST(Placement, PlacesAreCountedInTheOrderTaken) {
  ClaimLine line;
  auto first = line.take();
  auto second = line.take();
  auto third = line.take();
  EXPECT_EQ(first.ahead(), 0U);
  EXPECT_EQ(third.ahead(), 2U);
  first = ClaimLine::Place();
  EXPECT_EQ(third.ahead(), 1U);
  EXPECT_EQ(second.ahead(), 0U);
}

TEST(Placement, TurnComesLaterWithLoadShareAndAfterGivingBack) {
  Turn turn{.found_free_us = 100,
            .jitter_us = 7,
            .lease_ttl_us = 9 * kSecond,
            .share = 3,
            .gave_back_at_us = std::nullopt};
  EXPECT_EQ(claim_at_us(turn), 107);
  turn.node_load = turn.sink_load = 2;
  EXPECT_EQ(claim_at_us(turn), 107 + 2 * kSecond);
  turn.node_load = 50;
  EXPECT_EQ(claim_at_us(turn), 107 + 9 * kSecond / 2);
  turn.sink_load = 3;
  EXPECT_EQ(claim_at_us(turn), 107 + 9 * kSecond / 2 + 9 * kSecond);
  turn.gave_back_at_us = 50;
  EXPECT_EQ(claim_at_us(turn), 50 + 18 * kSecond);
  // Two TTLs later it is a queue like any other.
  turn.found_free_us = 100 + 18 * kSecond;
  EXPECT_EQ(claim_at_us(turn), turn.found_free_us + 7 + 9 * kSecond / 2 + 9 * kSecond);
}

TEST(Placement, GivesBackTheLeastBufferedAfterAWholeTtlAboveTheShare) {
  GiveBack give(9 * kSecond);
  const std::vector<HeldQueue> held = {{"c", 5}, {"b", 1}, {"a", 1}};
  EXPECT_FALSE(give.round(0, 2, held));
  EXPECT_FALSE(give.round(8 * kSecond, 2, held));
  EXPECT_FALSE(give.round(8 * kSecond, 3, held)) << "at its share the time starts again";
  EXPECT_FALSE(give.round(9 * kSecond, 2, held));
  EXPECT_EQ(give.round(18 * kSecond, 2, held), "a");
}

TEST(Placement, OneHandOffAtATime) {
  GiveBack give(9 * kSecond);
  const std::vector<HeldQueue> held = {{"a", 1}, {"b", 1}, {"c", 1}};
  give.round(0, 1, held);
  ASSERT_EQ(give.round(9 * kSecond, 1, held), "a");
  const std::vector<HeldQueue> rest = {{"b", 1}, {"c", 1}};
  EXPECT_FALSE(give.round(100 * kSecond, 1, rest)) << "a still drains";
  give.on_released("a", 100 * kSecond);
  EXPECT_FALSE(give.round(108 * kSecond, 1, rest));
  give.on_held_elsewhere("a");
  EXPECT_EQ(give.round(108 * kSecond, 1, rest), "b");
  give.on_released("b", 110 * kSecond);
  EXPECT_FALSE(give.round(118 * kSecond, 0, {{"c", 1}}));
  EXPECT_EQ(give.round(119 * kSecond, 0, {{"c", 1}}), "c") << "nobody took b within a TTL";
}

// ---- presence ----

TEST(Presence, KeysFallUnderNoDocumentOfAQueue) {
  for (const char* queue : {"node", "node=", "node:", "node=x", "a"}) {
    for (const std::string& key : {lease_key("s", queue), intent_key("s", queue), committed_key("s", queue)})
      EXPECT_FALSE(key.starts_with(presence_prefix("s"))) << key;
  }
  EXPECT_TRUE(presence_key("s", "node-1@a").starts_with(presence_prefix("s")));
}

TEST(Presence, CountsLiveRowsAndDeletesItsOwnOnLeave) {
  Desk desk;
  SeededRandom random(1);
  desk.broker.put_behind(presence_key("default", "b"), "{}");
  Presence presence(desk.calls, {.sink = "default", .instance = "a", .incarnation = "01"}, kTtl, random,
                    desk.log);
  Interrupt interrupt(desk.executor);
  desk.broker.fail_kv = 1;
  bool ended = false;
  spawn(desk.executor, presence.run(interrupt), [&] { ended = true; });
  desk.executor.run_for(2 * kSecond);
  EXPECT_EQ(presence.nodes(), 2U);
  desk.executor.run_for(20 * kSecond);
  EXPECT_TRUE(desk.broker.live(presence_key("default", "a"))) << "written every third of the TTL";
  interrupt.stop();
  desk.executor.run_for(kSecond);
  ASSERT_TRUE(ended);
  desk.wait_void(presence.leave());
  EXPECT_FALSE(desk.broker.live(presence_key("default", "a")));
  EXPECT_TRUE(desk.broker.live(presence_key("default", "b")));
}

TEST(Presence, CountsOverSeveralPages) {
  Desk desk;
  SeededRandom random(1);
  for (int i = 0; i < 2500; ++i)
    desk.broker.put_behind(presence_key("default", "b" + std::to_string(i)), "{}");
  Presence presence(desk.calls, {.sink = "default", .instance = "zz", .incarnation = "01"}, kTtl, random,
                    desk.log);
  Interrupt interrupt(desk.executor);
  spawn(desk.executor, presence.run(interrupt));
  desk.executor.run_for(kSecond);
  EXPECT_EQ(presence.nodes(), 2501U);
  interrupt.stop();
  desk.executor.run_for(kSecond);
}

}  // namespace
}  // namespace queen::sink::test

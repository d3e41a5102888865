// In-memory queues, rule by rule (api-state.md 6.2).
#include <gtest/gtest.h>

#include "ephemeral/message_id.h"
#include "ephemeral/tests/rig.h"

namespace queen::ephemeral {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

TEST(Ephemeral, GivesMessagesInOrderAndForgetsWhatIsAcked) {
  Rig rig;
  EXPECT_EQ(rig.push("q", {"1", "2", "3"}), "");
  const auto pop = rig.pop("q", "", 2);
  EXPECT_EQ(pop->text(), "1 2");
  EXPECT_EQ(rig.pop("q", "", 9)->text(), "3");
  EXPECT_EQ(rig.depth("q"), 3U);
  EXPECT_EQ(rig.ack("q", pop->messages), "acked acked");
  EXPECT_EQ(rig.depth("q"), 1U);
  EXPECT_EQ(rig.ack("q", pop->messages), "unknown unknown");
}

TEST(Ephemeral, PushesNothingForNothing) {
  Rig rig;
  EXPECT_EQ(rig.push("q", {}), "");
  EXPECT_TRUE(rig.engine.queues(kTenant).empty());
}

TEST(Ephemeral, KeepsACursorForEachGroupFromTheOldestMessage) {
  Rig rig;
  rig.push("q", {"1", "2"});
  EXPECT_EQ(rig.pop("q", "a", 9)->text(), "1 2");
  EXPECT_EQ(rig.pop("q", "b", 1)->text(), "1");
  EXPECT_EQ(rig.pop("q", "b", 9)->text(), "2");
  EXPECT_EQ(rig.pop("q", "", 9)->text(), "1 2");
  EXPECT_EQ(rig.pop("q", "a", 9)->text(), "");
}

TEST(Ephemeral, FreesAMessageWhenEveryGroupPassedIt) {
  Rig rig;
  rig.push("q", {"1", "2"});
  EXPECT_EQ(rig.depth("q"), 2U);  // nobody reads: nothing is freed
  const auto a = rig.pop("q", "a", 9);
  const auto b = rig.pop("q", "b", 9);
  rig.ack("q", a->messages, Status::done, "a");
  EXPECT_EQ(rig.depth("q"), 2U);
  rig.ack("q", {b->messages[1]}, Status::done, "b");
  EXPECT_EQ(rig.depth("q"), 2U);
  rig.ack("q", {b->messages[0]}, Status::done, "b");
  EXPECT_EQ(rig.depth("q"), 0U);
}

TEST(Ephemeral, GivesAParkedSubscriberOfEachGroupTheFirstMessage) {
  Rig rig;
  const auto a = rig.wait("q", "a");
  const auto b = rig.wait("q", "b");
  const auto c = rig.wait("q", "b", 1, 10 * kSecond);
  EXPECT_EQ(a->text(), "parked");
  rig.push("q", {"1"}, "anywhere");
  EXPECT_EQ(a->text() + b->text() + c->text(), "11parked");
  rig.executor.run_for(10 * kSecond);
  EXPECT_EQ(c->text(), "");
}

TEST(Ephemeral, GivesAKnownGroupItsCursorInLaterPartitions) {
  Rig rig;
  rig.push("q", {"1"}, "a");
  const auto first = rig.pop("q", "g");
  rig.ack("q", first->messages, Status::done, "g");
  rig.push("q", {"2"}, "b");
  const auto other = rig.pop("q", "h", 9);
  rig.ack("q", other->messages, Status::done, "h");
  EXPECT_EQ(rig.pop("q", "g", 9)->text(), "2");  // was kept for it
}

TEST(Ephemeral, ServesPartitionsInNameOrder) {
  Rig rig;
  rig.push("q", {"b1", "b2"}, "b");
  rig.push("q", {"a1"}, "a");
  EXPECT_EQ(rig.pop("q", "", 2)->text(), "a1 b1");
  PopRequest request = Rig::asking("q", "", 9);
  request.partition = "b";
  EXPECT_EQ(rig.send(std::move(request))->text(), "b2");
}

TEST(Ephemeral, RedeliversWhatALeaseLetGoFirstAndInOrder) {
  Rig rig;
  rig.push("q", {"1", "2", "3"});
  const auto first = rig.pop("q", "", 2);
  rig.executor.run_for(30 * kSecond);
  EXPECT_EQ(rig.pop("q", "", 9)->text(), "1#2 2#2 3");
  EXPECT_EQ(first->text(), "1 2");
}

TEST(Ephemeral, WakesAParkedPopWhenALeaseRunsOut) {
  Rig rig;
  rig.push("q", {"1"});
  const auto first = rig.pop("q");
  const auto second = rig.wait("q");
  rig.executor.run_for(30 * kSecond - 1);
  EXPECT_EQ(second->text(), "parked");
  rig.executor.run_for(1);
  EXPECT_EQ(second->text(), "1#2");
}

TEST(Ephemeral, TakesTheAckOfAnExpiredLeaseUntilTheMessageIsGivenAnew) {
  Rig rig;
  rig.push("q", {"1", "2"});
  const auto pop = rig.pop("q", "", 2);
  rig.executor.run_for(31 * kSecond);
  EXPECT_EQ(rig.ack("q", {pop->messages[0]}), "acked");
  EXPECT_EQ(rig.pop("q", "", 9)->text(), "2#2");
}

TEST(Ephemeral, NacksComeBackAtOnceAndAreGivenUpAtTheLimit) {
  Rig rig;
  rig.push("q", {"1"});
  auto pop = rig.pop("q");
  for (int i = 2; i <= 5; ++i) {
    const auto parked = rig.wait("q");
    EXPECT_EQ(rig.ack("q", pop->messages, Status::failed), "redelivered");
    EXPECT_EQ(parked->text(), "1#" + std::to_string(i));
    pop = parked;
  }
  EXPECT_EQ(rig.ack("q", pop->messages, Status::failed), "acked");
  EXPECT_EQ(rig.view("q").drops.retry, 1U);
  EXPECT_EQ(rig.depth("q"), 0U);
}

TEST(Ephemeral, GivesUpByExpiredLeasesWhileOtherGroupsKeepTheMessage) {
  Rig rig;
  Declaration twice;
  twice.retry_limit = 2;
  twice.lease_seconds = 1;
  rig.declare("q", twice);
  rig.push("q", {"1"});
  EXPECT_EQ(rig.pop("q", "other")->text(), "1");
  EXPECT_EQ(rig.pop("q", "g")->text(), "1");
  rig.executor.run_for(kSecond);
  EXPECT_EQ(rig.pop("q", "g")->text(), "1#2");
  EXPECT_EQ(rig.pop("q", "other")->text(), "1#2");
  rig.executor.run_for(kSecond);
  EXPECT_EQ(rig.view("q").drops.retry, 2U);
  EXPECT_EQ(rig.pop("q", "g")->text(), "");
  EXPECT_EQ(rig.depth("q"), 0U);
}

TEST(Ephemeral, ARetrySpendsNoAttempt) {
  Rig rig;
  rig.push("q", {"1"});
  for (int i = 1; i <= 20; ++i) {
    const auto pop = rig.pop("q");
    EXPECT_EQ(pop->messages.at(0).attempts, static_cast<std::uint32_t>(i));
    EXPECT_EQ(rig.ack("q", pop->messages, Status::retry), "redelivered");
  }
}

TEST(Ephemeral, CommitAtDeliveryHoldsNoLease) {
  Rig rig;
  rig.push("q", {"1", "2"});
  PopRequest request = Rig::asking("q", "", 1);
  request.commit = true;
  const auto pop = rig.send(std::move(request));
  EXPECT_EQ(pop->text(), "1");
  EXPECT_EQ(rig.depth("q"), 1U);
  EXPECT_EQ(rig.ack("q", pop->messages), "unknown");
}

TEST(Ephemeral, AnswersStaleForAnotherIncarnation) {
  Rig rig;
  rig.push("q", {"1"});
  const auto pop = rig.pop("q");
  EXPECT_TRUE(rig.engine.remove(Rig::named("q")));
  EXPECT_FALSE(rig.engine.remove(Rig::named("q")));
  EXPECT_EQ(rig.ack("q", pop->messages), "stale");
  rig.push("q", {"1"});
  rig.pop("q");
  EXPECT_EQ(rig.ack("q", pop->messages), "stale");
  Message nonsense;
  for (const auto* id : {"", "e:", "e:1", "e:1:2", "e:x:p:1", "e:1:p:x", "1"}) {
    nonsense.id = id;
    EXPECT_EQ(rig.ack("q", {nonsense}), "stale") << id;
  }
}

TEST(MessageIds, KeepPartitionsWithColons) {
  const auto id = parse_message_id("e:1f::a:b::12");
  ASSERT_TRUE(id);
  EXPECT_EQ(id->epoch, 0x1fU);
  EXPECT_EQ(id->partition, ":a:b:");
  EXPECT_EQ(id->seq, 12U);
  EXPECT_EQ(to_text(*id), "e:1f::a:b::12");
}

TEST(Ephemeral, RejectsAPushThatDoesNotFitWhole) {
  Rig rig;
  Declaration small;
  small.max_length = 3;
  small.max_bytes = 10;
  rig.declare("q", small);
  EXPECT_EQ(rig.push("q", {"1", "2"}), "");
  EXPECT_EQ(rig.push("q", {"3", "4"}), "queue_full");
  EXPECT_EQ(rig.push("q", {"345678901"}), "queue_full");
  EXPECT_EQ(rig.push("q", {"34567890"}), "");
  EXPECT_EQ(rig.depth("q"), 3U);
}

TEST(Ephemeral, DropsTheOldestAndCountsWhoHadNotReadIt) {
  Rig rig;
  Declaration feed;
  feed.max_length = 3;
  feed.policy = Policy::drop_oldest;
  rig.declare("q", feed);
  rig.push("q", {"1", "2"}, "a");
  const auto read = rig.pop("q", "reader", 1);
  rig.push("q", {"3", "4", "5", "6"}, "b");
  EXPECT_EQ(rig.pop("q", "new", 9)->text(), "4 5 6");
  EXPECT_EQ(rig.ack("q", read->messages, Status::done, "reader"), "unknown");  // evicted
  EXPECT_EQ(rig.view("q").drops.bounds, 3U);
  const auto depth = rig.engine.depth(Rig::named("q"), "reader");
  ASSERT_TRUE(depth);
  EXPECT_EQ(depth->pending, 3U);
  EXPECT_EQ(depth->groups[1].name + std::to_string(depth->groups[1].skipped), "reader2");
  EXPECT_EQ(depth->groups[0].skipped, 0U);
}

TEST(Ephemeral, RefusesAMessageLargerThanTheQueue) {
  Rig rig;
  Declaration feed;
  feed.max_bytes = 4;
  feed.policy = Policy::drop_oldest;
  rig.declare("q", feed);
  rig.push("q", {"123"});
  EXPECT_EQ(rig.push("q", {"1", "12345"}), "queue_full");
  EXPECT_EQ(rig.depth("q"), 1U);
}

TEST(Ephemeral, DropsWhatIsTooOldReadOrNot) {
  Rig rig;
  Declaration brief;
  brief.ttl_seconds = 2;
  rig.declare("q", brief);
  rig.push("q", {"1"});
  const auto pop = rig.pop("q");
  rig.clock.advance(kSecond);
  rig.push("q", {"2"});
  const std::int64_t before = rig.engine.bytes();
  rig.executor.run_for(kSecond);
  EXPECT_LT(rig.engine.bytes(), before);  // by the timer, nobody came
  EXPECT_EQ(rig.ack("q", pop->messages), "unknown");
  EXPECT_EQ(rig.pop("q")->text(), "2");
  rig.clock.advance(kSecond);
  EXPECT_EQ(rig.pop("q", "late")->text(), "");
  EXPECT_EQ(rig.view("q").drops.ttl, 2U);
}

TEST(Ephemeral, CollectsAQueueThatNobodyUses) {
  Rig rig;
  rig.pop("q");
  rig.declare("d", {});
  rig.push("full", {"1"});
  EXPECT_EQ(rig.engine.queues(kTenant).size(), 3U);
  rig.executor.run_for(299 * kSecond);
  const auto parked = rig.wait("q", "", 1, 10 * kSecond);
  rig.executor.run_for(11 * kSecond);
  EXPECT_EQ(rig.engine.queues(kTenant).size(), 3U);  // it was polled
  rig.executor.run_for(300 * kSecond);
  EXPECT_EQ(rig.engine.queues(kTenant).size(), 2U);
  EXPECT_EQ(rig.view("d").declared, true);
}

TEST(Ephemeral, NeverCollectsWithZeroSeconds) {
  Settings settings;
  settings.idle_seconds = 0;
  Rig rig(settings);
  rig.pop("q");
  rig.executor.run_for(86'400 * kSecond);
  EXPECT_EQ(rig.engine.queues(kTenant).size(), 1U);
}

TEST(Ephemeral, LetsEmptyPartitionsGoAndLosesNothingByIt) {
  Rig rig;
  rig.declare("q", {});
  for (int i = 0; i < 100; ++i) rig.push("q", {"1"}, std::to_string(i));
  const std::int64_t full = rig.engine.bytes();
  rig.ack("q", rig.pop("q", "g", 100)->messages, Status::done, "g");
  rig.executor.run_for(301 * kSecond);
  EXPECT_EQ(rig.view("q").partitions, 0U);
  EXPECT_LT(rig.engine.bytes(), full / 20);
  rig.push("q", {"2"}, "5");
  EXPECT_EQ(rig.pop("q", "g", 9)->text(), "2");
}

TEST(Ephemeral, TheWindowFattensAWaitingPopOnly) {
  Rig rig;
  Declaration window;
  window.window_ms = 100;
  window.window_count = 3;
  rig.declare("q", window);
  rig.push("q", {"1"});
  const auto by_time = rig.wait("q", "", 10);
  rig.executor.run_for(50'000);
  rig.push("q", {"2"});
  EXPECT_EQ(by_time->text(), "parked");
  rig.executor.run_for(50'000);
  EXPECT_EQ(by_time->text(), "1 2");
  const auto by_count = rig.wait("q", "", 10);
  rig.push("q", {"3", "4"});
  EXPECT_EQ(by_count->text(), "parked");
  rig.push("q", {"5"});
  EXPECT_EQ(by_count->text(), "3 4 5");
  const auto by_batch = rig.wait("q", "", 1);
  rig.push("q", {"6"});
  EXPECT_EQ(by_batch->text(), "6");
  rig.push("q", {"7"});
  EXPECT_EQ(rig.pop("q", "", 10)->text(), "7");  // does not wait
  const auto by_timeout = rig.wait("q", "", 10, 30'000);
  rig.push("q", {"8"});
  rig.executor.run_for(30'000);
  EXPECT_EQ(by_timeout->text(), "8");
}

TEST(Ephemeral, AWindowIsForTheFirstInLine) {
  Rig rig;
  Declaration window;
  window.window_ms = 100;
  rig.declare("q", window);
  const auto first = rig.wait("q", "", 2);
  const auto second = rig.wait("q", "", 2);
  rig.push("q", {"1"});
  rig.executor.run_for(60'000);
  rig.push("q", {"2", "3"});
  EXPECT_EQ(first->text(), "1 2");
  EXPECT_EQ(second->text(), "parked");
  rig.executor.run_for(100'000);
  EXPECT_EQ(second->text(), "3");
}

TEST(Ephemeral, ACancelledPopLeavesItsMessagesToTheNext) {
  Rig rig;
  Declaration window;
  window.window_ms = 100;
  rig.declare("q", window);
  const auto first = rig.wait("q", "", 2);
  const auto second = rig.wait("q", "", 2);
  rig.push("q", {"1"});
  EXPECT_TRUE(rig.engine.cancel_pop(first->id));
  EXPECT_FALSE(rig.engine.cancel_pop(first->id));
  rig.executor.run_for(100'000);
  EXPECT_EQ(second->text(), "1");
  EXPECT_FALSE(first->answered);
  EXPECT_EQ(rig.engine.parked(), 0U);
}

TEST(Ephemeral, TheOldestOfBothLinesIsServedFirst) {
  Rig rig;
  PopRequest request = Rig::asking("q", "", 1);
  request.partition = "p";
  request.wait_until_us = 60 * kSecond;
  const auto pinned = rig.send(std::move(request));
  const auto anywhere = rig.wait("q");
  rig.push("q", {"1"}, "other");
  EXPECT_EQ(anywhere->text(), "1");
  EXPECT_EQ(pinned->text(), "parked");
  const auto later = rig.wait("q");
  rig.push("q", {"2", "3"}, "p");
  EXPECT_EQ(pinned->text() + later->text(), "23");
}

TEST(Ephemeral, ResetDropsEverythingAndVoidsLeases) {
  Rig rig;
  rig.push("q", {"1", "2"}, "a");
  rig.push("q", {"3"}, "b");
  const auto pop = rig.pop("q", "g", 2);
  EXPECT_EQ(rig.engine.reset(Rig::named("q")), 3U);
  EXPECT_EQ(rig.engine.reset(Rig::named("other")), 0U);
  EXPECT_EQ(rig.ack("q", pop->messages, Status::done, "g"), "unknown unknown");
  EXPECT_EQ(rig.pop("q", "g", 9)->text() + rig.pop("q", "new", 9)->text(), "");
  rig.push("q", {"4"}, "a");
  EXPECT_EQ(rig.pop("q", "g", 9)->text(), "4");
}

TEST(Ephemeral, RemovingAQueueAnswersWhoWaits) {
  Rig rig;
  const auto a = rig.wait("q", "a");
  const auto b = rig.wait("q", "b");
  rig.engine.remove(Rig::named("q"));
  EXPECT_EQ(a->text() + b->text(), "");
  EXPECT_EQ(rig.engine.bytes(), 0);
}

TEST(Ephemeral, ReleasesEveryParkedPopAtAStop) {
  Rig rig;
  std::vector<std::shared_ptr<Rig::Pop>> pops;
  for (int i = 0; i < 50; ++i) pops.push_back(rig.wait("q" + std::to_string(i % 7), std::to_string(i % 3)));
  rig.engine.release_parked();
  for (const auto& pop : pops) EXPECT_EQ(pop->text(), "");
  EXPECT_EQ(rig.wait("q")->text(), "");
}

TEST(Ephemeral, DeclarationsAreHeldToTheBoundsOfTheNode) {
  Rig rig;
  Declaration wide;
  wide.max_bytes = 1LL << 40;
  wide.max_length = 1LL << 40;
  wide.lease_seconds = 1LL << 40;
  wide.retry_limit = 1LL << 40;
  wide.window_ms = wide.window_count = 1LL << 40;
  rig.declare("q", wide);
  EXPECT_EQ(rig.view("q").options,
            (Declaration{16LL << 20, 10'000, Policy::reject, 0, 86'400, 1000, 60'000, 10'000}));
  rig.pop("implicit");
  EXPECT_EQ(rig.view("implicit").options, (Declaration{16LL << 20, 10'000, Policy::reject, 0, 30, 5, 0, 0}));
  EXPECT_FALSE(rig.view("implicit").declared);
}

TEST(Ephemeral, FindsTheDeclarationOfAQueueThatIsNotInMemory) {
  Rig rig;
  rig.declared["q"].max_length = 1;
  EXPECT_EQ(rig.push("q", {"1", "2"}), "queue_full");
  EXPECT_TRUE(rig.view("q").declared);
}

TEST(Ephemeral, HoldsATenantToItsAllowance) {
  Rig rig;
  const TenantMax max{5, 1};
  EXPECT_EQ(rig.push("q", {"123"}, "p", max), "");
  EXPECT_EQ(rig.push("q", {"456"}, "p", max), "tenant_full");
  EXPECT_EQ(rig.push("r", {"4"}, "p", max), "tenant_full");
  EXPECT_EQ(rig.send(Rig::asking("r", "", 1), max)->text(), "tenant_full");
  EXPECT_FALSE(rig.engine.may_declare(Rig::named("r"), max));
  EXPECT_TRUE(rig.engine.may_declare(Rig::named("q"), max));
  EXPECT_TRUE(rig.engine.push({"another", "q"}, "p", {"123456"}, {}));
}

TEST(Ephemeral, HoldsNoMoreThanTheNodeMay) {
  Settings settings;
  settings.node_bytes_max = 10'000;
  Rig rig(settings);
  EXPECT_EQ(rig.push("q", {std::string(6000, 'x')}), "");
  EXPECT_EQ(rig.push("q", {std::string(6000, 'x')}), "node_full");
  std::string refused;
  for (int i = 0; i < 100 && refused.empty(); ++i) refused = rig.pop("many" + std::to_string(i))->refused;
  EXPECT_EQ(refused, "node_full");
  for (int i = 0; i < 100; ++i) rig.pop("q", "group" + std::to_string(i));
  EXPECT_LT(rig.engine.bytes(), 12'000);
}

TEST(Ephemeral, ReturnsEveryByteItTook) {
  Rig rig;
  for (int i = 0; i < 50; ++i) {
    rig.push("q" + std::to_string(i % 3), {std::string(static_cast<std::size_t>(i) * 10, 'x'), "y"},
             "p" + std::to_string(i % 5));
    rig.pop("q" + std::to_string(i % 3), "g" + std::to_string(i % 4), 3);
  }
  EXPECT_GT(rig.engine.bytes(), 0);
  for (int i = 0; i < 3; ++i) rig.engine.remove(Rig::named("q" + std::to_string(i)));
  EXPECT_EQ(rig.engine.bytes(), 0);
}

TEST(Ephemeral, KeepsTenantsApart) {
  Rig rig;
  rig.engine.push({"00000000-0000-0000-0000-00000000000a", "q"}, "p", {"1"}, {});
  EXPECT_EQ(rig.pop("q")->text(), "");
  EXPECT_EQ(rig.engine.queues("00000000-0000-0000-0000-00000000000a").size(), 1U);
}

}  // namespace
}  // namespace queen::ephemeral

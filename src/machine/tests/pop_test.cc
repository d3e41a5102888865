#include <gtest/gtest.h>

#include <set>

#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;

class Pop : public ::testing::Test {
 protected:
  PopCommand named(const std::string& group, Subscription::Mode mode = Subscription::Mode::all,
                   std::uint32_t batch = 200) {
    PopCommand pop = node.pop_command(batch);
    pop.group = group;
    pop.subscription.mode = mode;
    return pop;
  }
  PopOutcome run(PopCommand pop) { return node.one<PopOutcome>(std::move(pop)); }
  void ack(Pid pid, const std::string& id, const std::string& group = std::string(kQueueMode)) {
    AckCommand command;
    command.group = group;
    command.items.push_back(node.ack_item(pid, id, AckStatus::completed, ""));
    ASSERT_TRUE(node.one<AckOutcome>(std::move(command)).items[0].success);
  }
  Node node;
};

TEST_F(Pop, MakesQueueAndGroupOnFirstContactButNotWhenPinned) {
  PopCommand pinned = node.pop_command();
  pinned.partition = "p";
  EXPECT_TRUE(run(std::move(pinned)).claims.empty());
  EXPECT_EQ(node.next_index, 1U);
  EXPECT_TRUE(node.pop().claims.empty());
  EXPECT_EQ(node.entries.at(0).effects.size(), 2U);
  EXPECT_EQ(node.store.rows(store::Keyspace::groups), 1U);
  node.pop();
  EXPECT_EQ(node.next_index, 2U);
}

TEST_F(Pop, LeaseExcludesOthersOfTheGroupUntilItExpires) {
  const Pid pid = node.push("p", {"a", "b"}).pid;
  ASSERT_EQ(run(named("g")).claims.size(), 1U);
  const auto waiting = run(named("g"));
  EXPECT_TRUE(waiting.claims.empty());
  EXPECT_EQ(waiting.look_again_at, node.cursor(pid, "g")->lease_expires);
  PopCommand pinned = named("g");
  pinned.partition = "p";
  EXPECT_TRUE(run(std::move(pinned)).claims.empty());
  EXPECT_EQ(run(named("other")).claims.size(), 1U);
  node.now = *waiting.look_again_at;
  const auto again = run(named("g"));
  ASSERT_EQ(again.claims.size(), 1U);
  EXPECT_EQ(again.claims[0].delivery_attempt, 2U);
}

TEST_F(Pop, BatchIsACapOverAllPartitions) {
  for (const char* partition : {"p1", "p2", "p3"}) node.push(partition, {"a", "b", "c", "d"});
  PopCommand pop = node.pop_command(6);
  pop.partitions_max = 3;
  const auto out = run(std::move(pop));
  ASSERT_EQ(out.claims.size(), 2U);
  EXPECT_EQ(out.claims[0].last, 3U);
  EXPECT_EQ(out.claims[1].last, 1U);
  EXPECT_EQ(node.pop(10).claims.size(), 1U);  // one partition unless more are asked for
}

TEST_F(Pop, EveryPartitionIsServedOnceWithoutAcks) {
  for (int p = 0; p < 8; ++p) node.push("p" + std::to_string(p), {"a", "b", "c"});
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (int i = 0; i < 20; ++i) {
    PopCommand pop = node.pop_command(2);
    pop.partitions_max = 3;
    for (const PopClaim& claim : run(std::move(pop)).claims)
      for (std::uint64_t offset = claim.first; offset <= claim.last; ++offset)
        EXPECT_TRUE(seen.emplace(claim.pid.value, offset).second);
  }
  EXPECT_EQ(seen.size(), 16U);
}

TEST_F(Pop, ABatchSpansAppends) {
  node.push("p", {"a", "b"});
  node.push("p", {"c"});
  const Pid pid = node.push("p", {"d", "e"}).pid;
  EXPECT_EQ(node.pop(4).claims.at(0).last, 3U);
  ack(pid, "d");
  EXPECT_EQ(node.pop(4).claims.at(0).first, 4U);
}

TEST_F(Pop, NewGroupsSkipTheBacklogButNotLaterPartitions) {
  node.push("old", {"a"});
  EXPECT_TRUE(run(named("g", Subscription::Mode::fresh)).claims.empty());
  node.push("young", {"b"});
  node.push("old", {"c"});
  PopCommand both = named("g", Subscription::Mode::fresh);
  both.partitions_max = 2;
  const auto out = run(std::move(both));
  ASSERT_EQ(out.claims.size(), 2U);
  EXPECT_EQ(out.claims[0].partition, "old");
  EXPECT_EQ(out.claims[0].first, 1U);
  EXPECT_EQ(out.claims[1].first, 0U);
}

TEST_F(Pop, QueueModeStartsAtTheOldestWhateverWasAsked) {
  node.push("p", {"a"});
  PopCommand pop = node.pop_command();
  pop.subscription.mode = Subscription::Mode::fresh;
  EXPECT_EQ(run(std::move(pop)).claims.at(0).first, 0U);
}

TEST_F(Pop, AnInstantSelectsTheFirstMessageStampedAtOrAfterIt) {
  node.push("p", {"a", "b"});
  node.now += kSecond;
  const std::int64_t instant = node.now;
  node.push("p", {"c"});
  PopCommand pop = named("g", Subscription::Mode::timestamp);
  pop.subscription.from_us = instant;
  EXPECT_EQ(run(std::move(pop)).claims.at(0).first, 2U);
  PopCommand later = named("later", Subscription::Mode::timestamp);
  later.subscription.from_us = instant + 100 * kSecond;
  EXPECT_TRUE(run(later).claims.empty());
  node.push("p", {"d"});
  EXPECT_TRUE(run(later).claims.empty());
  node.now = instant + 100 * kSecond;
  node.push("p", {"e"});
  EXPECT_EQ(run(std::move(later)).claims.at(0).first, 4U);
}

TEST_F(Pop, StoredSubscriptionWinsOverLaterRequests) {
  node.push("p", {"a", "b"});
  ASSERT_EQ(run(named("g", Subscription::Mode::all, 1)).claims.at(0).first, 0U);
  node.now += 61 * kSecond;
  EXPECT_EQ(run(named("g", Subscription::Mode::fresh, 1)).claims.at(0).first, 0U);
}

TEST_F(Pop, PinnedPopsOfUnregisteredGroupsUseTheirOwnCursorOnly) {
  const Pid one = node.push("p1", {"a"}).pid;
  node.push("p2", {"b"});
  PopCommand fresh = named("g", Subscription::Mode::fresh);
  fresh.partition = "p1";
  EXPECT_TRUE(run(fresh).claims.empty());
  EXPECT_EQ(node.cursor(one, "g")->committed, 0);
  EXPECT_EQ(node.store.rows(store::Keyspace::groups), 0U);
  node.push("p1", {"c"});
  EXPECT_EQ(run(fresh).claims.at(0).first, 1U);
  // Registered later with mode all: what the pinned cursor passed stays passed, the other partition's backlog
  // comes.
  ack(one, "c", "g");
  const auto out = run(named("g"));
  ASSERT_EQ(out.claims.size(), 1U);
  EXPECT_EQ(out.claims[0].partition, "p2");
}

TEST_F(Pop, AGroupRegisteredAfterAPinnedPopStillSeesWhatFollowsItsCursor) {
  node.push("p", {"a"});
  PopCommand pinned = named("g", Subscription::Mode::fresh);
  pinned.partition = "p";
  run(std::move(pinned));
  node.push("p", {"b"});
  EXPECT_EQ(run(named("g", Subscription::Mode::fresh)).claims.at(0).first, 1U);
}

TEST_F(Pop, BothGroupsThatWatchGetAPartitionsFirstMessage) {
  run(named("g1", Subscription::Mode::fresh));
  run(named("g2", Subscription::Mode::fresh));
  node.push("p", {"a"});
  EXPECT_EQ(run(named("g1")).claims.size(), 1U);
  EXPECT_EQ(run(named("g2")).claims.size(), 1U);
}

TEST_F(Pop, AMessagePushedInTheEntryThatRegistersTheGroupIsDelivered) {
  PushCommand push;
  push.batches.push_back(batch_of("q", "p", {"a"}));
  std::vector<Command> commands;
  commands.push_back(node.command(std::move(push)));
  commands.push_back(node.command(named("g", Subscription::Mode::fresh)));
  const auto outcomes = node.run(commands);
  EXPECT_EQ(std::get<PopOutcome>(outcomes[1].body).claims.size(), 1U);
}

TEST_F(Pop, DelayHoldsMessagesBackAndStopsTheRun) {
  node.configure({{"delayedProcessing", 2}});
  node.push("p", {"a"});
  const std::int64_t stamp = node.entries.back().now_us;
  node.now += kSecond;
  node.push("p", {"b"});
  const auto early = node.pop();
  EXPECT_TRUE(early.claims.empty());
  EXPECT_EQ(early.look_again_at, stamp + 2 * kSecond);
  node.now = stamp + 2 * kSecond;
  EXPECT_EQ(node.pop().claims.at(0).last, 0U);
}

TEST_F(Pop, AShorterDelayAppliesToStoredMessages) {
  node.configure({{"delayedProcessing", 1000}});
  node.pop();
  node.push("p", {"a"});
  node.now += 5 * kSecond;
  EXPECT_TRUE(node.pop().claims.empty());
  node.configure({{"delayedProcessing", 1}});
  EXPECT_EQ(node.pop().claims.size(), 1U);
}

TEST_F(Pop, WindowRestartsWithEveryMessage) {
  node.configure({{"windowBuffer", 2}});
  node.pop();
  node.push("p", {"a"});
  node.now += kSecond;
  node.push("p", {"b"});
  const std::int64_t newest = node.now;
  node.now += kSecond + kSecond / 2;
  const auto held = node.pop();
  EXPECT_TRUE(held.claims.empty());
  EXPECT_EQ(held.look_again_at, newest + 2 * kSecond);
  node.now = newest + 2 * kSecond;
  EXPECT_EQ(node.pop().claims.at(0).last, 1U);
}

// D4: the window restarts with every message, but not for longer than the limit after the first that waits.
TEST_F(Pop, WindowLetsGoAtTheLatestALimitAfterTheFirstWaitingMessage) {
  node.configure({{"windowBuffer", 2}, {"windowBufferMaxSeconds", 5}});
  const std::int64_t first = node.now;
  node.pop();
  for (int i = 0; i < 5; ++i) {
    node.push("p", {std::to_string(i)});
    const auto held = node.pop();
    EXPECT_TRUE(held.claims.empty()) << i;
    EXPECT_LE(*held.look_again_at, first + 5 * kSecond + 1'000'000) << i;
    node.now += kSecond;
  }
  node.now += 1'000;  // stamps are a little ahead of the clock
  node.push("p", {"5"});
  const auto out = node.pop();
  ASSERT_EQ(out.claims.size(), 1U);
  EXPECT_EQ(out.claims[0].last, 5U);
  // What comes next waits its own window.
  AckCommand all;
  all.items.push_back(node.ack_item(out.claims[0].pid, "5", AckStatus::completed, ""));
  node.one<AckOutcome>(std::move(all));
  node.push("p", {"6"});
  EXPECT_TRUE(node.pop().claims.empty());
  node.now += 2 * kSecond + 1'000;
  EXPECT_EQ(node.pop().claims.at(0).first, 6U);
}

TEST_F(Pop, ALimitBelowTheWindowIsWhatCounts) {
  node.configure({{"windowBuffer", 60}, {"windowBufferMaxSeconds", 3}});
  node.pop();
  const Pid pid = node.push("p", {"a"}).pid;
  const auto stamp =
      *node.store.last_at_or_below(store::Keyspace::txns, store::txns_prefix(pid), store::txns_key(pid, 0));
  const std::int64_t created = store::AppendRow::decode(stamp.value)->created_at;
  EXPECT_EQ(node.pending(pid), created + 3 * kSecond);
  EXPECT_EQ(node.pop().look_again_at, created + 3 * kSecond);
  node.now = created + 3 * kSecond;
  EXPECT_EQ(node.pop().claims.size(), 1U);
}

// S-2: from a rotating point, so that a partition which always has more does not keep others waiting.
TEST_F(Pop, APartitionWithMoreAfterItsAckGoesToTheBack) {
  for (const char* partition : {"p0", "p1", "p2"}) node.push(partition, {"a", "b", "c"});
  std::vector<std::string> order;
  for (int i = 0; i < 6; ++i) {
    const auto out = node.pop(1);
    ASSERT_EQ(out.claims.size(), 1U);
    order.push_back(out.claims[0].partition);
    ack(out.claims[0].pid, std::string(1, static_cast<char>('a' + out.claims[0].first)));
  }
  EXPECT_EQ(order, (std::vector<std::string>{"p0", "p1", "p2", "p0", "p1", "p2"}));
}

// C-1: each partition costs one of the batch, however long its span.
TEST_F(Pop, AConflatedPartitionCostsOneOfTheBatch) {
  for (const char* partition : {"p0", "p1", "p2"}) node.push(partition, {"a", "b", "c", "d"});
  PopCommand pop = named("g", Subscription::Mode::all, 2);
  pop.conflation = true;
  pop.partitions_max = 64;
  const auto out = run(std::move(pop));
  ASSERT_EQ(out.claims.size(), 2U);
  for (const PopClaim& claim : out.claims) EXPECT_EQ(claim.last - claim.deliver_from, 0U);
}

// HD-38
TEST_F(Pop, AClaimSaysThatTheLeaseBeforeItRanOut) {
  const Pid pid = node.push("p", {"a"}).pid;
  EXPECT_FALSE(node.pop().claims.at(0).after_expiry);
  node.now += 61 * kSecond;
  EXPECT_TRUE(node.pop().claims.at(0).after_expiry);
  AckCommand retry;
  retry.items.push_back(node.ack_item(pid, "a", AckStatus::retry, node.last_lease));
  node.one<AckOutcome>(std::move(retry));
  EXPECT_FALSE(node.pop().claims.at(0).after_expiry);
}

TEST_F(Pop, CommitOnDeliveryMovesTheCursorAndLeasesNothing) {
  const Pid pid = node.push("p", {"a", "b", "c"}).pid;
  PopCommand pop = node.pop_command(2);
  const auto out = node.consume(std::move(pop));
  EXPECT_EQ(out.claims.at(0).delivery_attempt, 1U);
  EXPECT_EQ(node.cursor(pid)->committed, 1);
  EXPECT_FALSE(node.cursor(pid)->worker);
  EXPECT_EQ(node.pop().claims.at(0).first, 2U);
}

TEST_F(Pop, LeaseTimeComesFromThePopElseTheQueue) {
  const Pid pid = node.push("p", {"a"}).pid;
  node.pop();
  EXPECT_EQ(*node.cursor(pid)->lease_expires, node.entries.back().now_us + 60 * kSecond);
  node.now += 60 * kSecond + 10;
  PopCommand pop = node.pop_command();
  pop.lease_seconds = 1;
  run(std::move(pop));
  EXPECT_EQ(*node.cursor(pid)->lease_expires, node.entries.back().now_us + kSecond);
}

TEST_F(Pop, HandBackDropsTheLeaseAndTheAttempt) {
  const Pid pid = node.push("p", {"a"}).pid;
  PopCommand pop = node.pop_command();
  HandBackCommand back{pop.group, pop.lease_id, {pid}, {}, {}};
  run(std::move(pop));
  std::vector<Command> commands;
  commands.push_back(node.command(back));
  node.run(commands);
  EXPECT_FALSE(node.cursor(pid)->worker);
  EXPECT_EQ(node.store.rows(store::Keyspace::leases_by_worker), 0U);
  EXPECT_EQ(node.pop().claims.at(0).delivery_attempt, 1U);
}

TEST_F(Pop, ConflationHandsOutTheNewestAndLeasesTheSpan) {
  const Pid pid = node.push("p", {"a", "b", "c"}).pid;
  PopCommand pop = named("g");
  pop.conflation = true;
  const auto out = run(pop);
  EXPECT_TRUE(out.conflation);
  EXPECT_FALSE(out.conflation_conflict);
  ASSERT_EQ(out.claims.size(), 1U);
  EXPECT_EQ(out.claims[0].first, 0U);
  EXPECT_EQ(out.claims[0].last, 2U);
  EXPECT_EQ(out.claims[0].deliver_from, 2U);
  AckCommand ack_old;
  ack_old.group = "g";
  ack_old.items.push_back(node.ack_item(pid, "a", AckStatus::completed, ""));
  EXPECT_FALSE(node.one<AckOutcome>(std::move(ack_old)).items[0].success);
  ack(pid, "c", "g");
  EXPECT_EQ(node.cursor(pid, "g")->committed, 2);
  EXPECT_FALSE(node.pending(pid, "g"));
}

TEST_F(Pop, StoredConflationWinsAndSaysSo) {
  node.push("p", {"a", "b"});
  run(named("plain"));
  PopCommand asks = named("plain");
  asks.conflation = true;
  const auto refused = run(std::move(asks));
  EXPECT_FALSE(refused.conflation);
  EXPECT_TRUE(refused.conflation_conflict);
  PopCommand first = named("last");
  first.conflation = true;
  run(std::move(first));
  PopCommand denies = named("last");
  denies.conflation = false;
  EXPECT_TRUE(run(std::move(denies)).conflation_conflict);
  EXPECT_TRUE(run(named("last")).conflation);
  EXPECT_FALSE(run(named("last")).conflation_conflict);
}

TEST_F(Pop, ConflatingPinnedPopRegistersAndSeedsEveryPartition) {
  const Pid one = node.push("p1", {"a"}).pid;
  const Pid two = node.push("p2", {"b", "c"}).pid;
  PopCommand pop = named("g");
  pop.partition = "p1";
  pop.conflation = true;
  EXPECT_EQ(run(std::move(pop)).claims.size(), 1U);
  EXPECT_EQ(node.store.rows(store::Keyspace::groups), 1U);
  EXPECT_TRUE(node.cursor(one, "g")->worker);
  EXPECT_EQ(node.cursor(two, "g")->committed, -1);
  EXPECT_TRUE(node.pending(two, "g"));
}

TEST_F(Pop, AutopilotSharesWhatIsReadyAndFollowsTheDrainRate) {
  for (int p = 0; p < 10; ++p) node.push("p" + std::to_string(p), {"a", "b"});
  PopCommand pop = node.pop_command();
  pop.autopilot_batch = pop.autopilot_partitions = true;
  std::vector<Command> commands;
  commands.push_back(node.command(pop));
  pop.lease_id = numbered_uuid(123'456);
  commands.push_back(node.command(pop));
  const auto outcomes = node.run(commands);
  const auto& first = std::get<PopOutcome>(outcomes[0].body);
  EXPECT_EQ(first.partitions_max, 5U);
  EXPECT_EQ(first.batch, 100U);
  EXPECT_EQ(std::get<PopOutcome>(outcomes[1].body).partitions_max, 3U);
  node.now += 1'000;  // two messages in a millisecond: 2,000 a second
  ack(first.claims[0].pid, "b");
  EXPECT_NEAR(run(std::move(pop)).batch, 400, 10);
}

TEST_F(Pop, RetentionMovesTheStartAndAnEmptiedPartitionMovesTheCursor) {
  const Pid pid = node.push("p", {"a", "b", "c", "d"}).pid;
  const auto retain_from = [&](std::int64_t offset) {
    const auto gate = node.store.write_gate();
    const Bytes key = store::partition_key(pid);
    auto row = *store::PartitionRow::decode(*node.store.get(store::Keyspace::partitions, key));
    row.log_start = offset;
    node.store.put(store::Keyspace::partitions, key, row.encode());
  };
  retain_from(2);
  EXPECT_EQ(node.pop(1).claims.at(0).first, 2U);
  node.now += 61 * kSecond;
  retain_from(4);
  EXPECT_TRUE(node.pop().claims.empty());
  EXPECT_EQ(node.cursor(pid)->committed, 3);
  EXPECT_FALSE(node.pending(pid));
}

}  // namespace
}  // namespace queen::machine

// Discovery pops: every queue of the tenant with the labels (api-messaging.md S-8, F-1, F-2).
#include <gtest/gtest.h>

#include <set>

#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;

class Discovery : public ::testing::Test {
 protected:
  PopCommand by(std::optional<std::string> space, std::optional<std::string> task = std::nullopt,
                std::uint32_t batch = 200, std::uint32_t partitions = 1) {
    PopCommand pop = node.pop_command(batch);
    pop.queue.clear();
    pop.labels = PopLabels{std::move(space), std::move(task)};
    pop.partitions_max = partitions;
    return pop;
  }
  PopOutcome run(PopCommand pop) { return node.one<PopOutcome>(std::move(pop)); }
  static std::multiset<std::string> queues_of(const PopOutcome& out) {
    std::multiset<std::string> names;
    for (const PopClaim& claim : out.claims) names.insert(claim.queue);
    return names;
  }
  Node node;
};

TEST_F(Discovery, WalksTheQueuesThatHaveEveryGivenLabelAndNoOthers) {
  node.push("p", {"a"}, "acme.bill.x");
  node.push("p", {"b"}, "acme.ship.x");
  node.push("p", {"c"}, "other.bill.x");
  node.push("p", {"d"}, "acme");
  EXPECT_EQ(queues_of(run(by("acme", "bill", 200, 64))), (std::multiset<std::string>{"acme.bill.x"}));
  EXPECT_EQ(queues_of(run(by(std::nullopt, "bill", 200, 64))), (std::multiset<std::string>{"other.bill.x"}));
  EXPECT_EQ(queues_of(run(by("acme", std::nullopt, 200, 64))),
            (std::multiset<std::string>{"acme", "acme.ship.x"}));
  EXPECT_TRUE(run(by("nobody")).claims.empty());
}

TEST_F(Discovery, SharesBatchAndPartitionsAndOneLease) {
  for (const char* queue : {"ns.a", "ns.b", "ns.c"}) node.push("p", {"1", "2", "3"}, queue);
  const auto two = run(by("ns", std::nullopt, 5, 3));
  ASSERT_EQ(two.claims.size(), 2U);
  EXPECT_EQ(two.claims[0].last + two.claims[1].last, 3U);  // three and two messages
  for (const PopClaim& claim : two.claims) EXPECT_EQ(node.cursor(claim.pid)->worker, node.last_lease);
  EXPECT_EQ(run(by("ns", std::nullopt, 200, 1)).claims.size(), 1U);
}

TEST_F(Discovery, ServesEveryQueueInTurn) {
  for (const char* queue : {"ns.a", "ns.b", "ns.c"})
    for (const char* partition : {"p", "q", "r"}) node.push(partition, {"1"}, queue);
  std::multiset<std::string> seen;
  for (int i = 0; i < 3; ++i) seen.merge(queues_of(run(by("ns"))));
  EXPECT_EQ(seen, (std::multiset<std::string>{"ns.a", "ns.b", "ns.c"}));
}

// F-1: also where the pop was full before it came there, so that nothing pushed meanwhile is missed.
TEST_F(Discovery, RegistersTheGroupInEveryMatchingQueueAndCreatesNone) {
  for (const char* queue : {"ns.a", "ns.b"}) node.push("p", {"1"}, queue);
  PopCommand all = by("ns", std::nullopt, 1);
  all.group = "g";
  all.subscription.mode = Subscription::Mode::all;
  EXPECT_EQ(run(std::move(all)).claims.size(), 1U);
  EXPECT_EQ(node.store.rows(store::Keyspace::groups), 2U);
  EXPECT_EQ(node.store.rows(store::Keyspace::queues), 2U);
  std::set<std::string> ids;
  node.store.scan(store::Keyspace::groups, {}, {}, [&](BytesView, BytesView value) {
    ids.insert(store::GroupRow::decode(value)->uuid.str());
    return true;
  });
  EXPECT_EQ(ids.size(), 2U);
  const std::uint64_t before = node.next_index;
  EXPECT_TRUE(run(by("nobody")).claims.empty());
  EXPECT_EQ(node.next_index, before);
}

TEST_F(Discovery, AGroupOfNowGetsWhatIsPushedLaterToAQueueThatItNeverReached) {
  for (const char* queue : {"ns.a", "ns.b"}) node.push("p", {"1"}, queue);
  PopCommand fresh = by("ns", std::nullopt, 1);
  fresh.group = "g";
  EXPECT_TRUE(run(fresh).claims.empty());
  node.push("p", {"2"}, "ns.b");
  const auto out = run(fresh);
  ASSERT_EQ(out.claims.size(), 1U);
  EXPECT_EQ(out.claims[0].queue, "ns.b");
  EXPECT_EQ(out.claims[0].first, 1U);
}

// 4.1: the queue's leaseTime does not count.
TEST_F(Discovery, LeasesForSixtySecondsUnlessItSaysOtherwise) {
  node.configure({{"leaseTime", 5}}, "q");
  ConfigureCommand label;
  label.queue = "q";
  label.texts["namespace"] = "ns";
  label.queue_uuid = numbered_uuid(node.next_uuid++);
  node.one<ConfigureOutcome>(std::move(label));
  const Pid pid = node.push("p", {"a"}).pid;
  run(by("ns"));
  EXPECT_EQ(*node.cursor(pid)->lease_expires - *node.cursor(pid)->lease_acquired, 60 * kSecond);
  node.now += 61 * kSecond;
  PopCommand longer = by("ns");
  longer.lease_seconds = 7;
  run(std::move(longer));
  EXPECT_EQ(*node.cursor(pid)->lease_expires - *node.cursor(pid)->lease_acquired, 7 * kSecond);
}

// C-2, C-3: each queue has the policy that its group was registered with.
TEST_F(Discovery, EachQueueKeepsItsOwnConflation) {
  for (const char* queue : {"ns.a", "ns.b"}) node.push("p", {"1", "2"}, queue);
  PopCommand registers = node.pop_command();
  registers.queue = "ns.a";
  registers.group = "g";
  registers.subscription.mode = Subscription::Mode::all;
  registers.conflation = true;
  node.one<PopOutcome>(std::move(registers));
  node.now += 61 * kSecond;
  PopCommand both = by("ns", std::nullopt, 200, 64);
  both.group = "g";
  both.subscription.mode = Subscription::Mode::all;
  const auto out = run(std::move(both));
  ASSERT_EQ(out.claims.size(), 2U);
  for (const PopClaim& claim : out.claims)
    EXPECT_EQ(claim.deliver_from, claim.queue == "ns.a" ? 1U : 0U) << claim.queue;
  EXPECT_TRUE(out.conflation);
}

TEST_F(Discovery, OtherTenantsQueuesAreNotSeen) {
  node.push("p", {"a"}, "ns.q");
  PopCommand pop = by("ns");
  EXPECT_TRUE(node.one<PopOutcome>(std::move(pop), "018f2b3c-0000-7000-8000-0000000000aa").claims.empty());
}

}  // namespace
}  // namespace queen::machine

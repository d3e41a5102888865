// A claim whose answer ended before a message that cannot be read: what the cursor says then (L-11, CR-5).
#include <gtest/gtest.h>

#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;

class CutClaim : public ::testing::Test {
 protected:
  CutClaim() { pid = node.push("p", {"a", "b", "c", "d", "e"}).pid; }
  PopOutcome pop(bool commit_on_delivery, std::uint32_t batch = 5) {
    PopCommand pop = node.pop_command(batch);
    pop.commit_on_delivery = commit_on_delivery;
    return node.one<PopOutcome>(std::move(pop));
  }
  HandBackOutcome run(HandBackCommand back, const Uuid& lease) {
    back.group = kQueueMode;
    back.lease_id = lease;
    return node.one<HandBackOutcome>(std::move(back));
  }
  HandBackOutcome settle(std::int64_t delivered, const Uuid& lease) {
    return run({{}, {}, {}, {}, {{pid, delivered}}}, lease);
  }

  Node node;
  Pid pid;
  Uuid lease() const { return *Uuid::parse(node.last_lease); }
};

// CR-5: a crash before the messages were read must bring them back.
TEST_F(CutClaim, CommitOnDeliverySettlesWhatWasHandedOutAndNothingBefore) {
  pop(true);
  EXPECT_EQ(node.cursor(pid)->committed, -1);
  EXPECT_TRUE(node.cursor(pid)->worker);
  EXPECT_TRUE(settle(4, lease()).lost.empty());
  EXPECT_EQ(node.cursor(pid)->committed, 4);
  EXPECT_EQ(node.cursor(pid)->total_consumed, 5U);
  EXPECT_EQ(node.cursor(pid)->attempt_count, 0U);
  EXPECT_FALSE(node.cursor(pid)->worker);
  EXPECT_FALSE(node.pending(pid));
}

TEST_F(CutClaim, WhatCouldNotBeReadIsNotSettled) {
  pop(true);
  settle(1, lease());
  EXPECT_EQ(node.cursor(pid)->committed, 1);
  EXPECT_EQ(node.cursor(pid)->total_consumed, 2U);
  const auto again = pop(true);
  ASSERT_EQ(again.claims.size(), 1U);
  EXPECT_EQ(again.claims[0].first, 2U);
  EXPECT_EQ(again.claims[0].delivery_attempt, 1U);
}

TEST_F(CutClaim, NothingHandedOutLeavesTheCursorWhereItWas) {
  pop(true);
  EXPECT_TRUE(settle(-1, lease()).lost.empty());
  EXPECT_EQ(node.cursor(pid)->committed, -1);
  EXPECT_FALSE(node.cursor(pid)->worker);
  EXPECT_EQ(node.cursor(pid)->attempt_count, 0U);
}

TEST_F(CutClaim, WhatSomebodyElseHasByNowIsNotSettled) {
  pop(true, 2);
  const Uuid first = lease();
  node.now += 3600 * kSecond;
  pop(true, 3);
  EXPECT_EQ(settle(1, first).lost, std::vector<Pid>{pid});
  EXPECT_EQ(node.cursor(pid)->committed, -1);
  EXPECT_EQ(node.cursor(pid)->worker, lease().str());
}

TEST_F(CutClaim, ALeaseEndsWithWhatWasHandedOutSoThatItsAckReleasesIt) {
  pop(false);
  const std::string lease_id = node.last_lease;
  run({{}, {}, {}, {{pid, 1}}, {}}, lease());
  EXPECT_EQ(node.cursor(pid)->batch_end, 1);
  AckCommand ack;
  ack.items = {node.ack_item(pid, "b", AckStatus::completed, lease_id)};
  EXPECT_TRUE(node.one<AckOutcome>(std::move(ack)).items[0].lease_released);
  EXPECT_EQ(node.cursor(pid)->committed, 1);
}

}  // namespace
}  // namespace queen::machine

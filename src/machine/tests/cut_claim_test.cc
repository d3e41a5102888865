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
  void cut(std::int64_t delivered, std::int64_t claimed) {
    HandBackCommand back;
    back.group = kQueueMode;
    back.lease_id = lease;
    back.cuts = {{pid, delivered, claimed}};
    std::vector<Command> commands;
    commands.push_back(node.command(std::move(back)));
    node.run(commands);
  }

  Node node;
  Pid pid;
  Uuid lease = numbered_uuid(2);  // that of the first pop: the push took number 1
};

TEST_F(CutClaim, WhatWasSettledOnDeliveryGoesBackToTheLastMessageHandedOut) {
  pop(true);
  EXPECT_EQ(node.cursor(pid)->committed, 4);
  cut(1, 4);
  EXPECT_EQ(node.cursor(pid)->committed, 1);
  EXPECT_EQ(node.cursor(pid)->total_consumed, 2U);
  const auto again = pop(true);
  ASSERT_EQ(again.claims.size(), 1U);
  EXPECT_EQ(again.claims[0].first, 2U);
}

TEST_F(CutClaim, NothingHandedOutLeavesTheCursorWhereItWas) {
  pop(true);
  cut(-1, 4);
  EXPECT_EQ(node.cursor(pid)->committed, -1);
}

TEST_F(CutClaim, WhatSomebodyElseWentOnFromStays) {
  pop(true, 2);
  pop(true, 3);
  cut(0, 1);
  EXPECT_EQ(node.cursor(pid)->committed, 4);
}

TEST_F(CutClaim, ALeaseEndsWithWhatWasHandedOutSoThatItsAckReleasesIt) {
  pop(false);
  const std::string lease_id = node.last_lease;
  lease = *Uuid::parse(lease_id);
  cut(1, 4);
  EXPECT_EQ(node.cursor(pid)->batch_end, 1);
  AckCommand ack;
  ack.items = {node.ack_item(pid, "b", AckStatus::completed, lease_id)};
  EXPECT_TRUE(node.one<AckOutcome>(std::move(ack)).items[0].lease_released);
  EXPECT_EQ(node.cursor(pid)->committed, 1);
}

}  // namespace
}  // namespace queen::machine

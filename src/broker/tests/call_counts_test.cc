// What a broker over real files counts of the calls that it answers.
#include <gtest/gtest.h>

#include "broker/meter.h"
#include "broker/tests/resources_rig.h"

namespace queen::broker::testing {
namespace {

class CallCountsTest : public ::testing::Test {
 protected:
  OpCounts of(const std::string& queue, const std::string& tenant = kTenant) {
    OpCounts out;
    for (const auto& row : rig_.broker().meter().queue_rows(tenant, 0, rig_.wall()))
      if (row.queue == queue) out += row.ops;
    return out;
  }
  OpCounts node() { return rig_.broker().meter().totals(); }
  Rig rig_;
};

TEST_F(CallCountsTest, APushCountsWhatItStored) {
  rig_.push("orders", "a", {"1", "2", "3"});
  rig_.push("orders", "b", {"4"});
  rig_.push("orders", "a", {"1", "5"});  // the first is a repeat
  EXPECT_EQ(of("orders")[Op::push_requests], 3U);
  EXPECT_EQ(of("orders")[Op::push_messages], 5U);
  EXPECT_EQ(of("orders")[Op::partitions_created], 2U);
  EXPECT_EQ(node()[Op::push_requests], 3U);
  EXPECT_EQ(node()[Op::push_messages], 5U);
}

TEST_F(CallCountsTest, QueuesAndTenantsAreCountedApart) {
  rig_.push("orders", "a", {"1"});
  rig_.push("bills", "a", {"1", "2"});
  rig_.push("orders", "a", {"1", "2", "3"}, kOther);
  EXPECT_EQ(of("orders")[Op::push_messages], 1U);
  EXPECT_EQ(of("bills")[Op::push_messages], 2U);
  EXPECT_EQ(of("orders", kOther)[Op::push_messages], 3U);
  EXPECT_EQ(node()[Op::push_messages], 6U);
}

TEST_F(CallCountsTest, APopCountsItsMessagesAndTheirDelay) {
  rig_.push("orders", "a", {"1", "2"});
  rig_.shift(5);
  rig_.pop("orders", "g");
  rig_.pop("orders", "g");  // leased: nothing to give
  EXPECT_EQ(of("orders")[Op::pop_requests], 2U);
  EXPECT_EQ(of("orders")[Op::pop_messages], 2U);
  EXPECT_EQ(of("orders")[Op::pop_empty], 1U);
  EXPECT_EQ(of("orders").lag.count, 2U);
  EXPECT_GE(of("orders").lag.max_us, 5U * kSecond);
  EXPECT_LT(of("orders").lag.max_us, 60U * kSecond);
}

TEST_F(CallCountsTest, AnAckCountsWhatWasCompletedAndWhatWasNot) {
  rig_.configure("orders", {{"retryLimit", 0}});
  rig_.push("orders", "a", {"1", "2"});
  rig_.push("orders", "b", {"3"});
  auto popped = rig_.pop("orders", "g");
  rig_.ack("g", popped);
  EXPECT_EQ(of("orders")[Op::ack_requests], 1U);
  EXPECT_EQ(of("orders")[Op::ack_success], 3U);
  EXPECT_EQ(of("orders")[Op::ack_failed], 0U);
  rig_.push("orders", "a", {"4"});
  popped = rig_.pop("orders", "g");
  rig_.ack("g", popped, machine::AckStatus::dlq);
  EXPECT_EQ(of("orders")[Op::ack_failed], 1U);
  EXPECT_EQ(of("orders")[Op::dead_letters], 1U);
  EXPECT_EQ(node()[Op::ack_requests], 2U);
  EXPECT_EQ(node().acks(), 4U);
}

TEST_F(CallCountsTest, AnAckOfNoPartitionIsCountedForTheNodeAlone) {
  machine::AckCommand body;
  for (const char* id : {"", "x", "999999"}) {
    machine::AckItem item;
    item.partition_id = id;
    item.transaction_id = "t";
    body.items.push_back(item);
  }
  Waiting<Answer<machine::Outcome>> waiting;
  rig_.broker().ack({kTenant, Uuid{}, std::move(body)}, waiting.callback());
  ASSERT_TRUE(waiting.get());
  EXPECT_EQ(node()[Op::ack_requests], 1U);
  EXPECT_EQ(node()[Op::ack_failed], 3U);
}

// What a group has of the queues, for the operator's status.
TEST_F(CallCountsTest, QueuesStandAsTheirCursorsSay) {
  rig_.push("orders", "a", {"1", "2", "3"});
  rig_.push("orders", "b", {"4"});
  rig_.push("bills", "a", {"5"});
  const auto popped = rig_.pop("orders", "g");
  auto standing = rig_.resources().standing(kTenant, {});
  ASSERT_EQ(standing.queues.size(), 2U);
  EXPECT_EQ(standing.queues[0].name, "bills");
  const QueueStanding& orders = standing.queues[1];
  EXPECT_EQ(orders.partitions, 2U);
  EXPECT_EQ(orders.figures.total, 4);
  EXPECT_EQ(orders.figures.unconsumed, 4);
  EXPECT_EQ(orders.figures.processing, 4);
  EXPECT_EQ(orders.leases, 2U);
  EXPECT_EQ(orders.leased_partitions, 2U);
  EXPECT_EQ(orders.leased_messages, 4);
  rig_.ack("g", popped, machine::AckStatus::dlq);
  standing = rig_.resources().standing(kTenant, {"orders", {}, {}});
  ASSERT_EQ(standing.queues.size(), 1U);
  EXPECT_EQ(standing.queues[0].figures.dead_letter, 4);
  EXPECT_EQ(standing.dead_partitions, 2U);
  ASSERT_EQ(standing.errors.size(), 1U);
  EXPECT_EQ(standing.errors[0], (std::pair<std::string, std::uint64_t>{"because", 4}));
  EXPECT_TRUE(rig_.resources().standing(kTenant, {"none", {}, {}}).queues.empty());
}

TEST_F(CallCountsTest, GaugesAreOfThisMoment) {
  rig_.push("orders", "a", {"1"});
  const NodeGauges now = rig_.broker().meter().gauges();
  EXPECT_GE(now.applied, 1U);
  EXPECT_GE(now.committed, now.applied);
  EXPECT_GE(now.log_index, now.committed);
  EXPECT_GE(now.log_files, 1U);
  EXPECT_GT(now.log_bytes, 0U);
  EXPECT_FALSE(now.storage_full);
}

}  // namespace
}  // namespace queen::broker::testing

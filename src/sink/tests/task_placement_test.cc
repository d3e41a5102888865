// Several nodes over one broker and one bucket: who runs which queue, when it moves, and that nothing is lost
// or doubled by it (s3-sink.md 6.3 to 6.5; acceptance lists F and G).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "sink/tests/manager_rig.h"

namespace queen::sink::test {
namespace {

constexpr std::int64_t kTtl = 9 * kSecond;  // of quick_node()
const std::vector<std::string> kSix = {"a", "b", "c", "d", "e", "f"};
const std::vector<std::string> kSeven = {"a", "b", "c", "d", "e", "f", "g"};

UnitSettings unit_of(const std::vector<std::string>& queues) {
  UnitSettings unit = quick_unit();
  unit.queues = queues;
  return unit;
}
void push_to_all(Cell& cell, const std::vector<std::string>& queues) {
  for (const std::string& queue : queues) cell.broker.push(queue, "p", R"({"n":1})");
}
std::size_t given_back(const std::vector<const Managed*>& nodes) {
  std::size_t count = 0;
  for (const Managed* node : nodes) count += node->log.count("queue_given_back");
  return count;
}
std::string instance_of(int node) {
  return "node-" + std::to_string(node) + "@h";
}
// How many queues each of the nodes holds, most first.
std::vector<int> spread(const Cell& cell, const std::vector<std::string>& queues, int nodes) {
  std::vector<int> out;
  for (int node = 1; node <= nodes; ++node) out.push_back(held_by(cell, queues, instance_of(node)));
  std::sort(out.rbegin(), out.rend());
  return out;
}
// Every queue is held, and no node holds more than its share: which shares the others end with is left to
// their turns.
bool is_spread(const Cell& cell, const std::vector<std::string>& queues, int nodes) {
  const std::vector<int> held = spread(cell, queues, nodes);
  const auto share = static_cast<int>(fair_share(queues.size(), static_cast<std::size_t>(nodes)));
  return held.front() <= share && held.back() >= 1 &&
         static_cast<std::size_t>(std::accumulate(held.begin(), held.end(), 0)) == queues.size();
}
void expect_right(Cell& cell, const std::string& queue) {
  const LakePath path{.prefix = "queen", .tenant = std::string(kDefaultTenant), .queue = queue};
  std::map<std::string, Bytes> own;
  for (auto& [key, body] : cell.store.objects())
    if (key.find("/queue=" + queue + "/") != std::string::npos) own.emplace(key, body);
  const LakeVerdict verdict = check(own, path, "default", Align::hour, cell.broker.queues[queue], true);
  EXPECT_TRUE(verdict.right()) << queue << "\n" << verdict.text();
}

// [F15]
TEST(Nodes, ALoneNodeOwnsEverythingMovesNothingAndLeavesNoRow) {
  Cell cell;
  push_to_all(cell, kSix);
  Managed node(cell, unit_of(kSix), instance_of(1));
  ASSERT_TRUE(cell.run_until([&] { return held_by(cell, kSix, instance_of(1)) == 6; }, 60 * kSecond));
  for (int i = 0; i < 200; ++i) {
    cell.run_for(kTtl / 10);
    ASSERT_EQ(held_by(cell, kSix, instance_of(1)), 6);
  }
  EXPECT_EQ(given_back({&node}), 0U);
  EXPECT_TRUE(cell.broker.live(presence_key("default", instance_of(1))));
  EXPECT_TRUE(node.drain(10 * kSecond));
  EXPECT_FALSE(cell.broker.live(presence_key("default", instance_of(1))));
  EXPECT_EQ(held_by(cell, kSix, instance_of(1)), 0);
}

// [F16] The first node has all six when the others come, one after the other.
TEST(Nodes, AStaggeredStartEndsEvenByMovingExactlyTheExcessOneAtATime) {
  Cell cell;
  push_to_all(cell, kSix);
  Managed first(cell, unit_of(kSix), instance_of(1));
  ASSERT_TRUE(cell.run_until([&] { return held_by(cell, kSix, instance_of(1)) == 6; }, 60 * kSecond));
  cell.run_for(2 * kTtl);
  std::size_t fewest_owned = 6;
  const auto watched = [&] {
    fewest_owned = std::min(fewest_owned, owners(cell, kSix).size());
    return spread(cell, kSix, 3) == std::vector<int>{2, 2, 2};
  };
  Managed second(cell, unit_of(kSix), instance_of(2));
  for (int i = 0; i < 1500; ++i) {  // fifteen seconds
    cell.run_for(10'000);
    watched();
  }
  Managed third(cell, unit_of(kSix), instance_of(3));
  EXPECT_TRUE(cell.run_until(watched, 600 * kSecond));
  EXPECT_EQ(fewest_owned, 5U) << "never more than one queue is free";
  const std::vector<const Managed*> nodes = {&first, &second, &third};
  EXPECT_EQ(given_back(nodes), 4U);
  const auto settled = owners(cell, kSix);
  for (int i = 0; i < 200; ++i) {
    cell.run_for(kTtl / 10);
    ASSERT_EQ(owners(cell, kSix), settled) << "an even state moves nothing";
  }
  EXPECT_EQ(given_back(nodes), 4U);
}

// [F17]
TEST(Nodes, ADeadNodesQueuesMoveWithinThreeTtlsAndItsReturnWithinTwoGivesItItsShare) {
  Cell cell;
  push_to_all(cell, kSix);
  Managed first(cell, unit_of(kSix), instance_of(1));
  Managed second(cell, unit_of(kSix), instance_of(2));
  Managed third(cell, unit_of(kSix), instance_of(3));
  const auto even = [&] { return spread(cell, kSix, 3) == std::vector<int>{2, 2, 2}; };
  ASSERT_TRUE(cell.run_until(even, 600 * kSecond));
  third.die();
  const auto moved = [&] {
    return held_by(cell, kSix, instance_of(1)) == 3 && held_by(cell, kSix, instance_of(2)) == 3;
  };
  EXPECT_TRUE(cell.run_until(moved, 3 * kTtl));
  cell.run_for(4 * kTtl);
  Managed again(cell, unit_of(kSix), instance_of(3));
  const std::int64_t back_at = cell.clock.mono_us();
  EXPECT_TRUE(cell.run_until(even, 600 * kSecond));
  // The others see it with their next beat, wait one whole TTL above their share, and give one queue each.
  EXPECT_LE(cell.clock.mono_us() - back_at, 2 * kTtl);
}

// [F18] Nodes come and go while records keep arriving.
TEST(Nodes, QueuesMoveUnderTrafficAndEveryRecordArrivesOnce) {
  Cell cell;
  push_to_all(cell, kSix);
  UnitSettings unit = unit_of(kSix);
  unit.max_window_us = 3 * kSecond;
  auto first = std::make_unique<Managed>(cell, unit, instance_of(1));
  std::unique_ptr<Managed> second, third;
  for (int step = 0; step < 200; ++step) {
    for (const std::string& queue : kSix) {
      cell.broker.push(queue, "p" + std::to_string(step % 4), "{\"n\":" + std::to_string(step) + "}");
    }
    cell.run_for(kSecond);
    if (step == 10) second = std::make_unique<Managed>(cell, unit, instance_of(2));
    if (step == 20) third = std::make_unique<Managed>(cell, unit, instance_of(3));
    if (step == 80) first.reset();  // drains
    if (step == 110) third->die();
    if (step == 150) first = std::make_unique<Managed>(cell, unit, instance_of(1));
  }
  const auto all_committed = [&] {
    return std::all_of(kSix.begin(), kSix.end(), [&](const std::string& queue) {
      const auto row = cell.broker.live(committed_key("default", queue));
      const auto& log = cell.broker.queues[queue];
      std::int64_t last = 0;
      for (const auto& [name, partition] : log.partitions) last = std::max(last, partition.written_at);
      return row && parse_committed(row->value)->t_end > last;
    });
  };
  EXPECT_TRUE(cell.run_until(all_committed, 120 * kSecond));
  for (const std::string& queue : kSix) expect_right(cell, queue);
}

// [F19]
TEST(Nodes, ANodeThatComesAndGoesWithinSecondsMovesNothing) {
  Cell cell;
  push_to_all(cell, kSix);
  Managed first(cell, unit_of(kSix), instance_of(1));
  ASSERT_TRUE(cell.run_until([&] { return held_by(cell, kSix, instance_of(1)) == 6; }, 60 * kSecond));
  cell.run_for(2 * kTtl);
  {
    Managed passer(cell, unit_of(kSix), instance_of(2));
    cell.run_for(4 * kSecond);
    EXPECT_TRUE(passer.drain(5 * kSecond));
  }
  cell.run_for(5 * kTtl);
  EXPECT_EQ(held_by(cell, kSix, instance_of(1)), 6);
  EXPECT_EQ(given_back({&first}), 0U);
}

// [G9]
TEST(Nodes, SevenQueuesSpreadOverThreeNodesAndFailOverWithinATtlOfACleanStop) {
  Cell cell;
  push_to_all(cell, kSeven);
  Managed first(cell, unit_of(kSeven), instance_of(1));
  Managed second(cell, unit_of(kSeven), instance_of(2));
  Managed third(cell, unit_of(kSeven), instance_of(3));
  EXPECT_TRUE(cell.run_until([&] { return is_spread(cell, kSeven, 3); }, 30 * kSecond));
  ASSERT_TRUE(third.drain(10 * kSecond));
  EXPECT_TRUE(cell.run_until([&] { return spread(cell, kSeven, 2) == std::vector<int>{4, 3}; }, kTtl));
}

// [G10]
TEST(Nodes, WhoseFirstReadsFailEndSpreadWithinTenSeconds) {
  Cell cell;
  push_to_all(cell, kSeven);
  const Link shaky{.fail_first_reads = 5};
  Managed first(cell, unit_of(kSeven), instance_of(1), quick_node(), shaky);
  Managed second(cell, unit_of(kSeven), instance_of(2), quick_node(), shaky);
  Managed third(cell, unit_of(kSeven), instance_of(3), quick_node(), shaky);
  EXPECT_TRUE(cell.run_until([&] { return is_spread(cell, kSeven, 3); }, 10 * kSecond));
}

// [G11]
TEST(Nodes, ALeaseIsGivenBackThroughFiveFailedCalls) {
  Cell cell;
  push_to_all(cell, {"a"});
  Managed node(cell, unit_of({"a"}), instance_of(1));
  ASSERT_TRUE(cell.run_until([&] { return held_by(cell, {"a"}, instance_of(1)) == 1; }, 60 * kSecond));
  cell.run_for(kSecond);
  cell.broker.fail_kv = 5;
  EXPECT_TRUE(node.drain(10 * kSecond));
  EXPECT_EQ(cell.broker.fail_kv, 0);
  EXPECT_FALSE(cell.broker.live(lease_key("default", "a")));
  EXPECT_FALSE(cell.broker.live(presence_key("default", instance_of(1))));
}

// [G3]
TEST(Nodes, AQueueHeldElsewhereIsLeftAloneAlsoAtTheStop) {
  Cell cell;
  push_to_all(cell, {"a"});
  const std::string row = encode(LeaseRow{.instance = "node-9@x", .incarnation = "0a", .since_ms = 1});
  cell.broker.put_behind(lease_key("default", "a"), row);
  const std::uint64_t version = cell.broker.live(lease_key("default", "a"))->version;
  Managed node(cell, unit_of({"a"}), instance_of(1));
  cell.run_for(5 * kTtl);
  EXPECT_THAT(node.status(), ::testing::HasSubstr(R"("ownedHere":false,"heldBy":"node-9@x","state":"held")"));
  EXPECT_TRUE(node.drain(5 * kSecond));
  EXPECT_EQ(cell.broker.live(lease_key("default", "a"))->value, row);
  EXPECT_EQ(cell.broker.live(lease_key("default", "a"))->version, version);
  EXPECT_TRUE(cell.store.objects().empty());
}

// A queue that does not exist is in no share: two nodes with two real queues and four names without one hold
// one real queue each.
TEST(Nodes, QueuesThatDoNotExistAreInNoShare) {
  Cell cell;
  push_to_all(cell, {"a", "b"});
  Managed first(cell, unit_of(kSix), instance_of(1));
  cell.run_for(5 * kTtl);
  EXPECT_EQ(first.number("queues"), 2);
  EXPECT_EQ(first.number("share"), 2);
  ASSERT_EQ(held_by(cell, {"a", "b"}, instance_of(1)), 2);
  Managed second(cell, unit_of(kSix), instance_of(2));
  const auto even = [&] { return spread(cell, {"a", "b"}, 2) == std::vector<int>{1, 1}; };
  EXPECT_TRUE(cell.run_until(even, 10 * kTtl));
  cell.run_for(10 * kTtl);
  EXPECT_TRUE(even());
  push_to_all(cell, {"c", "d", "e", "f"});
  EXPECT_TRUE(cell.run_until([&] { return spread(cell, kSix, 2) == std::vector<int>{3, 3}; }, 60 * kTtl));
  EXPECT_TRUE(cell.run_until([&] { return first.number("queues") == 6; }, 10 * kTtl));
}

}  // namespace
}  // namespace queen::sink::test

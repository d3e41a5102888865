// Figures of queues and partitions: api-messaging.md 10.3, HD-37.
#include <fmt/format.h>

#include "broker/tests/resources_rig.h"

namespace queen::broker {
namespace {

using machine::AckStatus;
using machine::Subscription;
using testing::depth_text;
using testing::kOther;
using testing::kTenant;
using testing::Rig;

constexpr std::size_t kMany = 1000;

std::string text(const Figures& figures) {
  return fmt::format("{} {} {} {} {} {}", figures.total, figures.unconsumed, figures.waiting(),
                     figures.processing, figures.completed(), figures.dead_letter);
}

TEST(QueueReads, AQueueIsMeasuredByItsSlowestNamedGroup) {
  Rig rig;
  rig.push("q", "a", {"1", "2", "3", "4"});
  EXPECT_EQ(text(rig.resources().queue(kTenant, "q", kMany)->totals), "4 4 4 0 0 0");
  rig.ack(std::string(machine::kQueueMode), rig.pop("q", std::string(machine::kQueueMode), 3));
  EXPECT_EQ(text(rig.resources().queue(kTenant, "q", kMany)->totals), "4 1 1 0 3 0");
  // From now on named groups count, and the queue's own mode does not.
  rig.ack("g", rig.pop("q", "g", 2));
  EXPECT_EQ(text(rig.resources().queue(kTenant, "q", kMany)->totals), "4 2 2 0 2 0");
  rig.pop("q", "h", 1);
  EXPECT_EQ(text(rig.resources().queue(kTenant, "q", kMany)->totals), "4 4 3 1 0 0");
}

// operations.md 6.3: each live lease counts, in all at most what is unconsumed.
TEST(QueueReads, LeasesAreCountedUpToWhatIsUnconsumed) {
  Rig rig;
  rig.push("q", "a", {"1", "2", "3"});
  rig.pop("q", "g", 1);
  rig.pop("q", "h", 1);
  EXPECT_EQ(text(rig.resources().queue(kTenant, "q", kMany)->totals), "3 3 1 2 0 0");
  rig.pop("q", "i", 3);
  EXPECT_EQ(text(rig.resources().queue(kTenant, "q", kMany)->totals), "3 3 0 3 0 0");
  // A lease of queue mode is none of what the named groups have before them.
  rig.shift(61);
  for (const char* group : {"g", "h", "i"}) rig.ack(group, rig.pop("q", group));
  rig.pop("q", std::string(machine::kQueueMode), 3);
  EXPECT_EQ(text(rig.resources().queue(kTenant, "q", kMany)->totals), "3 0 0 0 3 0");
}

// HD-37
TEST(QueueReads, NothingIsLeftAfterExpiryNackAndDeadLetter) {
  Rig rig;
  rig.push("q", "a", {"1", "2"});
  rig.pop("q", "g");
  EXPECT_EQ(text(rig.resources().queue(kTenant, "q", kMany)->totals), "2 2 0 2 0 0");
  rig.shift(61);
  EXPECT_EQ(text(rig.resources().queue(kTenant, "q", kMany)->totals), "2 2 2 0 0 0");
  rig.ack("g", rig.pop("q", "g"), AckStatus::failed);
  rig.ack("g", rig.pop("q", "g", 1), AckStatus::dlq);
  rig.ack("g", rig.pop("q", "g"));
  EXPECT_EQ(text(rig.resources().queue(kTenant, "q", kMany)->totals), "2 0 0 0 1 1");
  EXPECT_EQ(depth_text(rig.depth("q", "g")), "a:0/0 ");
  const auto overview = rig.resources().overview(kTenant);
  ASSERT_TRUE(overview);
  EXPECT_EQ(text(overview->totals), "2 0 0 0 1 1");
  EXPECT_EQ(overview->lagging, 0U);
  EXPECT_FALSE((**rig.resources().busiest(kTenant, "q", 5, kMany)).partitions[0].oldest_unconsumed_at);
}

TEST(QueueReads, PartitionsComeByNameAndTotalsCoverThoseThatAreNotListed) {
  Rig rig;
  for (const char* name : {"c", "a", "b"}) rig.push("q", name, {"1"});
  rig.ack("g", rig.pop("q", "g"));
  const auto all = rig.resources().queue(kTenant, "q", kMany);
  ASSERT_EQ(all->partitions.size(), 3U);
  EXPECT_EQ(all->partitions[0].name + all->partitions[1].name + all->partitions[2].name, "abc");
  EXPECT_EQ(all->partitions[0].consumed, 1);
  EXPECT_EQ(all->partitions[0].oldest_at, all->partitions[0].newest_at);
  EXPECT_GT(all->partitions[0].figures.retained_bytes, 0);
  EXPECT_FALSE(all->truncated);
  const auto some = rig.resources().queue(kTenant, "q", 2);
  EXPECT_TRUE(some->truncated);
  EXPECT_EQ(some->partitions[0].name + some->partitions[1].name, "ac");
  EXPECT_EQ(some->totals.total, 3);
  EXPECT_EQ(some->totals.retained_bytes, all->totals.retained_bytes);
}

TEST(QueueReads, SizesComeInCreationOrderUpToTheCap) {
  Rig rig;
  for (const char* name : {"c", "a", "b"}) rig.push("q", name, {"1"});
  const auto all = rig.resources().sizes(kTenant, "q", 3);
  ASSERT_EQ(all->partitions.size(), 3U);
  EXPECT_FALSE(all->truncated);
  EXPECT_EQ(all->partitions[0].first + all->partitions[1].first + all->partitions[2].first, "cab");
  EXPECT_GT(all->partitions[0].second, 0);
  const auto some = rig.resources().sizes(kTenant, "q", 2);
  EXPECT_EQ(some->partitions.size(), 2U);
  EXPECT_TRUE(some->truncated);
}

TEST(QueueReads, DepthOfAGroupIsWhatItHasNotFinished) {
  Rig rig;
  rig.push("q", "a", {"1", "2", "3"});
  rig.push("q", "b", {"4"});
  EXPECT_EQ(depth_text(rig.depth("q", "nobody")), "a:3/0 b:1/0 ");
  rig.ack("g", rig.pop("q", "g", 1));
  rig.pop("q", "g", 1);
  const std::string before = depth_text(rig.depth("q", "g"));
  EXPECT_TRUE(before == "a:2/1 b:1/0 " || before == "a:2/0 b:1/1 " || before == "a:3/1 b:0/0 ") << before;
  EXPECT_FALSE(rig.depth("q", "g").conflation);
}

// F-3: what was there before a group that starts at the newest is none of its work.
TEST(QueueReads, DepthOfAGroupThatStartsNowCountsFromItsFirstContact) {
  Rig rig;
  rig.push("q", "old", {"1", "2"});
  rig.push("q", "both", {"3"});
  rig.shift(1);
  rig.pop("q", "g", 200, Subscription::Mode::fresh);
  EXPECT_EQ(depth_text(rig.depth("q", "g")), "old:0/0 both:0/0 ");
  rig.shift(1);
  rig.push("q", "both", {"4", "5"});
  rig.push("q", "new", {"6"});
  EXPECT_EQ(depth_text(rig.depth("q", "g")), "old:0/0 both:2/0 new:1/0 ");
  rig.ack("g", rig.pop("q", "g"));
  EXPECT_EQ(depth_text(rig.depth("q", "g")), "old:0/0 both:0/0 new:0/0 ");
}

TEST(QueueReads, DepthWithoutAGroupIsThatOfTheOneFurthestBehind) {
  Rig rig;
  rig.push("q", "a", {"1", "2", "3"});
  EXPECT_EQ(depth_text(rig.depth("q")), "a:3/0 ");
  rig.ack("g", rig.pop("q", "g", 2));
  EXPECT_EQ(depth_text(rig.depth("q")), "a:1/0 ");
  rig.push("q", "b", {"4"});
  // Registered everywhere, with a cursor in `a` alone: at the start of `b`.
  rig.ack("g", rig.pop("q", "g", 1));
  const std::string one_left = depth_text(rig.depth("q"));
  EXPECT_TRUE(one_left == "a:0/0 b:1/0 " || one_left == "a:1/0 b:0/0 ") << one_left;
  rig.pop("q", "h", 1);
  const std::string behind = depth_text(rig.depth("q"));
  EXPECT_TRUE(behind == "a:3/1 b:1/0 " || behind == "a:3/0 b:1/1 ") << behind;
}

TEST(QueueReads, BusiestComesFirstAndTheCapIsSaid) {
  Rig rig;
  rig.push("q", "one", {"1"});
  rig.push("q", "three", {"1", "2", "3"});
  rig.push("r", "two", {"1", "2"});
  rig.shift(100);
  const auto all = rig.resources().busiest(kTenant, std::nullopt, 2, kMany);
  ASSERT_TRUE(all && *all);
  ASSERT_EQ((*all)->partitions.size(), 2U);
  EXPECT_EQ((*all)->partitions[0].name + (*all)->partitions[1].name, "threetwo");
  EXPECT_EQ((*all)->partitions[0].pending, 3);
  EXPECT_GE((*all)->now_us - *(*all)->partitions[0].oldest_unconsumed_at, 100 * testing::kSecond);
  EXPECT_FALSE((*all)->truncated);
  EXPECT_TRUE((**rig.resources().busiest(kTenant, std::nullopt, 2, 2)).truncated);
  EXPECT_EQ((**rig.resources().busiest(kTenant, "r", 9, kMany)).partitions.size(), 1U);
  EXPECT_FALSE(*rig.resources().busiest(kTenant, "none", 9, kMany));
}

TEST(QueueReads, OverviewSumsUpAndKnowsTheLag) {
  Rig rig;
  rig.configure("acme.read", {}, {{"namespace", "acme"}, {"task", "read"}});
  rig.configure("acme.write", {}, {{"namespace", "acme"}, {"task", ""}});
  rig.push("acme.read", "a", {"1", "2", "3"});
  rig.push("acme.write", "b", {"4"});
  rig.shift(50);
  rig.ack("g", rig.pop("acme.read", "g", 2));
  const auto view = rig.resources().overview(kTenant);
  ASSERT_TRUE(view);
  EXPECT_EQ(fmt::format("{} {} {} {}", view->queues, view->partitions, view->namespaces, view->tasks),
            "2 2 1 1");
  EXPECT_EQ(text(view->totals), "4 2 2 0 2 0");
  EXPECT_EQ(view->lagging, 2U);
  EXPECT_EQ(view->offsets.most, 1);
  EXPECT_GE(view->time_us.most, 50 * testing::kSecond);
  EXPECT_LT(view->time_us.most, 100 * testing::kSecond);
}

// RT-10: the log knows the stamps whose rows have left RAM.
TEST(QueueReads, LagIsKnownWithoutRows) {
  Rig rig;
  rig.configure("q", {{"dedupWindowSeconds", 1'000}});
  for (const char* id : {"1", "2", "3"}) {
    rig.push("q", "a", {id});
    rig.shift(10);
  }
  rig.pop("q", "fresh", 200, Subscription::Mode::fresh);
  rig.shift(1);
  rig.push("q", "a", {"4"});
  rig.pass(2'000);
  rig.ack("g", rig.pop("q", "g", 1));
  const auto busy = rig.resources().busiest(kTenant, "q", 1, kMany);
  ASSERT_TRUE(busy && *busy);
  const std::int64_t age = (*busy)->now_us - *(*busy)->partitions[0].oldest_unconsumed_at;
  EXPECT_EQ(age / testing::kSecond / 10, 202);
  EXPECT_EQ(rig.resources().overview(kTenant)->time_us.most / testing::kSecond / 10, 202);
  EXPECT_EQ(depth_text(rig.depth("q", "fresh")), "a:1/0 ");
}

// 1.2: another tenant's queue does not exist.
TEST(QueueReads, NothingOfAnotherTenantIsSeen) {
  Rig rig;
  rig.push("q", "a", {"1"});
  EXPECT_FALSE(rig.resources().queue(kOther, "q", kMany));
  EXPECT_FALSE(rig.resources().sizes(kOther, "q", kMany));
  EXPECT_FALSE(*rig.resources().depth(kOther, "q", std::nullopt));
  EXPECT_FALSE(*rig.resources().busiest(kOther, "q", 1, kMany));
  EXPECT_TRUE((**rig.resources().busiest(kOther, std::nullopt, 1, kMany)).partitions.empty());
  EXPECT_EQ(rig.resources().overview(kOther)->queues, 0U);
}

// N-4
TEST(QueueReads, ABarrierPassesAndAStoppedNodeRefusesIt) {
  Rig rig;
  Waiting<Answer<void>> first;
  rig.broker().barrier(first.callback());
  EXPECT_TRUE(first.get());
  rig.broker().stop();
  Waiting<Answer<void>> second;
  rig.broker().barrier(second.callback());
  const auto refused = second.get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "retry");
}

}  // namespace
}  // namespace queen::broker

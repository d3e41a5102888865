// Keys and boundaries ([I9], [I12]; docs/formats/bucket.md).
#include "sink/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace queen::sink {
namespace {

const LakePath kRides{"queen", "00000000-0000-0000-0000-000000000001", "rides"};
const std::string kRoot = "queen/tenant=00000000-0000-0000-0000-000000000001/queue=rides/";
const WindowBounds kWindow{57, 1794042000000000, 1794042291004417};

TEST(Keys, OfDataObjects) {
  const std::string run = "w-0000000057-1794042000000000-1794042291004417";
  EXPECT_EQ(data_key(kRides, Align::hour, kWindow, "jsonl.zst"),
            kRoot + "dt=2026-11-07/hour=09/" + run + ".jsonl.zst");
  EXPECT_EQ(data_key(kRides, Align::none, kWindow, "jsonl"),
            kRoot + "dt=2026-11-07/hour=09/" + run + ".jsonl");
  EXPECT_EQ(data_key(kRides, Align::day, kWindow, "jsonl.gz"), kRoot + "dt=2026-11-07/" + run + ".jsonl.gz");
  const PartitionRun part{"bike/7 é", 900, 911};
  EXPECT_EQ(
      data_key(kRides, Align::hour, kWindow, "jsonl.zst", &part),
      kRoot + "dt=2026-11-07/hour=09/" + run + "-p-bike%2F7%20%C3%A9-000000000900-000000000911.jsonl.zst");
}

TEST(Keys, OfSidecars) {
  const std::string root = "queen/_queen/tenant=00000000-0000-0000-0000-000000000001/queue=rides/";
  EXPECT_EQ(manifest_key(kRides, 57), root + "windows/0000000057.json");
  EXPECT_EQ(checkpoint_key(kRides, 40), root + "checkpoint/0000000040.json.zst");
  EXPECT_EQ(checkpoint_prefix(kRides), root + "checkpoint/");
}

TEST(Keys, OfACheckpointAreReadBackAndOthersAreNot) {
  EXPECT_EQ(parse_checkpoint_key(kRides, checkpoint_key(kRides, 40)), 40U);
  EXPECT_EQ(parse_checkpoint_key(kRides, checkpoint_key(kRides, 12345678901)), 12345678901U);
  const std::string prefix = checkpoint_prefix(kRides);
  for (const std::string& key :
       {prefix + "x.json.zst", prefix + ".json.zst", prefix + "40.json", prefix + "-4.json.zst",
        prefix + "4/0.json.zst", prefix + "99999999999999999999.json.zst", manifest_key(kRides, 40),
        std::string("0000000040.json.zst"), prefix + " 40.json.zst"})
    EXPECT_EQ(parse_checkpoint_key(kRides, key), std::nullopt) << key;
}

TEST(Keys, SortInCommitOrderAndNeverAddASlash) {
  std::vector<std::string> keys;
  for (std::uint64_t k : {1U, 9U, 10U, 99U, 1000U})
    keys.push_back(data_key(kRides, Align::hour, {k, kWindow.t_start, kWindow.t_end}, "jsonl"));
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  const PartitionRun part{"../../x/y=z", 0, 1};
  LakePath evil = kRides;
  evil.queue = "a/../b/_queen";
  const auto slashes = [](const std::string& key) { return std::count(key.begin(), key.end(), '/'); };
  EXPECT_EQ(slashes(data_key(evil, Align::hour, kWindow, "jsonl", &part)),
            slashes(data_key(kRides, Align::hour, kWindow, "jsonl")));
}

TEST(Keys, OfTwoTenantsNeverCollide) {
  const LakePath one{"queen", "a", "b"}, two{"queen", "a/queue=b", "b"};
  EXPECT_NE(data_key(one, Align::hour, kWindow, "jsonl"), data_key(two, Align::hour, kWindow, "jsonl"));
  EXPECT_FALSE(manifest_key(two, 1).starts_with("queen/_queen/tenant=a/"));
}

TEST(Keys, WriteTimesBefore1970AsZeroButTheRightDay) {
  const WindowBounds early{1, -1, 5};
  EXPECT_EQ(data_key(kRides, Align::hour, early, "jsonl"),
            kRoot + "dt=1969-12-31/hour=23/w-0000000001-0000000000000000-0000000000000005.jsonl");
}

// The retention hold builds the same key, byte for byte.
TEST(KvKeys, EncodeTheQueueAsTheRetentionHoldDoes) {
  EXPECT_EQ(committed_key("default", "a b/ü:c"), "s3:default:a%20b%2F%C3%BC%3Ac:committed");
  EXPECT_EQ(intent_key("default", "rides"), "s3:default:rides:intent");
  EXPECT_EQ(lease_key("s.1", "rides"), "s3:s.1:rides:lease");
}

TEST(KvKeys, NoQueueFallsUnderThePresencePrefix) {
  EXPECT_EQ(presence_key("default", "node-2@broker-1"), "s3:default:node=node-2%40broker-1");
  for (const char* queue : {"node", "node=", "node=x", "node:x"})
    EXPECT_FALSE(lease_key("default", queue).starts_with(presence_prefix("default"))) << queue;
}

TEST(Boundaries, FloorAndNextForTimesOnBothSidesOf1970) {
  constexpr std::int64_t hour = 3'600'000'000;
  EXPECT_EQ(align_floor(Align::hour, hour + 1), hour);
  EXPECT_EQ(align_floor(Align::hour, hour), hour);
  EXPECT_EQ(align_floor(Align::hour, -1), -hour);
  EXPECT_EQ(align_floor(Align::hour, -hour), -hour);
  EXPECT_EQ(align_floor(Align::day, -hour), -24 * hour);
  EXPECT_EQ(align_floor(Align::none, -7), -7);
  EXPECT_EQ(next_boundary(Align::hour, hour), 2 * hour);
  EXPECT_EQ(next_boundary(Align::hour, hour - 1), hour);
  EXPECT_EQ(next_boundary(Align::hour, -1), 0);
  EXPECT_EQ(next_boundary(Align::hour, -hour), 0);
  EXPECT_EQ(next_boundary(Align::day, 25 * hour), 48 * hour);
  EXPECT_EQ(next_boundary(Align::none, 5), std::nullopt);
}

TEST(Names, AreReadBack) {
  for (const Align align : {Align::hour, Align::day, Align::none})
    EXPECT_EQ(parse_align(name_of(align)), align);
  for (const Layout layout : {Layout::merged, Layout::per_partition})
    EXPECT_EQ(parse_layout(name_of(layout)), layout);
  EXPECT_EQ(parse_layout("perpartition"), std::nullopt);
}

}  // namespace
}  // namespace queen::sink

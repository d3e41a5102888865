// From a plan to objects and a manifest (docs/formats/bucket.md).
#include "sink/object_builder.h"

#include <gtest/gtest.h>

#include "s3/digests.h"

namespace queen::sink {
namespace {

const LakePath kPath{"queen", "t", "q"};

ObjectFrame frame_of(const WindowFormat& format) {
  return {format, kPath, Align::hour, "1.2.3"};
}
const WindowFormat kPlain{{lake::Format::jsonl, lake::Codec::none}, Layout::merged};

WindowPlan sample_plan() {
  static const auto text = std::make_shared<const std::string>("x");
  WindowPlan plan;
  plan.bounds = {3, 3'600'000'000, 7'200'000'000};
  plan.partitions.push_back({"a",
                             {{5, 3'600'000'001, "t1", "42.00", lake::Payload::json, text},
                              {6, 3'600'000'002, "t2", "", lake::Payload::null, text}}});
  plan.partitions.push_back({"b/1", {{0, 3'600'000'003, "t3", "{}", lake::Payload::json, text}}});
  plan.lost = {{"c", 1, 2}};
  plan.records = 3;
  return plan;
}

TEST(ObjectBuilder, MergedIsOneObject) {
  const WindowPlan plan = sample_plan();
  ASSERT_EQ(object_count(plan, Layout::merged), 1U);
  const auto built = build_object(plan, 0, frame_of(kPlain));
  ASSERT_TRUE(built);
  EXPECT_EQ(
      *built->body,
      "{\"partition\":\"a\",\"offset\":5,\"transactionId\":\"t1\",\"ts\":\"1970-01-01T01:00:00.000001Z\","
      "\"payload\":42.00}\n"
      "{\"partition\":\"a\",\"offset\":6,\"transactionId\":\"t2\",\"ts\":\"1970-01-01T01:00:00.000002Z\","
      "\"payload\":null}\n"
      "{\"partition\":\"b/"
      "1\",\"offset\":0,\"transactionId\":\"t3\",\"ts\":\"1970-01-01T01:00:00.000003Z\",\"payload\":{}}\n");
  EXPECT_EQ(built->entry.key, data_key(kPath, Align::hour, plan.bounds, "jsonl"));
  EXPECT_EQ(built->entry.bytes, built->body->size());
  EXPECT_EQ(built->entry.records, 3U);
  EXPECT_EQ(built->entry.sha256, s3::sha256_hex(*built->body));
  EXPECT_EQ(built->entry.run, std::nullopt);
  EXPECT_EQ(built->content_type, "application/x-ndjson");
}

TEST(ObjectBuilder, PerPartitionIsOneObjectEachNamingItsRun) {
  const WindowPlan plan = sample_plan();
  WindowFormat format = kPlain;
  format.layout = Layout::per_partition;
  ASSERT_EQ(object_count(plan, format.layout), 2U);
  const auto first = build_object(plan, 0, frame_of(format));
  const auto second = build_object(plan, 1, frame_of(format));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->entry.run, (PartitionRun{"a", 5, 6}));
  EXPECT_TRUE(first->entry.key.ends_with("-p-a-000000000005-000000000006.jsonl"));
  EXPECT_TRUE(second->entry.key.ends_with("-p-b%2F1-000000000000-000000000000.jsonl"));
  EXPECT_EQ(first->entry.records + second->entry.records, 3U);
}

TEST(ObjectBuilder, GivesTheSameBytesTwice) {
  const WindowFormat format{{lake::Format::jsonl, lake::Codec::zstd}, Layout::merged};
  EXPECT_EQ(*build_object(sample_plan(), 0, frame_of(format))->body,
            *build_object(sample_plan(), 0, frame_of(format))->body);
}

TEST(ObjectBuilder, PassesOnWhatTheWriterRefuses) {
  WindowPlan plan = sample_plan();
  plan.partitions[0].records[1].offset = 5;
  plan.partitions[0].records[1].ts = plan.partitions[0].records[0].ts;
  const auto built = build_object(plan, 0, frame_of(kPlain));
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, Errc::invalid);
}

TEST(ObjectBuilder, TheManifestSumsItsObjects) {
  const WindowPlan plan = sample_plan();
  const auto built = build_object(plan, 0, frame_of(kPlain));
  const Manifest manifest = make_manifest(plan, {built->entry}, kPlain, "default", kPath, "w", 1'500);
  EXPECT_EQ(manifest.records, 3U);
  EXPECT_EQ(manifest.bytes, built->body->size());
  EXPECT_EQ(manifest.partitions, 2U);
  EXPECT_EQ(manifest.min_ts, 3'600'000'001);
  EXPECT_EQ(manifest.max_ts, 3'600'000'003);
  EXPECT_EQ(manifest.lost, plan.lost);
  EXPECT_TRUE(matches(manifest, make_intent(plan.bounds, kPlain, "w"), "default", kPath));
}

TEST(ObjectBuilder, WeighsARecord) {
  EXPECT_EQ(weight_of("part", {0, 0, "id", "12345", lake::Payload::json, nullptr}), 64U + 4 + 2 + 5);
  EXPECT_EQ(weight_of("part", {0, 0, "id", "", lake::Payload::null, nullptr}), 64U + 4 + 2 + 4);
}

}  // namespace
}  // namespace queen::sink

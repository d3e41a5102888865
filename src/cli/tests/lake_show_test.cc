#include "cli/lake_show.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample_lake.h"

namespace queen::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> cat(SampleLake& lake, const LakeStretch& stretch = {},
                             const std::optional<std::string>& partition = std::nullopt) {
  std::vector<std::string> lines;
  const auto done = print_records(lake.bucket, stretch, partition, [&](const std::string& line) {
    lines.push_back(line);
    return true;
  });
  if (!done) lines.push_back("error: " + done.error().what);
  return lines;
}

std::vector<std::uint64_t> windows(SampleLake& lake, const LakeStretch& stretch) {
  std::vector<std::uint64_t> numbers;
  const auto done = list_windows(lake.bucket, stretch, LakeText::plain, [&](const std::string& line) {
    numbers.push_back(std::stoull(line));
    return true;
  });
  EXPECT_TRUE(done) << done.error().what;
  return numbers;
}

class LakeCat : public testing::TestWithParam<lake::Kind> {};

TEST_P(LakeCat, PrintsTheSameLinesWhateverTheFormat) {
  SampleLake lake(sample_windows(), GetParam());
  std::vector<std::string> expected;
  for (const auto& window : sample_windows())
    for (const auto& record : window.records) expected.push_back(line_of(record));
  EXPECT_EQ(cat(lake), expected);
}

INSTANTIATE_TEST_SUITE_P(Kinds, LakeCat,
                         testing::Values(lake::Kind{lake::Format::jsonl, lake::Codec::none},
                                         lake::Kind{lake::Format::jsonl, lake::Codec::zstd},
                                         lake::Kind{lake::Format::jsonl, lake::Codec::gzip},
                                         lake::Kind{lake::Format::parquet, lake::Codec::zstd},
                                         lake::Kind{lake::Format::parquet, lake::Codec::snappy}));

TEST(LakeCat, PrintsOnlyWhatIsStampedInTheStretch) {
  SampleLake lake;
  const auto lines = cat(lake, {kHour + 20, kHour + 1999});
  EXPECT_THAT(lines, ElementsAre(HasSubstr("\"t1\""), HasSubstr("\"t2\""), HasSubstr("\"t3\"")));
}

TEST(LakeCat, PrintsOnlyOnePartitionWhenAsked) {
  SampleLake lake;
  EXPECT_THAT(cat(lake, {}, "b"), ElementsAre(HasSubstr("\"t2\""), HasSubstr("\"t4\""), HasSubstr("\"t5\"")));
  EXPECT_THAT(cat(lake, {}, "c"), IsEmpty());
}

TEST(LakeCat, PrintsNothingOfAnObjectThatIsNotWhatItsManifestSays) {
  SampleLake lake;
  const std::string key = lake.object_key(2);
  Bytes bytes = *lake.store.object(key);
  bytes[bytes.find("t3")] = 'T';
  lake.store.insert(key, bytes);
  const auto lines = cat(lake);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[3], "error: " + key + ": its sha256 is not the one of its manifest");
  lake.store.erase(key);
  EXPECT_EQ(cat(lake)[3], "error: " + key + ": it is not in the bucket");
}

TEST(LakeCat, StopsWhenNobodyReadsOn) {
  SampleLake lake;
  int lines = 0;
  EXPECT_TRUE(print_records(lake.bucket, {}, std::nullopt, [&](const std::string&) { return ++lines < 2; }));
  EXPECT_EQ(lines, 2);
}

TEST(LakeList, ListsTheWindowsThatHoldAMomentOfTheStretch) {
  SampleLake lake;
  EXPECT_THAT(windows(lake, {}), ElementsAre(1, 2, 3));
  EXPECT_THAT(windows(lake, {kHour, kHour + 1}), ElementsAre(1));
  EXPECT_THAT(windows(lake, {kHour + 999, kHour + 1001}), ElementsAre(1, 2));
  EXPECT_THAT(windows(lake, {kHour + 1000, kHour + 2000}), ElementsAre(2));
  EXPECT_THAT(windows(lake, {kHour + 2000, kHour + 3000}), IsEmpty());
  EXPECT_THAT(windows(lake, {kHour + 2000, kHour + 4'000'000'000}), ElementsAre(3));
  EXPECT_THAT(windows(lake, {kHour + 4'000'000'000, kHour + 5'000'000'000}), IsEmpty());
}

TEST(LakeList, FindsTheFirstWindowOfManyWithFewReads) {
  std::vector<SampleWindow> many;
  for (std::uint64_t k = 1; k <= 1000; ++k)
    many.push_back(
        {{k, kHour + static_cast<std::int64_t>(k) * 10, kHour + static_cast<std::int64_t>(k) * 10 + 10}, {}});
  SampleLake lake(many);
  const auto before = lake.store.calls(s3::MemoryStore::Kind::get);
  EXPECT_THAT(windows(lake, {kHour + 7005, kHour + 7015}), ElementsAre(700, 701));
  EXPECT_LT(lake.store.calls(s3::MemoryStore::Kind::get) - before, 30U);
}

TEST(LakeList, RefusesAHoleBetweenTwoWindows) {
  SampleLake lake;
  lake.store.erase(sink::manifest_key(kPath, 2));
  const auto done = list_windows(lake.bucket, {}, LakeText::plain, [](const std::string&) { return true; });
  EXPECT_EQ(done.error().code, Errc::corrupt);
  EXPECT_THAT(done.error().what, HasSubstr("windows/0000000002.json is not there, and window 3 is"));
}

TEST(LakeList, SaysWhenThereIsNoWindow) {
  SampleLake lake(std::vector<SampleWindow>{});
  EXPECT_EQ(list_windows(lake.bucket, {}, LakeText::plain, [](const auto&) { return true; }).error().code,
            Errc::not_found);
}

TEST(LakeList, SaysBoundsInIsoAndKeysAsJson) {
  SampleLake lake;
  std::vector<std::string> lines;
  const auto keep = [&](const std::string& line) {
    lines.push_back(line);
    return true;
  };
  ASSERT_TRUE(list_windows(lake.bucket, {kHour, kHour + 1}, LakeText::plain, keep));
  ASSERT_TRUE(list_windows(lake.bucket, {kHour, kHour + 1}, LakeText::json, keep));
  EXPECT_THAT(
      lines[0],
      HasSubstr(
          "1 2026-11-07T09:00:00.000000Z 2026-11-07T09:00:00.001000Z      1 objects          3 records"));
  EXPECT_THAT(
      lines[1],
      HasSubstr(
          R"({"k":1,"tStart":"2026-11-07T09:00:00.000000Z","tEnd":"2026-11-07T09:00:00.001000Z","objects":[")"));
  EXPECT_THAT(lines[1], HasSubstr(R"("records":3)"));
}

}  // namespace
}  // namespace queen::cli

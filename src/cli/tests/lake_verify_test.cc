// A lake that is right, and each damage told of for its own reason.
#include "cli/lake_verify.h"

#include <gtest/gtest.h>

#include "sample_lake.h"

namespace queen::cli {
namespace {

using Reasons = std::set<std::string>;

Reasons reasons_of(const Result<LakeReport>& report) {
  Reasons out;
  if (!report) return {"error: " + report.error().what};
  for (const LakeFinding& finding : report->findings.kept()) out.insert(finding.reason);
  return out;
}

Reasons reasons(SampleLake& lake, std::optional<sink::Align> align = std::nullopt) {
  return reasons_of(verify_lake(lake.bucket, {"default", align, nullptr}));
}

Reasons reasons_with_log(SampleLake& lake, BrokerLog& log) {
  return reasons_of(verify_lake(lake.bucket, {"default", std::nullopt, &log}));
}

// The sample with one record changed, against the log as it was.
template <class Change>
Reasons changed(std::uint64_t k, std::size_t at, const Change& change) {
  auto windows = sample_windows();
  change(windows[k - 1].records[at]);
  SampleLake lake(windows);
  SampleLog log(lake);
  return reasons_with_log(lake, log);
}

TEST(LakeVerify, FindsNothingInARightLake) {
  SampleLake lake;
  const auto report = verify_lake(lake.bucket, {"default", std::nullopt, nullptr});
  ASSERT_TRUE(report) << report.error().what;
  EXPECT_FALSE(report->findings.any()) << report->as_text();
  EXPECT_EQ(report->windows, 3U);
  EXPECT_EQ(report->records, 6U);
  EXPECT_EQ(report->begin, kHour);
  EXPECT_EQ(report->end, kHour + 3'600'001'000);
  EXPECT_NE(report->as_json().find("\"right\":true"), std::string::npos);
}

TEST(LakeVerify, ComparesEveryRecordThatTheLogStillHas) {
  SampleLake lake;
  SampleLog log(lake);
  log.log_start["a"] = 2;
  const auto report = verify_lake(lake.bucket, {"default", sink::Align::hour, &log});
  ASSERT_TRUE(report) << report.error().what;
  EXPECT_FALSE(report->findings.any()) << report->as_text();
  EXPECT_EQ(report->compared, 4U);
  EXPECT_EQ(report->windows_committed, 3U);
}

TEST(LakeVerify, FindsNothingInAParquetLake) {
  SampleLake lake(sample_windows(), {lake::Format::parquet, lake::Codec::zstd});
  SampleLog log(lake);
  EXPECT_EQ(reasons_with_log(lake, log), Reasons());
}

TEST(LakeVerify, TellsOfAPayloadThatIsNotTheLogs) {
  EXPECT_EQ(changed(1, 0, [](auto& record) { record.payload = "{\"n\":42.0}"; }), Reasons{"payload"});
}

TEST(LakeVerify, TellsOfATransactionIdThatIsNotTheLogs) {
  EXPECT_EQ(changed(1, 0, [](auto& record) { record.transaction_id = "other"; }), Reasons{"transactionId"});
}

TEST(LakeVerify, TellsOfAStampThatIsNotTheLogs) {
  EXPECT_EQ(changed(1, 1, [](auto& record) { record.ts += 5; }), Reasons{"ts"});
  EXPECT_EQ(changed(3, 0, [](auto& record) { record.ts = kHour + 3'600'001'000; }), Reasons{"ts"});
}

TEST(LakeVerify, TellsOfARecordThatIsThereTwice) {
  auto windows = sample_windows();
  windows[0].records.insert(windows[0].records.begin(), windows[0].records[0]);
  SampleLake lake(windows);
  EXPECT_EQ(reasons(lake), Reasons{"duplicate"});
}

TEST(LakeVerify, TellsOfARecordThatIsThereInTwoWindows) {
  auto windows = sample_windows();
  windows[1].records.insert(windows[1].records.begin(), windows[0].records[1]);
  SampleLake lake(windows);
  EXPECT_EQ(reasons(lake), (Reasons{"duplicate", "ts"}));
}

TEST(LakeVerify, TellsOfAHoleInAPartitionWithoutABroker) {
  auto windows = sample_windows();
  windows[0].records.erase(windows[0].records.begin() + 1);
  SampleLake lake(windows);
  EXPECT_EQ(reasons(lake), Reasons{"missing"});
}

TEST(LakeVerify, TellsOfRecordsThatOnlyTheLogHas) {
  for (const auto& [window, at] : {std::pair(0, 0), std::pair(0, 2), std::pair(2, 0)}) {
    auto windows = sample_windows();
    windows[window].records.erase(windows[window].records.begin() + at);
    SampleLake lake(windows);
    SampleLog log(lake);
    EXPECT_EQ(reasons_with_log(lake, log), Reasons{"missing"}) << window << " " << at;
  }
}

TEST(LakeVerify, TellsOfAPartitionThatOnlyTheLogHas) {
  SampleLake lake;
  SampleLog log(lake);
  log.records["c"] = {
      {0, "x", kHour + 5, "1"}, {1, "y", kHour + 1500, "1"}, {2, "z", kHour + 4'000'000'000, "1"}};
  const auto report = verify_lake(lake.bucket, {"default", std::nullopt, &log});
  ASSERT_EQ(report->findings.kept().size(), 1U);
  EXPECT_EQ(report->findings.kept()[0].what, "offsets 0 to 1 are in the log and in no window");
}

TEST(LakeVerify, TakesRecordsBeforeTheFirstWindowAndBehindTheLastForNothing) {
  SampleLake lake;
  SampleLog log(lake);
  log.records["c"] = {
      {0, "x", kHour - 5, "1"}, {1, "y", kHour - 1, "1"}, {2, "z", kHour + 4'000'000'000, "1"}};
  EXPECT_EQ(reasons_with_log(lake, log), Reasons());
}

TEST(LakeVerify, TellsOfRecordsOutOfOrder) {
  auto windows = sample_windows();
  std::ranges::reverse(windows[0].records);
  SampleLake lake(windows);
  SampleLog log(lake);
  EXPECT_EQ(reasons_with_log(lake, log), Reasons{"order"});
}

TEST(LakeVerify, TellsOfARecordThatNobodyPushed) {
  auto windows = sample_windows();
  windows[2].records.push_back({"b", 3, "t9", kHour + 3'600'000'600, "1"});
  SampleLake lake(windows);
  SampleLog log(lake);
  EXPECT_EQ(reasons_with_log(lake, log), Reasons{"foreign"});
}

TEST(LakeVerify, TellsOfWindowsThatDoNotTile) {
  auto windows = sample_windows();
  windows[1].bounds.t_start = kHour + 999;
  SampleLake overlapping(windows);
  EXPECT_EQ(reasons(overlapping), Reasons{"tiling"});
  windows[1].bounds.t_start = kHour + 1001;
  windows[1].records[0].ts = kHour + 1001;
  SampleLake apart(windows);
  EXPECT_EQ(reasons(apart), Reasons{"tiling"});
}

TEST(LakeVerify, JudgesBoundariesByTheAlignmentItIsTold) {
  SampleLake lake;
  EXPECT_EQ(reasons(lake, sink::Align::hour), Reasons());
  EXPECT_EQ(reasons(lake, sink::Align::none), Reasons{"tiling"});  // nothing may be stepped over
  EXPECT_TRUE(reasons(lake, sink::Align::day).contains("key"));
  auto windows = sample_windows();
  windows[2].bounds.t_end = kHour + 7'200'000'001;
  SampleLake crossing(windows);
  EXPECT_EQ(reasons(crossing, sink::Align::hour), Reasons{"tiling"});
}

TEST(LakeVerify, TellsOfAnObjectThatNoManifestNames) {
  SampleLake lake;
  const std::string key = lake.object_key(2);
  lake.store.insert(key.substr(0, key.rfind('/')) + "/w-0000000002-1-2.jsonl", "");
  EXPECT_EQ(reasons(lake), Reasons{"orphan"});
}

TEST(LakeVerify, TellsOfOtherBytesEvenWithTheSameLines) {
  SampleLake lake(sample_windows(), {lake::Format::jsonl, lake::Codec::gzip});
  EXPECT_EQ(reasons(lake), Reasons());
  const std::string key = lake.object_key(2);
  Bytes bytes = *lake.store.object(key);
  bytes[4] = 1;  // MTIME, which says nothing about the text
  lake.store.insert(key, bytes);
  EXPECT_EQ(reasons(lake), Reasons{"bytes"});
}

TEST(LakeVerify, TellsOfAnObjectThatIsGone) {
  SampleLake lake;
  lake.store.erase(lake.object_key(3));
  EXPECT_EQ(reasons(lake), Reasons{"object"});
}

TEST(LakeVerify, ReadsNoObjectThatIsFarLargerThanItsManifestSays) {
  SampleLake lake;
  const std::string key = lake.object_key(3);
  lake.store.insert(key, Bytes(2 << 20, ' '));
  EXPECT_EQ(reasons(lake), Reasons{"bytes"});
}

TEST(LakeVerify, TellsOfAnObjectThatCannotBeRead) {
  SampleLake lake;
  auto manifest = lake.manifest(3);
  const Bytes bytes = "{\"partition\":\"b\",";
  lake.store.insert(manifest.objects[0].key, bytes);
  manifest.objects[0].bytes = manifest.bytes = bytes.size();
  manifest.objects[0].sha256 = s3::sha256_hex(bytes);
  lake.put(manifest);
  EXPECT_EQ(reasons(lake), Reasons{"object"});
}

TEST(LakeVerify, TellsOfAManifestThatDoesNotAddUp) {
  const auto with = [](const auto& change) {
    SampleLake lake;
    auto manifest = lake.manifest(3);
    change(manifest);
    lake.put(manifest);
    return reasons(lake);
  };
  EXPECT_EQ(with([](auto& manifest) { manifest.records = 2; }), Reasons{"sums"});
  EXPECT_EQ(with([](auto& manifest) { manifest.objects[0].records = manifest.records = 2; }),
            Reasons{"count"});
  EXPECT_EQ(with([](auto& manifest) { manifest.partitions = 2; }), Reasons{"summary"});
  EXPECT_EQ(with([](auto& manifest) { manifest.max_ts = kHour; }), Reasons{"summary"});
  EXPECT_EQ(with([](auto& manifest) { manifest.queue = "other"; }), Reasons{"names"});
  EXPECT_EQ(with([](auto& manifest) { manifest.sink = "other"; }), Reasons{"names"});
  EXPECT_EQ(with([](auto& manifest) { manifest.compression = "brotli"; }), (Reasons{"manifest"}));
  EXPECT_TRUE(with([](auto& manifest) { manifest.layout = "per-partition"; }).contains("key"));
}

TEST(LakeVerify, TellsOfAManifestThatCannotBeRead) {
  SampleLake lake;
  lake.store.insert(sink::manifest_key(kPath, 3), "{");
  EXPECT_EQ(reasons(lake), Reasons{"manifest"});
}

TEST(LakeVerify, FindsAHoleInTheNumberingThoughItReadsByKey) {
  SampleLake lake;
  lake.store.erase(lake.object_key(1));
  lake.store.erase(sink::manifest_key(kPath, 1));
  EXPECT_EQ(reasons(lake), Reasons{"numbering"});
}

TEST(LakeVerify, WantsEveryWindowUpToTheCommitPointer) {
  SampleLake lake;
  SampleLog log(lake);
  lake.store.erase(lake.object_key(3));
  lake.store.erase(sink::manifest_key(kPath, 3));
  const auto report = verify_lake(lake.bucket, {"default", std::nullopt, &log});
  EXPECT_TRUE(reasons_of(report).contains("numbering")) << report->as_text();
}

TEST(LakeVerify, LeavesTheWindowUnderWayAlone) {
  SampleLake lake;
  SampleLog log(lake);
  const auto second = lake.manifest(2);
  log.pointer =
      sink::Committed{2, second.bounds.t_end, sink::manifest_key(kPath, 2), second.records, second.bytes};
  const auto report = verify_lake(lake.bucket, {"default", std::nullopt, &log});
  EXPECT_FALSE(report->findings.any()) << report->as_text();
  EXPECT_EQ(report->windows, 2U);
}

TEST(LakeVerify, TellsOfAPointerThatSaysSomethingElseThanItsManifest) {
  SampleLake lake;
  SampleLog log(lake);
  ++log.pointer->records;
  EXPECT_EQ(reasons_with_log(lake, log), Reasons{"pointer"});
}

TEST(LakeVerify, TakesWhatRetentionTookForNothingWhenAManifestSaysSo) {
  auto windows = sample_windows();
  windows[0].records.erase(windows[0].records.begin() + 1);
  windows[1].lost = {{"a", 1, 1}};
  SampleLake lake(windows);
  EXPECT_EQ(reasons(lake), Reasons());
  SampleLog log(lake);
  log.log_start["a"] = 2;
  EXPECT_EQ(reasons_with_log(lake, log), Reasons());
}

TEST(LakeVerify, TellsOfRecordsCalledLostThatTheLogStillHas) {
  auto windows = sample_windows();
  windows[0].records.erase(windows[0].records.begin() + 1);
  windows[1].lost = {{"a", 1, 1}};
  SampleLake lake(windows);
  SampleLog log(lake);
  EXPECT_EQ(reasons_with_log(lake, log), Reasons{"missing"});
}

TEST(LakeVerify, TellsOfRecordsCalledLostThatAreThere) {
  auto windows = sample_windows();
  windows[0].records.erase(windows[0].records.begin() + 1);
  windows[1].lost = {{"a", 1, 2}};
  SampleLake lake(windows);
  EXPECT_EQ(reasons(lake), Reasons{"lost"});
}

TEST(LakeVerify, TakesAPartitionMadeAgainForANewOne) {
  auto windows = sample_windows();
  windows[2].records.insert(windows[2].records.begin(), {"a", 0, "n0", kHour + 3'600'000'001, "2"});
  SampleLake lake(windows);
  EXPECT_EQ(reasons(lake), Reasons());
  SampleLog log(lake);
  log.records["a"] = {{0, "n0", kHour + 3'600'000'001, "2"}, {1, "n1", kHour + 4'000'000'000, "3"}};
  EXPECT_EQ(reasons_with_log(lake, log), Reasons());
  log.records["a"].insert(log.records["a"].begin() + 1, {1, "nx", kHour + 3'600'000'002, "3"});
  log.records["a"][2].offset = 2;
  EXPECT_EQ(reasons_with_log(lake, log), Reasons{"missing"});
}

TEST(LakeVerify, TakesAPartitionMadeAgainAboveTheLastWindowForANewOne) {
  SampleLake lake;
  SampleLog log(lake);
  log.records["a"] = {{0, "n0", kHour + 4'000'000'000, "2"}};
  EXPECT_EQ(reasons_with_log(lake, log), Reasons());
}

TEST(LakeVerify, SaysWhenThereIsNothingOrNoAnswer) {
  SampleLake none(std::vector<SampleWindow>{});
  EXPECT_EQ(verify_lake(none.bucket, {"default", std::nullopt, nullptr}).error().code, Errc::not_found);
  SampleLake lake;
  s3::S3Error refused;
  refused.sentence = "get of x: 403 AccessDenied";
  refused.failure = s3::Failure::status;
  lake.store.fail_next(s3::MemoryStore::Kind::get, 1, refused);
  const auto report = verify_lake(lake.bucket, {"default", std::nullopt, nullptr});
  EXPECT_EQ(report.error().code, Errc::unavailable);
  EXPECT_EQ(report.error().what, refused.sentence);
}

TEST(LakeVerify, KeepsSoManyFindingsAndCountsTheRest) {
  LakeFindings findings;
  for (std::size_t at = 0; at < LakeFindings::kKeptMax + 3; ++at) findings.add({"ts", 1, "", "p", at, ""});
  EXPECT_EQ(findings.kept().size(), LakeFindings::kKeptMax);
  EXPECT_EQ(findings.left_out(), 3U);
}

TEST(LakeReport, SaysReasonAndPlaceOfEachFinding) {
  LakeReport report;
  report.path = kPath;
  report.findings.add({"payload", 2, "", "p \"1\"", 7, "the payload is not the one in the log"});
  report.findings.add({"orphan", 0, "queen/x", std::nullopt, std::nullopt, "no manifest names it"});
  const std::string text = report.as_text();
  EXPECT_NE(text.find("payload       window 2 partition \"p \\\"1\\\"\" offset 7: the payload"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("orphan        queen/x: no manifest"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\nWRONG\n"));
  const std::string json = report.as_json();
  EXPECT_NE(json.find(R"({"reason":"payload","k":2,"key":null,"partition":"p \"1\"","offset":7,)"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("broker":null)"), std::string::npos);
}

}  // namespace
}  // namespace queen::cli

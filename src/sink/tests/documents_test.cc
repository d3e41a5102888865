// KV documents, manifest and checkpoint: exact bytes out, hostile bytes in (docs/formats/bucket.md; [I10]).
#include "sink/documents.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/bytes.h"
#include "base/text.h"
#include "sink/checkpoint.h"
#include "sink/manifest.h"
#include "source_dir.h"

namespace queen::sink {
namespace {

// A file of tests/golden/sink without its last line end.
std::string golden(const std::string& name) {
  std::ifstream in(source_dir() + "/tests/golden/sink/" + name, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  std::string out = text.str();
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

const WindowBounds kWindow{57, 1794042000000000, 1794042291004417};
const LakePath kPath{"queen", std::string("00000000-0000-0000-0000-000000000001"), "rides"};

LeaseRow sample_lease() {
  return {"node-2@broker-1", "7f03c1d2a94be810", 1794042000123};
}
Intent sample_intent() {
  return make_intent(kWindow, {{lake::Format::jsonl, lake::Codec::zstd}, Layout::merged},
                     "queen-s3/0.1.0 jsonl+zstd/1");
}
Committed sample_committed() {
  return {57, kWindow.t_end, manifest_key(kPath, 57), 8123, 402118, 1794042298511};
}
Manifest sample_manifest() {
  Manifest manifest{"default",
                    kPath.tenant,
                    "rides",
                    kWindow,
                    "jsonl",
                    "zstd",
                    "per-partition",
                    {},
                    12,
                    512,
                    1,
                    1794042003000112,
                    1794042290991204,
                    {{"car-1", 120, 131}},
                    "queen-s3/0.1.0 jsonl+zstd/1",
                    1794042298511000};
  const PartitionRun run{"bike-7", 900, 911};
  manifest.objects.push_back(
      {data_key(kPath, Align::hour, kWindow, "jsonl.zst", &run), 512, 12, std::string(64, 'a'), run});
  return manifest;
}
Checkpoint sample_checkpoint() {
  return {
      40,
      kWindow.t_end,
      {{"car-1", 77, std::nullopt}, {"bike-7", 912, Uuid::parse("5f0b9f0e-3f1c-4f5e-9d0a-8a2f6f1d2c33")}}};
}

TEST(Documents, EncodeExactlyAsGolden) {
  EXPECT_EQ(encode(sample_lease()), golden("lease-v1.json"));
  EXPECT_EQ(encode(sample_intent()), golden("intent-v1.json"));
  EXPECT_EQ(encode(sample_committed()), golden("committed-v1.json"));
  EXPECT_EQ(encode(sample_manifest()), golden("manifest-v1.json"));
}

TEST(Documents, AreReadBack) {
  EXPECT_EQ(parse_lease_row(encode(sample_lease())).value(), sample_lease());
  EXPECT_EQ(parse_intent(encode(sample_intent())).value(), sample_intent());
  EXPECT_EQ(parse_committed(encode(sample_committed())).value(), sample_committed());
  EXPECT_EQ(parse_manifest(encode(sample_manifest())).value(), sample_manifest());
}

TEST(Documents, RefuseEveryTruncation) {
  const auto each = [](const std::string& text, const auto& parse) {
    for (std::size_t n = 0; n < text.size(); ++n) {
      const auto parsed = parse(std::string_view(text).substr(0, n));
      ASSERT_FALSE(parsed) << n;
      EXPECT_EQ(parsed.error().code, Errc::corrupt);
    }
  };
  each(encode(sample_lease()), parse_lease_row);
  each(encode(sample_intent()), parse_intent);
  each(encode(sample_committed()), parse_committed);
  each(encode(sample_manifest()), parse_manifest);
}

TEST(Documents, IgnoreUnknownFields) {
  std::string text = encode(sample_committed());
  text.insert(1, R"("later": [1, {"x": null}], )");
  EXPECT_EQ(parse_committed(text).value(), sample_committed());
}

TEST(Committed, ReadsItsEndAsIsoTextOrAsMicroseconds) {
  std::string text = encode(sample_committed());
  const std::string iso = "\"2026-11-07T09:04:51.004417Z\"";
  ASSERT_NE(text.find(iso), std::string::npos);
  text.replace(text.find(iso), iso.size(), "1794042291004417");
  EXPECT_EQ(parse_committed(text).value(), sample_committed());
}

// A pointer that is not understood must never count as none: numbering would start again at 1.
TEST(Committed, RefusesWhatIsNoPointer) {
  for (
      const char* text :
      {"null", "[]", "{}", "7",
       R"({"k": 0, "tEnd": 5, "manifest": "", "records": 0, "bytes": 0, "committedAtMs": 0})",
       R"({"k": 1, "tEnd": "2026-11-07 09:04:51Z", "manifest": "", "records": 0, "bytes": 0, "committedAtMs": 0})",
       R"({"k": 1, "tEnd": "2026-11-07T09:04:51.1234567Z", "manifest": "", "records": 0, "bytes": 0, "committedAtMs": 0})",
       R"({"k": -1, "tEnd": 5, "manifest": "", "records": 0, "bytes": 0, "committedAtMs": 0})",
       R"({"k": "1", "tEnd": 5, "manifest": "", "records": 0, "bytes": 0, "committedAtMs": 0})"})
    EXPECT_FALSE(parse_committed(text)) << text;
}

TEST(Intent, SaysWhatThisBuildCannotWrite) {
  EXPECT_EQ(format_of(sample_intent()).value().layout, Layout::merged);
  Intent other = sample_intent();
  other.format = "avro";
  const auto refused = format_of(other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what, "this build cannot write format \"avro\"");
  other = sample_intent();
  other.compression = "lz4";
  EXPECT_FALSE(format_of(other));
  // Each is known, but not one with the other.
  other.format = "parquet";
  other.compression = "gzip";
  EXPECT_EQ(format_of(other).error().what, "this build cannot write compression \"gzip\"");
  other.compression = "snappy";
  EXPECT_TRUE(format_of(other));
  other = sample_intent();
  other.layout = "by-colour";
  EXPECT_FALSE(format_of(other));
}

TEST(Intent, RefusesBoundsThatAreNoWindow) {
  Intent intent = sample_intent();
  intent.bounds.t_end = intent.bounds.t_start;
  EXPECT_FALSE(parse_intent(encode(intent)));
  intent = sample_intent();
  intent.bounds.k = 0;
  EXPECT_FALSE(parse_intent(encode(intent)));
}

TEST(Manifest, LeavesOutStampsWithoutARecordAndDefaultsTenantAndLost) {
  Manifest manifest = sample_manifest();
  manifest.objects.clear();
  manifest.min_ts.reset();
  manifest.max_ts.reset();
  EXPECT_EQ(encode(manifest).find("minTs"), std::string::npos);
  EXPECT_EQ(parse_manifest(encode(manifest)).value(), manifest);
  std::string text = encode(sample_manifest());
  const std::string tenant = R"("tenant":"00000000-0000-0000-0000-000000000001",)";
  text.erase(text.find(tenant), tenant.size());
  const std::string lost = R"("lost":[{"partition":"car-1","from":120,"to":131}],)";
  text.erase(text.find(lost), lost.size());
  const auto parsed = parse_manifest(text);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->tenant, "");
  EXPECT_TRUE(parsed->lost.empty());
}

TEST(Manifest, RefusesALostRangeThatEndsBeforeItBegins) {
  Manifest manifest = sample_manifest();
  manifest.lost = {{"car-1", 5, 4}};
  EXPECT_FALSE(parse_manifest(encode(manifest)));
}

TEST(Manifest, MatchesOnlyTheIntentItWasWrittenFor) {
  Manifest manifest = sample_manifest();
  manifest.layout = "merged";
  const Intent intent = sample_intent();
  EXPECT_TRUE(matches(manifest, intent, "default", kPath));
  EXPECT_FALSE(matches(manifest, intent, "other", kPath));
  const auto differs = [&](const auto& change) {
    Manifest changed = manifest;
    change(changed);
    return !matches(changed, intent, "default", kPath);
  };
  EXPECT_TRUE(differs([](Manifest& m) { m.bounds.k = 58; }));
  EXPECT_TRUE(differs([](Manifest& m) { ++m.bounds.t_start; }));
  EXPECT_TRUE(differs([](Manifest& m) { ++m.bounds.t_end; }));
  EXPECT_TRUE(differs([](Manifest& m) { m.format = "parquet"; }));
  EXPECT_TRUE(differs([](Manifest& m) { m.compression = "gzip"; }));
  EXPECT_TRUE(differs([](Manifest& m) { m.layout = "per-partition"; }));
  EXPECT_TRUE(differs([](Manifest& m) { m.writer += "x"; }));
  EXPECT_TRUE(differs([](Manifest& m) { m.tenant = ""; }));
  EXPECT_TRUE(differs([](Manifest& m) { m.queue = "bills"; }));
}

TEST(Manifest, CountsLostRecords) {
  EXPECT_EQ(count_of({{"a", 120, 131}, {"b", 0, 0}}), 13U);
}

TEST(Checkpoint, BytesAreGoldenAndDoNotDependOnTheOrder) {
  Checkpoint turned = sample_checkpoint();
  std::swap(turned.positions[0], turned.positions[1]);
  EXPECT_EQ(encode_checkpoint(turned), encode_checkpoint(sample_checkpoint()));
  EXPECT_EQ(hex_lower(encode_checkpoint(turned)), golden("checkpoint-v1.hex"));
  EXPECT_EQ(decode_checkpoint(encode_checkpoint(sample_checkpoint())).value(), turned);
}

TEST(Checkpoint, RefusesTruncationLeftoverAndTooMuch) {
  const Bytes object = encode_checkpoint(sample_checkpoint());
  for (std::size_t n = 0; n < object.size(); ++n)
    EXPECT_FALSE(decode_checkpoint(BytesView(object).substr(0, n))) << n;
  EXPECT_FALSE(decode_checkpoint(object + "x"));
  EXPECT_FALSE(decode_checkpoint("not zstd at all"));
  EXPECT_FALSE(decode_checkpoint(object, 20));
}

// One raw zstd block around `text`, so that documents no encoder of ours writes can be fed in.
Bytes framed(std::string_view text) {
  Bytes object("\x28\xB5\x2F\xFD\x00\x58", 6);  // magic, no size, 2 MiB window
  append_le(object, static_cast<std::uint8_t>((text.size() << 3 | 1) & 0xFF));
  append_le(object, static_cast<std::uint16_t>(text.size() >> 5));
  return object.append(text);
}

TEST(Checkpoint, ReadsTheTwoElementFormAndIgnoresElementsAfterTheThird) {
  const auto read = decode_checkpoint(framed(
      R"({"k":1,"tEnd":2,"positions":[["a",5],["b",6,"5f0b9f0e-3f1c-4f5e-9d0a-8a2f6f1d2c33",7,null]],"more":1})"));
  ASSERT_TRUE(read) << read.error().what;
  ASSERT_EQ(read->positions.size(), 2U);
  EXPECT_EQ(read->positions[0], (CheckpointPosition{"a", 5, std::nullopt}));
  EXPECT_EQ(read->positions[1].offset, 6U);
  EXPECT_TRUE(read->positions[1].id.has_value());
}

TEST(Checkpoint, RefusesPositionsThatAreNone) {
  for (const char* positions : {R"(["a"])", "[5,5]", R"(["a",-1])", R"(["a","5"])", R"(["a",5,"no id"])",
                                R"(["a",5,7])", R"({"a":5})", "7"})
    EXPECT_FALSE(
        decode_checkpoint(framed(R"({"k":1,"tEnd":2,"positions":[)" + std::string(positions) + "]}")))
        << positions;
  EXPECT_FALSE(decode_checkpoint(framed(R"({"k":1,"tEnd":2})")));
  EXPECT_FALSE(decode_checkpoint(framed("[]")));
}

TEST(Checkpoint, HoldsAMillionPositionsInThirtyMegabytes) {
  Checkpoint large{20, 7, {}};
  SeededRandom random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    CheckpointPosition position{"partition-" + std::to_string(i), static_cast<std::uint64_t>(i), Uuid{}};
    for (auto& byte : position.id->bytes) byte = static_cast<std::uint8_t>(random.next());
    large.positions.push_back(std::move(position));
  }
  const Bytes object = encode_checkpoint(large);
  EXPECT_LT(object.size(), 30U << 20);
  EXPECT_EQ(decode_checkpoint(object).value().positions.size(), 1'000'000U);
}

}  // namespace
}  // namespace queen::sink

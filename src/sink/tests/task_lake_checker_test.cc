// The checker itself: a lake put together by hand is right, and each damage is refused for its own reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "sink/tests/lake_checker.h"

namespace queen::sink::test {
namespace {

using ::testing::HasSubstr;

struct HandWritten {
  FakeLog log;
  Objects objects;
  LakePath path{.prefix = "queen", .tenant = "t", .queue = "q"};
  std::vector<std::vector<std::string>> lines;  // per window

  std::string sha_of(const Bytes& body) const {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(body.data()), body.size(), digest);
    return hex_lower({reinterpret_cast<const char*>(digest), sizeof digest});
  }
  std::string key_of(std::uint64_t k) const { return data_key(path, Align::hour, bounds(k), "jsonl"); }
  static WindowBounds bounds(std::uint64_t k) {
    const auto hours = static_cast<std::int64_t>(k);
    return {.k = k, .t_start = kEpoch + (hours - 1) * kHour, .t_end = kEpoch + hours * kHour};
  }
  // Writes window k as `lines` say, with a manifest that agrees with its bytes.
  void write(std::uint64_t k) {
    Bytes body;
    for (const std::string& line : lines[k - 1]) body += line + "\n";
    Manifest manifest;
    manifest.sink = "s";
    manifest.tenant = "t";
    manifest.queue = "q";
    manifest.bounds = bounds(k);
    manifest.format = "jsonl";
    manifest.compression = "none";
    manifest.layout = "merged";
    manifest.objects = {{.key = key_of(k),
                         .bytes = body.size(),
                         .records = lines[k - 1].size(),
                         .sha256 = sha_of(body),
                         .run = std::nullopt}};
    manifest.records = lines[k - 1].size();
    manifest.bytes = body.size();
    manifest.partitions = 2;
    manifest.writer = "w";
    std::vector<std::int64_t> stamps;
    for (const auto& [name, partition] : log.partitions) {
      for (const LogRecord& record : partition.records) {
        if (record.ts >= manifest.bounds.t_start && record.ts < manifest.bounds.t_end)
          stamps.push_back(record.ts);
      }
    }
    manifest.min_ts = *std::min_element(stamps.begin(), stamps.end());
    manifest.max_ts = *std::max_element(stamps.begin(), stamps.end());
    objects[key_of(k)] = body;
    objects[manifest_key(path, k)] = encode(manifest);
  }
  HandWritten() {
    for (int hour = 0; hour < 2; ++hour) {
      log.now = kEpoch + hour * kHour + 60 * kSecond;
      std::vector<std::string> window;
      for (const char* partition : {"a", "b"}) {
        for (int i = 0; i < 2; ++i) {
          log.push(partition, "{\"n\":\n 1.50}");
          window.push_back(expected_line(partition, log.partitions[partition].records.back()));
        }
      }
      lines.push_back(window);
    }
    write(1);
    write(2);
  }
  LakeVerdict verdict() const { return check(objects, path, "s", Align::hour, log, true); }
};

void replace(std::string& in, const std::string& from, const std::string& to) {
  const auto at = in.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  in.replace(at, from.size(), to);
}

TEST(LakeChecker, AcceptsAHandWrittenLake) {
  const HandWritten lake;
  EXPECT_TRUE(lake.verdict().right()) << lake.verdict().text();
  EXPECT_EQ(lake.verdict().records, 8U);
  EXPECT_EQ(lake.verdict().windows, 2U);
}

struct Damage {
  const char* reason;
  std::function<void(HandWritten&)> make;
};
class Damaged : public ::testing::TestWithParam<Damage> {};
TEST_P(Damaged, IsRefusedForItsOwnReason) {
  HandWritten lake;
  GetParam().make(lake);
  ASSERT_FALSE(lake.verdict().right());
  EXPECT_THAT(lake.verdict().complaints.front(), HasSubstr(GetParam().reason)) << lake.verdict().text();
}
INSTANTIATE_TEST_SUITE_P(
    Nine, Damaged,
    ::testing::Values(Damage{"payload: ",
                             [](HandWritten& lake) {
                               replace(lake.lines[0][1], "1.50", "1.5");
                               lake.write(1);
                             }},
                      Damage{"transactionId: ",
                             [](HandWritten& lake) {
                               replace(lake.lines[0][1], "\"transactionId\":\"t", "\"transactionId\":\"u");
                               lake.write(1);
                             }},
                      Damage{"duplicate: ",
                             [](HandWritten& lake) {
                               lake.lines[0].insert(lake.lines[0].begin(), lake.lines[0][0]);
                               lake.write(1);
                             }},
                      Damage{"missing: b/1",
                             [](HandWritten& lake) {
                               // The record was the newest of its window; the summary follows the lines.
                               lake.lines[0].pop_back();
                               const FakeLog all = lake.log;
                               lake.log.partitions["b"].records.erase(
                                   lake.log.partitions["b"].records.begin() + 1);
                               lake.write(1);
                               lake.log = all;
                             }},
                      Damage{"order: ",
                             [](HandWritten& lake) {
                               std::swap(lake.lines[0][0], lake.lines[0][1]);
                               lake.write(1);
                             }},
                      Damage{"ts: ",
                             [](HandWritten& lake) {
                               std::swap(lake.lines[0][3], lake.lines[1][3]);
                               lake.write(1);
                               lake.write(2);
                             }},
                      Damage{"tiling: ",
                             [](HandWritten& lake) {
                               Manifest second = *parse_manifest(lake.objects[manifest_key(lake.path, 2)]);
                               const std::string old_key = second.objects[0].key;
                               second.bounds.t_start += kSecond;
                               second.objects[0].key =
                                   data_key(lake.path, Align::hour, second.bounds, "jsonl");
                               lake.objects[second.objects[0].key] = lake.objects[old_key];
                               lake.objects.erase(old_key);
                               lake.objects[manifest_key(lake.path, 2)] = encode(second);
                             }},
                      Damage{"orphan: ",
                             [](HandWritten& lake) {
                               lake.objects["queen/tenant=t/queue=q/dt=2027-01-15/hour=08/w-x.jsonl"] = "";
                             }},
                      Damage{"bytes: ", [](HandWritten& lake) { lake.objects[lake.key_of(1)] += "\n"; }}));

}  // namespace
}  // namespace queen::sink::test

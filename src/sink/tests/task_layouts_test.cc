// Layouts, formats and alignments through the whole commit sequence, and redone in the form of the intent
// (acceptance lists C4 to C6, D6, D7, D12; HD-16, HD-17).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lake/record_writer.h"
#include "sink/object_builder.h"
#include "sink/tests/recording_log.h"
#include "sink/tests/task_rig.h"

namespace queen::sink::test {
namespace {

using ::testing::HasSubstr;

UnitSettings unit_of(lake::Kind kind, Layout layout = Layout::merged, Align align = Align::hour) {
  UnitSettings unit = quick_unit();
  unit.kind = kind;
  unit.layout = layout;
  unit.align = align;
  unit.max_window_us =
      48 * kHour;  // only boundaries close windows, so that they do not depend on when a node ran
  return unit;
}
constexpr lake::Kind kParquetZstd{lake::Format::parquet, lake::Codec::zstd};
constexpr lake::Kind kParquetSnappy{lake::Format::parquet, lake::Codec::snappy};
constexpr lake::Kind kText{lake::Format::jsonl, lake::Codec::none};

void push_rides(Cell& cell, int count) {
  for (int i = 0; i < count; ++i)
    cell.broker.push(kQueue, "p/" + std::to_string(i % 3), "{\"n\": " + std::to_string(i) + "}");
}

Manifest manifest_of(const Cell& cell, std::uint64_t k) {
  const auto body = cell.store.object(manifest_key(cell.path(), k));
  EXPECT_TRUE(body) << k;
  auto manifest = parse_manifest(body.value_or(""));
  EXPECT_TRUE(manifest);
  return manifest ? *manifest : Manifest();
}

// One hour of records and the boundary after it, shipped by a node with `unit`, after one that died at
// `point`.
std::map<std::string, Bytes> one_hour(Cell& cell, const UnitSettings& unit, CrashPoint point) {
  push_rides(cell, 7);
  cell.run_for(kHour);  // the first window of `earliest` would close by its age before the hour is over
  if (point != CrashPoint::never) {
    NodeSettings settings = quick_node();
    settings.crash_at = point;
    Node node(cell, settings, unit);
    EXPECT_TRUE(cell.run_until([&] { return node.ended(); }, 2 * kHour));
    EXPECT_EQ(node.row().state, QueueState::crashed);
  }
  Node node(cell, quick_node(), unit);
  EXPECT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }, 2 * kHour));
  return cell.data_objects();
}

// C4
TEST(QueueTaskLayouts, PerPartitionIsOneObjectForEachPartitionAndOneManifest) {
  Cell cell;
  const auto objects = one_hour(cell, unit_of(kText, Layout::per_partition), CrashPoint::never);
  const std::string start =
      "queen/tenant=t/queue=rides/dt=2027-01-15/hour=08/w-0000000001-1800000000000000-1800003600000000-p-";
  std::vector<std::string> keys;
  std::string all;
  for (const auto& [key, body] : objects) {
    keys.push_back(key);
    all += body;
  }
  EXPECT_THAT(keys, ::testing::ElementsAre(start + "p%2F0-000000000000-000000000002.jsonl",
                                           start + "p%2F1-000000000000-000000000001.jsonl",
                                           start + "p%2F2-000000000000-000000000001.jsonl"));
  const Manifest manifest = manifest_of(cell, 1);
  EXPECT_EQ(manifest.layout, "per-partition");
  EXPECT_EQ(manifest.records, 7U);
  EXPECT_EQ(manifest.partitions, 3U);
  ASSERT_EQ(manifest.objects.size(), 3U);
  EXPECT_EQ(manifest.objects[0].run, (PartitionRun{"p/0", 0, 2}));
  std::uint64_t bytes = 0;
  for (const ManifestObject& object : manifest.objects) bytes += object.bytes;
  EXPECT_EQ(manifest.bytes, bytes);

  Cell merged;
  EXPECT_EQ(one_hour(merged, unit_of(kText), CrashPoint::never).begin()->second, all)
      << "the same lines, in other objects";
}

// C5
TEST(QueueTaskLayouts, ParquetGoesThroughTheWholeSequence) {
  for (const auto& [kind, codec] : {std::pair{kParquetZstd, "zstd"}, {kParquetSnappy, "snappy"}}) {
    Cell cell;
    const auto objects = one_hour(cell, unit_of(kind), CrashPoint::never);
    ASSERT_EQ(objects.size(), 1U);
    const auto& [key, body] = *objects.begin();
    EXPECT_TRUE(key.ends_with("w-0000000001-1800000000000000-1800003600000000.parquet")) << key;
    EXPECT_TRUE(body.starts_with("PAR1") && body.ends_with("PAR1"));
    const Manifest manifest = manifest_of(cell, 1);
    EXPECT_EQ(manifest.format, "parquet");
    EXPECT_EQ(manifest.compression, codec);
    EXPECT_EQ(manifest.records, 7U);
    EXPECT_EQ(manifest.writer, lake::writer_string(kind, "0.1.0"));
  }
}

// C6
TEST(QueueTaskLayouts, ADayIsOneWindowWithoutAnHourInItsPath) {
  Cell cell;
  push_rides(cell, 3);
  cell.run_for(2 * kHour);
  push_rides(cell, 3);
  cell.run_for(24 * kHour);
  Node node(cell, quick_node(), unit_of(kText, Layout::merged, Align::day));
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }, 30 * kHour));
  const auto objects = cell.data_objects();
  ASSERT_EQ(objects.size(), 1U);
  EXPECT_THAT(objects.begin()->first, HasSubstr("/queue=rides/dt=2027-01-15/w-0000000001-"));
  const Manifest manifest = manifest_of(cell, 1);
  EXPECT_EQ(manifest.bounds.t_start, align_floor(Align::day, kEpoch));
  EXPECT_EQ(manifest.records, 6U);
}

// D6, D7 and every other point: the restart ends in the same bytes.
class CrashOf : public ::testing::TestWithParam<std::pair<lake::Kind, Layout>> {};
TEST_P(CrashOf, EveryPointEndsInTheSameBytes) {
  const auto [kind, layout] = GetParam();
  const UnitSettings unit = unit_of(kind, layout);
  Cell untouched;
  const auto expected = one_hour(untouched, unit, CrashPoint::never);
  ASSERT_EQ(expected.size(), layout == Layout::merged ? 1U : 3U);
  for (const CrashPoint point : {CrashPoint::after_intent, CrashPoint::mid_upload, CrashPoint::after_upload,
                                 CrashPoint::before_commit}) {
    Cell cell;
    EXPECT_EQ(one_hour(cell, unit, point), expected) << name_of(point);
  }
}
INSTANTIATE_TEST_SUITE_P(All, CrashOf,
                         ::testing::Values(std::pair{kText, Layout::per_partition},
                                           std::pair{kParquetZstd, Layout::merged},
                                           std::pair{kParquetSnappy, Layout::per_partition}));

TEST(QueueTaskLayouts, MidUploadOfSeveralObjectsLeavesTheFirstAlone) {  // D6
  Cell cell;
  push_rides(cell, 7);
  NodeSettings settings = quick_node();
  settings.crash_at = CrashPoint::mid_upload;
  Node node(cell, settings, unit_of(kText, Layout::per_partition));
  ASSERT_TRUE(cell.run_until([&] { return node.ended(); }, 2 * kHour));
  EXPECT_EQ(cell.data_objects().size(), 1U);
  EXPECT_FALSE(cell.store.object(manifest_key(cell.path(), 1)));
}

TEST(QueueTaskLayouts, IntentAndManifestOfAParquetWindowNameItsCodecAndTheRedoMatches) {  // D12
  Cell cell;
  push_rides(cell, 7);
  const UnitSettings unit = unit_of(kParquetSnappy);
  {
    NodeSettings settings = quick_node();
    settings.crash_at = CrashPoint::after_upload;
    Node node(cell, settings, unit);
    ASSERT_TRUE(cell.run_until([&] { return node.ended(); }, 2 * kHour));
  }
  const auto intent = parse_intent(cell.broker.live(intent_key("default", kQueue))->value);
  ASSERT_TRUE(intent);
  EXPECT_EQ(intent->format, "parquet");
  EXPECT_EQ(intent->compression, "snappy");
  EXPECT_EQ(manifest_of(cell, 1).compression, "snappy");
  const std::size_t puts = cell.store.puts().size();
  Node node(cell, quick_node(), unit);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }, 60 * kSecond));
  EXPECT_EQ(cell.store.puts().size(), puts) << "committed from the finished upload";
}

TEST(QueueTaskLayouts, ARedoIsWrittenInTheFormOfItsIntentWhateverTheSettingsAreNow) {
  Cell expected_cell, cell;
  const auto expected = one_hour(expected_cell, unit_of(kText, Layout::per_partition), CrashPoint::never);
  push_rides(cell, 7);
  cell.run_for(kHour);
  {
    NodeSettings settings = quick_node();
    settings.crash_at = CrashPoint::mid_upload;
    Node node(cell, settings, unit_of(kText, Layout::per_partition));
    ASSERT_TRUE(cell.run_until([&] { return node.ended(); }, 2 * kHour));
  }
  Node node(cell, quick_node(), unit_of(kParquetZstd));
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }, 2 * kHour));
  EXPECT_EQ(cell.data_objects(), expected);
  EXPECT_EQ(manifest_of(cell, 1).layout, "per-partition");
  push_rides(cell, 2);
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 2; }, 2 * kHour));
  EXPECT_EQ(manifest_of(cell, 2).format, "parquet") << "the next window is written as the settings say";
}

// HD-17
TEST(QueueTaskLayouts, ChangingToOrFromDaysWarnsOnceAndNamesANewPrefix) {
  const auto warnings = [](Align before, Align after) {
    Cell cell;
    push_rides(cell, 3);
    {
      Node node(cell, quick_node(), unit_of(kText, Layout::merged, before));
      EXPECT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }, 30 * kHour));
      EXPECT_TRUE(node.stop());
    }
    RecordingLog log;
    Node node(cell, quick_node(), unit_of(kText, Layout::merged, after), log);
    cell.run_for(60 * kSecond);
    std::vector<std::string> out;
    for (const LogLine& line : log.lines) {
      if (line.event == "alignment_changed") out.push_back(line.fields.at("why"));
    }
    return out;
  };
  EXPECT_THAT(warnings(Align::hour, Align::day), ::testing::ElementsAre(HasSubstr("QUEEN_S3_PREFIX")));
  EXPECT_THAT(warnings(Align::day, Align::hour), ::testing::ElementsAre(HasSubstr("QUEEN_S3_PREFIX")));
  EXPECT_THAT(warnings(Align::hour, Align::none), ::testing::IsEmpty());
}

// HD-16
TEST(QueueTaskLayouts, EveryWriterWritesWhatAPushAccepts) {
  const auto owner = std::make_shared<const std::string>("x");
  const std::string long_name(300, 'n');
  const std::string names[] = {"", std::string("\0\x01\x1f\x7f", 4), "a\"\\\n/b", "caffè ☕", long_name};
  const std::string payloads[] = {"{}",
                                  "null",
                                  "\"\\ud800\"",
                                  " [1,\r\n2]\n",
                                  "1e400",
                                  "\"\"",
                                  "0",
                                  "-0.0",
                                  std::string(1 << 20, ' ') + "1"};
  std::vector<std::string> sorted(std::begin(names), std::end(names));
  std::sort(sorted.begin(), sorted.end());
  WindowPlan plan;
  plan.bounds = {1, 0, kHour};
  for (const std::string& name : sorted) {
    PlannedPartition partition{.name = name, .records = {}};
    for (const std::string& payload : payloads)
      partition.records.push_back({partition.records.size(), 1, name, payload, lake::Payload::json, owner});
    partition.records.push_back({partition.records.size(), 1, "", "", lake::Payload::null, owner});
    partition.records.push_back(
        {partition.records.size(), 1, "t", "\xff\xfe{", lake::Payload::raw_bytes, owner});
    partition.records.push_back({0, 2, "again", "1", lake::Payload::json, owner});  // made again
    plan.partitions.push_back(std::move(partition));
  }
  for (const lake::Kind kind : {kText, kParquetZstd, kParquetSnappy}) {
    for (const Layout layout : {Layout::merged, Layout::per_partition}) {
      for (std::size_t i = 0; i < object_count(plan, layout); ++i) {
        const auto built = build_object(plan, i, {{kind, layout}, {"queen", "t", "q"}, Align::hour, "0.1.0"});
        EXPECT_TRUE(built) << built.error().what;
      }
    }
  }
}

}  // namespace
}  // namespace queen::sink::test

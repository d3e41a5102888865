// Where reading starts, what counts as lost, and partitions made again (s3-sink.md 8.5, 12; [B13], [B14],
// [B25], [B26]).
#include <gtest/gtest.h>

#include "sink/detail/partition_table.h"
#include "sink/tests/fake_log.h"
#include "sink/window_engine.h"

namespace queen::sink::test {
namespace {

using Pairs = std::vector<std::pair<std::string, std::uint64_t>>;

EngineSettings latest() {
  auto settings = small_windows();
  settings.start = StartFrom::latest;
  return settings;
}

// The offset at which `partition` was first read, or nothing.
std::optional<std::uint64_t> first_read(const Driver& driver, const std::string& partition) {
  for (const FetchAction& call : driver.fetches)
    for (const FetchRequest& request : call.requests)
      if (request.partition == partition) return request.offset;
  return std::nullopt;
}

// A log of ten records of partition `a`, all older than the pointer, and a driver restored at k = 1.
struct Restored {
  FakeLog log;
  std::unique_ptr<Driver> driver;
  explicit Restored(EngineSettings settings) {
    for (int i = 0; i < 10; ++i) log.push("a");
    log.tick(70 * kSecond);
    driver = std::make_unique<Driver>(log, settings);
    driver->committed = Committed{1, log.now, "", 0, 0, 0};
    log.tick(10 * kSecond);
  }
  void start(std::vector<CheckpointPosition> positions, std::uint64_t k = 1) {
    driver->checkpoint = Checkpoint{k, driver->committed->t_end, std::move(positions)};
    driver->restart();
    driver->settle();
  }
};

TEST(Positions, ACheckpointEntryOfTheSameOrAnUnknownIdGivesTheOffset) {
  for (const bool known : {true, false}) {
    Restored at(small_windows());
    const auto id = at.log.partitions.at("a").id;
    at.start({{"a", 7, known ? std::optional(id) : std::nullopt}});
    EXPECT_EQ(first_read(*at.driver, "a"), 7U);
  }
}

TEST(Positions, ACheckpointEntryOfAnotherIncarnationCountsNothing) {
  Restored at(small_windows());
  Uuid other;
  other.bytes[15] = 9;
  at.log.trim("a", 2);
  at.start({{"a", 7, other}});
  EXPECT_EQ(first_read(*at.driver, "a"), 2U);
  at.log.push("a");
  at.driver->idle_for(80 * kSecond);
  ASSERT_EQ(at.driver->windows.size(), 1U);
  EXPECT_TRUE(at.driver->windows[0].lost.empty());
}

// [B24]
TEST(Positions, ACheckpointAheadOfTheCommitIsIgnored) {
  Restored at(small_windows());
  at.start({{"a", 7, std::nullopt}}, 2);
  EXPECT_EQ(first_read(*at.driver, "a"), 0U);
}

// [B14]
TEST(Positions, ACheckpointBelowTheStartOfTheLogIsClampedAndTheRestIsLostOnce) {
  Restored at(small_windows());
  at.log.trim("a", 6);
  at.start({{"a", 4, std::nullopt}});
  EXPECT_EQ(first_read(*at.driver, "a"), 6U);
  at.log.push("a");
  at.driver->idle_for(80 * kSecond);
  at.log.push("a");
  at.driver->idle_for(80 * kSecond);
  ASSERT_EQ(at.driver->windows.size(), 2U);
  EXPECT_EQ(at.driver->windows[0].lost, (std::vector<LostRange>{{"a", 4, 5}}));
  EXPECT_TRUE(at.driver->windows[1].lost.empty());
}

TEST(Positions, LatestSkipsWhatIsColdAndSeeksTheRest) {
  FakeLog log;
  log.push("cold");
  log.tick(10 * kSecond);
  log.push("warm");
  const std::int64_t t = log.now + 1;
  log.push("warm");
  Driver driver(log, latest());
  driver.committed = Committed{4, t, "", 0, 0, 0};
  driver.restart();
  log.tick(10 * kSecond);
  driver.settle();
  EXPECT_EQ(driver.seeks, 1U);
  EXPECT_EQ(first_read(driver, "warm"), 1U);
  EXPECT_EQ(first_read(driver, "cold"), std::nullopt);
  log.push("cold");
  driver.idle_for(10 * kSecond);
  EXPECT_EQ(first_read(driver, "cold"), 1U);
}

TEST(Positions, AFailedSeekReadsFromTheStartOfTheLog) {
  FakeLog log;
  log.push("warm");
  log.push("warm");
  Driver driver(log, latest());
  driver.committed = Committed{4, log.now, "", 0, 0, 0};
  driver.restart();
  driver.take();
  driver.perform(0);
  driver.take();
  const auto at = std::find_if(driver.pending.begin(), driver.pending.end(),
                               [](const Action& a) { return std::holds_alternative<SeekAction>(a); });
  ASSERT_NE(at, driver.pending.end());
  const auto seek = std::get<SeekAction>(*at).seek;
  driver.pending.erase(at);
  driver.engine().on_sought(seek, std::nullopt);
  driver.settle();
  EXPECT_EQ(first_read(driver, "warm"), 0U);
}

TEST(Positions, LatestWithoutAPointerStartsAboveWhatItSkips) {
  FakeLog log;
  log.push("old");
  Driver driver(log, latest());
  driver.settle();
  EXPECT_EQ(driver.seeks, 0U);
  // The record that is skipped is stamped at the page's safeTime.
  EXPECT_EQ(driver.engine().status().complete_through, log.now + 1);
  log.push("old");
  log.push("new");
  driver.idle_for(80 * kSecond);
  EXPECT_EQ(driver.all_shipped(), (Pairs{{"new", 0}, {"old", 1}}));
}

TEST(Lost, RetentionThatOvertakesARead) {
  FakeLog log;
  for (int i = 0; i < 10; ++i) log.push("a");
  Driver driver(log, small_windows());
  driver.take();
  driver.perform(0);
  driver.take();
  log.trim("a", 4);  // after discovery, before the read
  driver.settle();
  driver.idle_for(10 * kSecond);
  ASSERT_EQ(driver.windows.size(), 1U);
  EXPECT_EQ(driver.windows[0].lost, (std::vector<LostRange>{{"a", 0, 3}}));
  EXPECT_EQ(driver.windows[0].records.size(), 6U);
}

TEST(Lost, DiscoveryThatShowsALaterStart) {
  FakeLog log;
  log.push("a");
  Driver driver(log, small_windows());
  driver.settle();
  log.push("a");
  log.push("a");
  log.push("a");
  log.trim("a", 3);
  driver.idle_for(80 * kSecond);
  std::vector<LostRange> lost;
  for (const Shipped& window : driver.windows)
    lost.insert(lost.end(), window.lost.begin(), window.lost.end());
  EXPECT_EQ(lost, (std::vector<LostRange>{{"a", 1, 2}}));
  EXPECT_EQ(driver.all_shipped(), (Pairs{{"a", 0}, {"a", 3}}));
}

// A trim between the two reads of one fetch: the answer starts above the asked offset, without an error.
TEST(Lost, AJumpInAnAnswerCountsOnceAndOnlyAboveTheHorizon) {
  Restored at(small_windows());
  at.driver->restart();
  at.log.push("a");
  at.log.push("a");
  at.log.push("a");
  auto& records = at.log.partitions.at("a").records;
  records.erase(records.begin() + 3, records.begin() + 5);          // below the pointer: shipped long ago
  records.erase(records.begin() + 8 + 1, records.begin() + 8 + 2);  // offset 11: nobody shipped it
  at.driver->settle();
  at.driver->idle_for(80 * kSecond);
  ASSERT_EQ(at.driver->windows.size(), 1U);
  EXPECT_EQ(at.driver->windows[0].lost, (std::vector<LostRange>{{"a", 11, 11}}));
  EXPECT_EQ(at.driver->windows[0].records, (Pairs{{"a", 10}, {"a", 12}}));
}

TEST(Lost, APositionAboveTheLogComesDownToTheHighWatermark) {
  Restored at(small_windows());
  at.start({{"a", 15, std::nullopt}});
  for (int i = 0; i < 3; ++i) at.log.push("a");
  at.driver->idle_for(80 * kSecond);
  EXPECT_TRUE(at.driver->all_shipped().empty());  // offsets 10..12: the pointer says they are committed
  for (int i = 0; i < 5; ++i) at.log.push("a");
  at.driver->idle_for(80 * kSecond);
  EXPECT_EQ(at.driver->all_shipped(), (Pairs{{"a", 15}, {"a", 16}, {"a", 17}}));
}

// [B25] The old incarnation has two buffered and two unread records when it goes.
TEST(Incarnation, OldRecordsShipFirstUnreadOnesAreLostAndTheNewOneIsReadFromItsStart) {
  for (const int made : {1, 8}) {  // the new watermark below and above the old position
    FakeLog log;
    log.push("a");
    log.push("a");
    auto settings = small_windows();
    settings.checkpoint_every = 1;
    Driver driver(log, settings);
    driver.settle();
    log.push("a");
    log.push("a");
    // Discovery learns of four records, the reads fail, and the partition is made again.
    driver.engine().on_idle_over();
    driver.pending.clear();
    driver.take();
    driver.perform(0);
    driver.take();
    const auto call = std::get<FetchAction>(driver.pending.at(0)).call;
    log.remake("a");
    for (int i = 0; i < made; ++i) log.push("a");
    driver.pending.clear();
    driver.engine().on_fetch_failed(call);
    log.entry_errors["a"] = "HELD";
    driver.settle();
    driver.idle(2 * kSecond);  // discovery names the new id while reads still fail
    log.entry_errors.clear();
    driver.idle_for(10 * kSecond);
    ASSERT_EQ(driver.windows.size(), 1U);
    Pairs want{{"a", 0}, {"a", 1}};
    for (int i = 0; i < made; ++i) want.emplace_back("a", i);
    EXPECT_EQ(driver.windows[0].records, want);
    EXPECT_EQ(driver.windows[0].lost, (std::vector<LostRange>{{"a", 2, 3}}));
    ASSERT_TRUE(driver.checkpoint.has_value());
    EXPECT_EQ(driver.checkpoint->positions,
              (std::vector<CheckpointPosition>{
                  {"a", static_cast<std::uint64_t>(made), log.partitions.at("a").id}}));
  }
}

// Nobody told the engine yet that the partition was made again, and a read already brings its records.
TEST(Incarnation, ARecordReadBeforeDiscoveryNamedItsIncarnationShipsOnce) {
  FakeLog log;
  log.push("a", "\"old\"");
  Driver driver(log, small_windows());
  driver.take();
  driver.perform(0);
  log.remake("a");
  log.push("a", "\"new\"");
  log.push("a", "\"new\"");
  driver.settle();
  EXPECT_GT(driver.engine().buffered_weight(), 0U);
  driver.idle_for(10 * kSecond);
  ASSERT_EQ(driver.windows.size(), 1U);
  EXPECT_EQ(driver.windows[0].records, (Pairs{{"a", 0}, {"a", 1}}));
  EXPECT_TRUE(driver.windows[0].texts[0].ends_with("\"new\""));
  EXPECT_EQ(driver.engine().buffered_weight(), 0U);
}

TEST(Incarnation, ALogThatShrankUnderAReadNamesWhatItLost) {
  FakeLog log;
  for (int i = 0; i < 3; ++i) log.push("a");
  log.records_per_answer = 1;
  Driver driver(log, small_windows());
  for (int i = 0; i < 3; ++i) {  // discovery, and two of three records
    driver.take();
    driver.perform(0);
  }
  log.remake("a");
  log.push("a");
  driver.settle();
  driver.idle_for(10 * kSecond);
  std::vector<LostRange> lost;
  for (const Shipped& window : driver.windows)
    lost.insert(lost.end(), window.lost.begin(), window.lost.end());
  EXPECT_EQ(lost, (std::vector<LostRange>{{"a", 2, 2}}));
  EXPECT_EQ(driver.all_shipped(), (Pairs{{"a", 0}, {"a", 1}, {"a", 0}}));
}

// The void itself, below the engine: a pass that was half read when the call went out can name the new
// incarnation.
TEST(Incarnation, TheTableAbsorbsAnAnswerOfAnOlderGenerationIntoTheVoid) {
  detail::PartitionTable table;
  const detail::PageContext page{kEpoch, 1, 1, true, detail::kNever};
  ChangedRow row{"a", Uuid{}, 4, 0, kEpoch};
  table.merge(row, page);
  detail::Partition* a = table.wanting_fetch({1, kEpoch}).at(0).second;
  a->in_flight = true;
  row.id->bytes[0] = 7;
  row.last_offset = 0;
  table.merge(row, page);
  EXPECT_TRUE(table.wanting_fetch({1, kEpoch}).empty());  // one call per partition, also across incarnations
  FetchedEntry late;
  late.high_watermark = 5;
  const auto text = std::make_shared<const std::string>("t{}");
  late.records.push_back({0, kEpoch - 1, "t", "{}", lake::Payload::json, text});
  table.absorb(*a, 0, std::move(late), detail::kNever, kEpoch);
  EXPECT_EQ(table.weight(), 0U);
  EXPECT_EQ(a->next, 0U);
  EXPECT_EQ(table.wanting_fetch({1, kEpoch}).size(), 1U);
  EXPECT_EQ(table.cut({1, 0, kEpoch}).lost, (std::vector<LostRange>{{"a", 0, 4}}));
}

TEST(Incarnation, AnIdIsLearnedForAPartitionThatHadNone) {
  detail::PartitionTable table;
  const detail::PageContext page{kEpoch, 1, 1, true, detail::kNever};
  ChangedRow row{"a", std::nullopt, 4, 0, kEpoch};
  table.merge(row, page);
  row.id = Uuid{};
  table.merge(row, page);
  EXPECT_TRUE(table.cut({1, 0, kEpoch}).lost.empty());
  EXPECT_EQ(table.positions(1, 0).positions.at(0).id, Uuid{});
}

// Records of an older incarnation wait in the buffer when a checkpoint is written: they name no position.
TEST(Incarnation, OlderBufferedRecordsNeverNameAPosition) {
  detail::PartitionTable table;
  const detail::PageContext page{kEpoch, 1, 1, true, detail::kNever};
  ChangedRow row{"a", Uuid{}, 41, 40, kEpoch};
  table.merge(row, page);
  detail::Partition* a = table.wanting_fetch({1, kEpoch}).at(0).second;
  const auto text = std::make_shared<const std::string>("t{}");
  const auto answer = [&](std::uint64_t offset, std::int64_t ts) {
    FetchedEntry entry;
    entry.high_watermark = offset + 1;
    entry.records.push_back({offset, ts, "t", "{}", lake::Payload::json, text});
    return entry;
  };
  table.absorb(*a, 0, answer(40, kEpoch + 1), detail::kNever, kEpoch);
  row = {"a", Uuid{{1}}, 0, 0, kEpoch + 2};
  table.merge(row, page);
  EXPECT_EQ(table.positions(1, 0).positions.at(0).offset, 0U);
  table.absorb(*a, 1, answer(0, kEpoch + 3), detail::kNever, kEpoch);
  table.absorb(*a, 1, answer(1, kEpoch + 4), detail::kNever, kEpoch);
  EXPECT_EQ(table.positions(1, 0).positions.at(0).offset, 0U);
  table.cut({1, 0, kEpoch + 4});
  EXPECT_EQ(table.positions(1, 0).positions.at(0).offset, 1U);
}

}  // namespace
}  // namespace queen::sink::test

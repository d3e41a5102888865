// The readers' side as the disk sees it: which indexes are loaded and how, what is fetched ahead, what is let
// go.
#include "qlog/detail/index_file.h"
#include "support.h"
#include "watched_disk.h"

namespace queen::qlog {
namespace {

using Texts = std::vector<std::string>;

struct WatchedNode : Node {
  WatchedDisk watched{disk};
  Watch& watch = watched.watch;
  ManualClock clock;

  WatchedNode() {
    seen = &watched;
    options.clock = &clock;
  }
  ~WatchedNode() { logs.reset(); }  // before the disk that counts its files

  // `files` sealed files of `appends` appends of one message each, of pids 1.. in turn.
  void fill(std::uint64_t files, std::uint64_t appends, std::uint64_t pids = 1) {
    options.segment_bytes = 33;  // every group its own file
    must_open();
    std::uint64_t index = 0;
    for (std::uint64_t f = 0; f <= files; ++f) {
      std::vector<TestEntry> group;
      for (std::uint64_t i = 0; i < appends; ++i, ++index)
        group.push_back(
            push(index + 1, 5, 1 + index % pids, index / pids, {"text " + std::to_string(index)}));
      must_write(group);
    }
  }
  std::string index_name(std::uint32_t id) const { return detail::index_path(options.directory, {5}, id); }
  Texts expected(std::uint64_t count) const {
    Texts texts;
    for (std::uint64_t i = 0; i < count; ++i) texts.push_back("text " + std::to_string(i));
    return texts;
  }
};

// QL-22
TEST(SealedIndexes, AreMappedAboveOnePageAndHeldBelow) {
  WatchedNode node;
  node.fill(3, 80);  // 48 + 80 x 48 bytes: fits a page
  EXPECT_EQ(node.texts({5}, {1}), node.expected(320));
  EXPECT_EQ(node.watch.maps, 0u);
  EXPECT_EQ(node.logs->stats().maps, 0u);

  WatchedNode large;
  large.fill(3, 90);
  EXPECT_EQ(large.texts({5}, {1}), large.expected(360));
  EXPECT_EQ(large.watch.maps, 3u);
  EXPECT_EQ(large.logs->stats().maps, 3u);
  EXPECT_EQ(large.texts({5}, {1}), large.expected(360));
  EXPECT_EQ(large.watch.maps, 3u);  // kept
}

// QL-22: the number of maps is bounded whatever the number of files, and reported above 70%.
TEST(SealedIndexes, MapNoMoreThanFourFifthsOfTheLimitAndWarnBefore) {
  WatchedNode node;
  node.options.maps_limit = 10;
  node.fill(20, 90);
  EXPECT_EQ(node.texts({5}, {1}), node.expected(21 * 90));
  EXPECT_LE(node.watch.mapped, 8u);
  EXPECT_EQ(node.logs->stats().maps_limit, 10u);
  EXPECT_EQ(node.logs->stats().maps, 8u);
  EXPECT_EQ(std::ranges::count(node.log.events, "index_maps_near_limit"), 1);
}

// B30
TEST(SealedIndexes, AProcessOutOfMapsGoesOnSealingAndReading) {
  WatchedNode node;
  node.options.maps_limit = 4;
  node.watch.mapped_max = 3;
  node.fill(10, 90);
  EXPECT_EQ(node.texts({5}, {1}), node.expected(11 * 90));
  EXPECT_EQ(std::ranges::count(node.log.events, "index_maps_near_limit"), 1);
  node.watch.mapped_max = 0;
  node.must_open();
  EXPECT_EQ(node.texts({5}, {1}), node.expected(11 * 90));
  node.must_write({push(991, 5, 1, 990, {"text 990"})});
  EXPECT_EQ(node.texts({5}, {1}), node.expected(991));
}

// B12, QL-21
TEST(SealedIndexes, ThatDoNotFitTheFileAreMadeAgainAndAnswersStayTheSame) {
  for (const std::uint64_t appends : {2, 90}) {
    WatchedNode node;
    node.fill(4, appends);
    const Bytes good = node.bytes_of(node.index_name(2));
    const auto damage = [&](const std::function<void()>& change) {
      node.must_open();  // forgets what was loaded
      change();
      const auto before = node.logs->stats().indexes_rebuilt;
      EXPECT_EQ(node.texts({5}, {1}), node.expected(5 * appends));
      EXPECT_EQ(node.logs->stats().indexes_rebuilt, before + 1);
      EXPECT_EQ(node.bytes_of(node.index_name(2)), good);
    };
    damage([&] { ASSERT_TRUE(node.disk.remove_file(node.index_name(2))); });                    // missing
    damage([&] { node.put(node.index_name(2), ""); });                                          // empty
    damage([&] { node.put(node.index_name(2), BytesView(good).substr(0, good.size() - 1)); });  // truncated
    damage([&] { node.put(node.index_name(2), good + Bytes(48, '\0')); });                      // too long
    damage([&] { node.put(node.index_name(2), node.bytes_of(node.index_name(3))); });  // of another file
    for (std::size_t at = 0; at < good.size(); at += 1 + good.size() / 40)
      damage([&] { node.flip(node.index_name(2), at); });
    damage([&] {  // stale: right in itself, of a file of another length
      auto index = detail::decode_index_file(good);
      index->file_bytes += 1;
      node.put(node.index_name(2), detail::encode_index_file(*index));
    });
  }
}

TEST(SealedIndexes, ThatCannotBeWrittenAreKeptInMemory) {
  WatchedNode node;
  node.fill(4, 90);
  node.must_open();
  ASSERT_TRUE(node.disk.remove_file(node.index_name(2)));
  node.disk.set_free_bytes(0);
  EXPECT_EQ(node.texts({5}, {1}), node.expected(450));
  EXPECT_EQ(node.texts({5}, {1}), node.expected(450));
  EXPECT_EQ(node.logs->stats().indexes_rebuilt, 1u);
}

// CR-5
TEST(DamagedRecords, AreAnErrorCountedAndToldOfOnce) {
  WatchedNode node;
  node.fill(2, 3);
  node.flip(node.file(5, 1), kFileHeaderBytes + kRecordFixedBytes + 20);
  for (int i = 1; i <= 5; ++i) {
    const auto batch = node.logs->read({5}, {1}, 0, Node::kAll);
    ASSERT_FALSE(batch);
    EXPECT_EQ(batch.error().code, Errc::corrupt);
    EXPECT_EQ(node.logs->stats().damaged_reads, static_cast<std::uint64_t>(i));
  }
  EXPECT_EQ(std::ranges::count(node.log.events, "record_damaged"), 1);
  node.clock.advance(11'000'000);
  EXPECT_FALSE(node.logs->hashes_at({5}, {1}, 0));
  EXPECT_EQ(std::ranges::count(node.log.events, "record_damaged"), 2);
  EXPECT_EQ(node.logs->read({5}, {1}, 1, Node::kAll)->messages.size(), 8u);  // the others are not touched
}

// CR-5: a batch that meets damage later ends before it, and the damage is told of all the same.
TEST(DamagedRecords, EndABatchBeforeThem) {
  WatchedNode node;
  node.fill(2, 3);
  node.flip(node.file(5, 2), kFileHeaderBytes + kRecordFixedBytes + 20);
  EXPECT_EQ(node.texts({5}, {1}), node.expected(3));
  EXPECT_EQ(node.logs->stats().damaged_reads, 1u);
  EXPECT_EQ(std::ranges::count(node.log.events, "record_damaged"), 1);
}

// RD-6
TEST(Gaps, AreSkippedCountedAndToldOf) {
  Node node;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a"}), push(2, 5, 1, 7, {"b"}), push(3, 5, 1, 8, {"c"})});
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"a", "b", "c"}));
  EXPECT_EQ(node.logs->stats().gaps, 1u);
  EXPECT_EQ(std::ranges::count(node.log.events, "gap_skipped"), 1);
  EXPECT_EQ(node.texts({5}, {1}, 7), (Texts{"b", "c"}));
  EXPECT_EQ(node.logs->stats().gaps, 1u);
}

// RD-7
TEST(ReadAhead, BeginsOnceAReadOfTheWalkWaitedForTheDisk) {
  WatchedNode node;
  node.fill(1, 20);
  EXPECT_EQ(node.texts({5}, {1}), node.expected(40));
  EXPECT_TRUE(node.watch.fetched.empty());
  std::size_t reads = 0;
  node.watch.on_read = [&](const std::string& path) {
    if (path.ends_with(".qlog") && ++reads == 3) node.clock.advance(5'000);
  };
  EXPECT_EQ(node.texts({5}, {1}), node.expected(40));
  // 17 records are left in the first file, then all of the next one.
  EXPECT_EQ(node.watch.fetched.size(), 37u);
  const auto places = node.logs->locate({5}, {1}, 3, 1);
  EXPECT_EQ(std::get<0>(node.watch.fetched.front()), node.file(5, 1));
  EXPECT_EQ(std::get<2>(node.watch.fetched.front()), places->front().stored_bytes + kRecordFixedBytes + 16);
}

// RD-7: no further than the read goes.
TEST(ReadAhead, StaysWithinTheLimitsOfTheRead) {
  WatchedNode node;
  node.fill(1, 20);
  node.watch.on_read = [&](const std::string&) { node.clock.advance(5'000); };
  ASSERT_TRUE(
      node.logs->read({5}, {1}, 0, {.end_offset = 4, .messages_max = 100, .payload_bytes_max = 1 << 20}));
  EXPECT_EQ(node.watch.fetched.size(), 3u);
}

// storage.md 20.1 step 3: one search for a walk through one file.
TEST(Walks, SearchOnceForConsecutiveRecords) {
  WatchedNode node;
  node.fill(1, 2000);
  EXPECT_EQ(node.logs->locate({5}, {1}, 100, 1700)->size(), 1700u);
  const auto places = node.logs->locate({5}, {1}, 100, 3000);
  ASSERT_EQ(places->size(), 3000u);
  for (std::size_t i = 0; i < places->size(); ++i) ASSERT_EQ((*places)[i].base_offset, 100 + i);
}

// RD-8
TEST(Readers, KeepAFileThatIsUnlinkedOrRenamedOver) {
  WatchedNode node;
  node.fill(2, 3);
  EXPECT_EQ(node.texts({5}, {1}), node.expected(9));
  ASSERT_TRUE(node.disk.remove_file(node.file(5, 1)));
  ASSERT_TRUE(node.disk.remove_file(node.index_name(1)));
  EXPECT_EQ(node.texts({5}, {1}), node.expected(9));
}

// GC-11
TEST(DropBehind, DropsSyncedBytesOnceAndOnlyFarBehindTheTail) {
  WatchedNode node;
  node.options.segment_bytes = 3 << 20;
  node.options.drop_behind_bytes = 1 << 20;
  node.options.prealloc_bytes = 0;
  node.must_open();
  std::map<std::string, std::uint64_t> dropped;
  std::uint64_t in_all = 0;
  SeededRandom random(5);
  for (std::uint64_t i = 0; i < 120; ++i) {
    std::string text;
    while (text.size() < 100'000) text.push_back(static_cast<char>(random.next() % 256));
    node.must_write({push(i + 1, 5, 1, i, {text})});
    for (const auto& [path, offset, bytes] : std::exchange(node.watch.dropped, {})) {
      EXPECT_EQ(offset, dropped[path]);  // each byte once, in order
      dropped[path] = offset + bytes;
      in_all += bytes;
      EXPECT_LE(dropped[path], node.watch.synced[path]);
    }
    const std::uint64_t written = node.logs->bytes_on_disk();
    EXPECT_LE(in_all + (1 << 20), std::max<std::uint64_t>(written, 1 << 20));
    EXPECT_GE(in_all + (2 << 20), written);
  }
  EXPECT_EQ(dropped.size(), node.logs->files().at({5}).size());
}

TEST(DropBehind, IsOffByDefault) {
  WatchedNode node;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {std::string(9 << 20, 'x')})});
  node.must_write({push(2, 5, 1, 1, {std::string(9 << 20, 'y')})});
  EXPECT_TRUE(node.watch.dropped.empty());
}

// HD-28
TEST(Descriptors, OfTwoThousandLogsAreBounded) {
  WatchedNode node;
  node.options.fd_cache = 20;
  node.must_open();
  std::vector<TestEntry> group;
  for (std::uint64_t log = 1; log <= 2000; ++log) group.push_back(push(log, 10 + log, log, 0, {"a"}));
  node.must_write(group);
  group.clear();
  for (std::uint64_t log = 1; log <= 2000; ++log) group.push_back(push(2000 + log, 10 + log, log, 1, {"b"}));
  const TestGroup first(group);
  auto written = node.logs->write_group(first.entries());
  ASSERT_TRUE(written);
  // The next group is written while this one waits for its sync.
  group.clear();
  for (std::uint64_t log = 1; log <= 2000; ++log) group.push_back(push(4000 + log, 10 + log, log, 2, {"c"}));
  const TestGroup second(group);
  auto next = node.logs->write_group(second.entries());
  ASSERT_TRUE(next);
  ASSERT_TRUE(node.logs->sync(*written));
  ASSERT_TRUE(node.logs->sync(*next));
  for (std::uint64_t log = 1; log <= 2000; log += 7)
    EXPECT_EQ(node.texts({10 + log}, {log}), (Texts{"a", "b", "c"}));
  EXPECT_LE(node.watch.open_highest, 3 * node.options.fd_cache + 2);
  node.disk.crash();
  node.must_open();
  EXPECT_EQ(node.logs->recovery().last_index, 6000u);
  EXPECT_LE(node.watch.open_highest, 3 * node.options.fd_cache + 2);
}

// HD-28
TEST(Descriptors, ThatOthersHoldAreWaitedFor) {
  WatchedNode node;
  std::int64_t waited = 0;
  node.options.pause = [&](std::int64_t us) {
    waited += us;
    if (waited >= 3'000'000) node.watch.open_max = SIZE_MAX;
  };
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a"})});
  node.watch.open_max = 0;
  node.must_write({push(2, 6, 2, 0, {"b"}), push(3, 5, 1, 1, {"c"})});
  EXPECT_GE(waited, 3'000'000);
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"a", "c"}));
  EXPECT_EQ(std::ranges::count(node.log.events, "descriptors_exhausted"), 1);
}

// HD-28: readers of records and of indexes wait too.
TEST(Descriptors, AreWaitedForByReads) {
  WatchedNode node;
  std::int64_t waited = 0;
  node.options.pause = [&](std::int64_t us) {
    waited += us;
    if (waited >= 1'000'000) node.watch.open_max = SIZE_MAX;
  };
  node.fill(3, 90);
  node.must_open();
  node.watch.open_max = 0;
  EXPECT_EQ(node.texts({5}, {1}), node.expected(360));
  EXPECT_GE(waited, 1'000'000);
}

// HD-28: no descriptor for ten seconds refuses the group; it does not stop the node.
TEST(Descriptors, ThatNeverComeRefuseTheWriteAndTheNextOneGoesThrough) {
  WatchedNode node;
  std::int64_t waited = 0;
  node.options.pause = [&](std::int64_t us) { waited += us; };
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a"})});
  node.watch.open_max = 0;
  const auto done = node.write({push(2, 5, 1, 1, {"b"}), push(3, 6, 2, 0, {"c"})});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::busy);
  EXPECT_GE(waited, 9'000'000);
  EXPECT_LE(waited, 11'000'000);
  node.watch.open_max = SIZE_MAX;
  node.must_write({push(2, 5, 1, 1, {"b"}), push(3, 6, 2, 0, {"c"})});
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"a", "b"}));
  node.must_open();
  EXPECT_EQ(node.replayed(), (std::vector<std::uint64_t>{1, 2, 3}));
}

// HD-28: the files of logs that are there may have been closed meanwhile.
TEST(Descriptors, ThatNeverComeForAFileThatWasClosedRefuseTheWriteAndTheNextOneGoesThrough) {
  WatchedNode node;
  node.options.fd_cache = 0;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a"}), push(2, 6, 2, 0, {"c"})});
  for (int i = 0; i < 3; ++i) {
    node.watch.open_max = 0;
    const auto done = node.write({push(3, 5, 1, 1, {"b"}), push(4, 6, 2, 1, {"d"})});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::busy);
  }
  node.watch.open_max = SIZE_MAX;
  node.must_write({push(3, 5, 1, 1, {"b"}), push(4, 6, 2, 1, {"d"})});
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"a", "b"}));
  EXPECT_EQ(node.texts({6}, {2}), (Texts{"c", "d"}));
}

}  // namespace
}  // namespace queen::qlog

// Recovery ends in the right state: merge, cut, torn tails, leftovers.
#include "qlog/detail/index_file.h"
#include "support.h"

namespace queen::qlog {
namespace {

using Indexes = std::vector<std::uint64_t>;
using Texts = std::vector<std::string>;

TestEntry touching(std::uint64_t index, std::vector<std::uint64_t> logs) {
  TestEntry entry{.index = index, .messages = {}, .touched = {}, .note = "n" + std::to_string(index)};
  for (const auto log : logs) entry.touched.push_back({log});
  return entry;
}

// Keeps the first `bytes` of a file.
void cut_file(Node& node, const std::string& path, std::size_t bytes) {
  node.put(path, node.bytes_of(path).substr(0, bytes));
}

TEST(Recovery, AnEmptyDirectoryStartsAtOne) {
  Node node;
  node.must_open();
  EXPECT_EQ(node.logs->recovery().last_index, 0u);
  EXPECT_TRUE(node.replayed().empty());
  node.must_write({touching(1, {0})});
}

TEST(Recovery, MergesLogsInIndexOrderEachEntryOnce) {
  Node node;
  node.must_open();
  node.must_write({touching(1, {9, 12}), touching(2, {3}), touching(3, {9}), touching(4, {3, 9, 12})});
  node.disk.crash();
  node.must_open();
  EXPECT_EQ(node.replayed(), (Indexes{1, 2, 3, 4}));
  EXPECT_EQ(node.logs->recovery().logs, 3u);
}

TEST(Recovery, ReplaysAboveTheDurableIndexOnly) {
  Node node;
  node.must_open();
  node.must_write({touching(1, {3}), touching(2, {3}), touching(3, {3})});
  node.durable = {.durable_index = 2, .qlog_durable_index = 2, .tails = {{{3}, 2}}, .files = {{{3}, {1}}}};
  node.must_open();
  EXPECT_EQ(node.replayed(), (Indexes{3}));
  EXPECT_EQ(node.logs->recovery().entries_to_replay, 1u);
  node.durable.durable_index = node.durable.qlog_durable_index = 3;
  node.must_open();
  EXPECT_TRUE(node.replayed().empty());
  EXPECT_EQ(node.logs->recovery().last_index, 3u);
}

TEST(Recovery, ReplayStopsAtTheFirstErrorOfApply) {
  Node node;
  node.must_open();
  node.must_write({touching(1, {3}), touching(2, {3}), touching(3, {3})});
  node.must_open();
  Indexes seen;
  const auto done = node.logs->replay([&](const RecoveredEntry& entry) -> Status {
    seen.push_back(entry.index.value);
    if (entry.index.value == 2) return Error{Errc::conflict, "no"};
    return {};
  });
  EXPECT_EQ(done.error().code, Errc::conflict);
  EXPECT_EQ(seen, (Indexes{1, 2}));
}

// The example of storage.md 13: 105 is short of one copy, so 105 and the complete 106 go everywhere.
TEST(Recovery, OneMissingCopyCutsThatEntryAndAllLaterOnes) {
  for (const std::uint64_t losing : {3, 9, 12}) {
    Node node;
    node.must_open();
    node.must_write({push(1, 3, 1, 0, {"kept"}), touching(2, {9, 12})});
    const auto before = node.disk.files();
    TestEntry wide = push(3, 9, 2, 0, {"cut"});
    wide.touched = {{3}, {12}};
    node.must_write({wide, push(4, 20, 5, 0, {"cut too"})});
    const std::string loser = node.file(losing, 1);
    cut_file(node, loser, before.at(loser).size());
    node.must_open();
    EXPECT_EQ(node.replayed(), (Indexes{1, 2}));
    EXPECT_EQ(node.logs->recovery().entries_cut, 2u);
    for (const auto& [path, bytes] : before) EXPECT_EQ(node.bytes_of(path), bytes) << path;
    EXPECT_EQ(node.bytes_of(node.file(20, 1)).size(), kFileHeaderBytes);
    EXPECT_TRUE(node.texts({9}, {2}).empty());
    node.must_write({push(3, 9, 2, 0, {"again"})});
    node.must_open();
    EXPECT_EQ(node.replayed(), (Indexes{1, 2, 3}));
    EXPECT_EQ(node.texts({9}, {2}), (Texts{"again"}));
  }
}

TEST(Recovery, AMissingMessageRecordMakesItsEntryIncomplete) {
  Node node;
  node.must_open();
  node.must_write({touching(1, {3})});
  // An entry whose append names a record that nobody wrote.
  Bytes entry;
  append_le(entry, std::uint32_t{1});
  append_le(entry, std::uint64_t{7});
  append_le(entry, std::uint64_t{0});
  const EntryToWrite lying{
      .index = {2}, .term = 0, .now_us = 2, .entry = entry, .messages = {}, .touched = {LogId{3}}};
  ASSERT_TRUE(node.logs->sync(*node.logs->write_group({&lying, 1})));
  node.must_open();
  EXPECT_EQ(node.replayed(), (Indexes{1}));
}

TEST(Recovery, AGapCutsWhatFollows) {
  Node node;
  node.must_open();
  node.must_write({touching(1, {3})});
  const auto kept = node.bytes_of(node.file(3, 1));
  node.must_write({touching(2, {3})});
  node.must_write({touching(3, {9})});
  cut_file(node, node.file(3, 1), kept.size());
  node.must_open();
  EXPECT_EQ(node.replayed(), (Indexes{1}));
  EXPECT_EQ(node.bytes_of(node.file(9, 1)).size(), kFileHeaderBytes);
  // The file was opened for index 3, which is now above what comes next.
  node.must_write({touching(2, {9})});
  node.must_open();
  EXPECT_EQ(node.replayed(), (Indexes{1, 2}));
}

// Every length of the last group, with and without a checkpoint below it, and with garbage instead of
// nothing.
TEST(Recovery, TornTailAtEveryByteIsCut) {
  for (const bool garbage : {false, true}) {
    Node node;
    node.must_open();
    node.must_write({push(1, 3, 1, 0, {"a"}), push(2, 3, 1, 1, {"b"})});
    const Bytes kept = node.bytes_of(node.file(3, 1));
    // The last byte is not zero, or the zeros put in its place would make it whole again.
    TestEntry last_entry = push(4, 3, 2, 0, {"d"});
    last_entry.note = "end";
    node.must_write({push(3, 3, 1, 2, {"c"}), last_entry});
    const Bytes whole = node.bytes_of(node.file(3, 1));
    node.durable = {.durable_index = 1, .qlog_durable_index = 1, .tails = {{{3}, 1}}, .files = {{{3}, {1}}}};
    for (std::size_t n = kept.size(); n < whole.size(); ++n) {
      node.logs.reset();
      node.put(node.file(3, 1), whole.substr(0, n) + (garbage ? Bytes(30, '\x7F') : Bytes(n % 3, '\0')));
      node.must_open();
      const auto last = node.logs->recovery().last_index;
      ASSERT_TRUE(last == 2 || last == 3) << n;
      ASSERT_EQ(node.texts({3}, {1}).size(), last) << n;
      ASSERT_TRUE(node.texts({3}, {2}).empty());
      const auto settled = node.disk.files();
      node.must_open();
      ASSERT_EQ(node.disk.files(), settled) << n;
      ASSERT_EQ(node.logs->recovery().last_index, last);
      node.must_write({push(last + 1, 3, 1, last, {"new"})});
      node.must_open();
      ASSERT_EQ(node.texts({3}, {1}).back(), "new") << n;
    }
  }
}

TEST(Recovery, ABitFlipAboveTheDurableIndexIsCutThere) {
  Node node;
  node.must_open();
  node.must_write({push(1, 3, 1, 0, {"a"})});
  const auto kept = node.bytes_of(node.file(3, 1)).size();
  node.must_write({push(2, 3, 1, 1, {"b"})});
  node.must_write({push(3, 3, 1, 2, {"c"})});
  node.durable = {.durable_index = 1, .qlog_durable_index = 1, .tails = {{{3}, 1}}, .files = {{{3}, {1}}}};
  node.flip(node.file(3, 1), kept + 30);
  node.must_open();
  EXPECT_EQ(node.logs->recovery().last_index, 1u);
  EXPECT_EQ(node.bytes_of(node.file(3, 1)).size(), kept);
}

TEST(Recovery, AnUnusedNewestFileIsRemovedInEachOfItsStates) {
  const Bytes unused = encode_file_header({.file_id = 2, .first_seq = kUnusedFirstSeq});
  for (const Bytes& state : {Bytes(), Bytes(10, 'x'), Bytes(32, '\0'), Bytes(500, '\0'), unused}) {
    Node node;
    node.must_open();
    node.must_write({push(1, 3, 1, 0, {"a"})});
    node.put(node.file(3, 2), state);
    node.must_open();
    EXPECT_FALSE(node.disk.files().contains(node.file(3, 2)));
    EXPECT_EQ(node.texts({3}, {1}), (Texts{"a"}));
    node.must_write({push(2, 3, 1, 1, {"b"})});
  }
}

TEST(Recovery, LeftoversAndDeadLogsAreSwept) {
  Node node;
  node.must_open();
  node.must_write({push(1, 3, 1, 0, {"a"})});
  ASSERT_TRUE(node.disk.make_dirs("/data/qlog/q77.dead"));
  ASSERT_TRUE(node.disk.make_dirs("/data/qlog/q78"));
  const auto clean = node.disk.files();
  for (const char* name : {"q77.dead/r00000001.qlog", "q3/r00000001.qidx", "q3/r00000001.qidx.tmp",
                           "q3/r00000009.qidx", "q3/x.compact", "LANES.tmp"})
    node.put(std::string("/data/qlog/") + name, "left over");
  node.must_open();
  EXPECT_EQ(node.disk.files(), clean);
  EXPECT_FALSE(*node.disk.exists("/data/qlog/q77.dead"));
}

// Sealed files with each damage an index can have: it is made again, and answers do not change.
TEST(Recovery, AnIndexThatDoesNotFitIsMadeAgain) {
  Node node;
  node.options.segment_bytes = 200;
  node.must_open();
  for (std::uint64_t i = 0; i < 7; ++i) node.must_write({push(i + 1, 3, 1, i, {"t" + std::to_string(i)})});
  const std::string path = "/data/qlog/q3/r00000002.qidx";
  const Bytes good = node.bytes_of(path);
  const auto expected = node.texts({3}, {1});
  Bytes of_other = node.bytes_of("/data/qlog/q3/r00000001.qidx");
  auto stale = *detail::decode_index_file(good);
  stale.file_bytes += 1;
  std::vector<Bytes> damages{good.substr(0, 60), good + "x", "", of_other, detail::encode_index_file(stale)};
  for (const std::size_t at : {0UL, 17UL, 45UL, 60UL, good.size() - 1}) {
    damages.push_back(good);
    damages.back()[at] = static_cast<char>(damages.back()[at] ^ 1);
  }
  for (const auto& damage : damages) {
    node.logs.reset();
    node.put(path, damage);
    node.must_open();
    EXPECT_EQ(node.bytes_of(path), good);
    EXPECT_EQ(node.texts({3}, {1}), expected);
  }
  node.logs.reset();
  ASSERT_TRUE(node.disk.remove_file(path));
  node.must_open();
  EXPECT_EQ(node.bytes_of(path), good);
}

TEST(Recovery, AnIndexLostWhileRunningIsMadeFromTheFile) {
  Node node;
  node.options.segment_bytes = 100;
  node.must_open();
  for (std::uint64_t i = 0; i < 3; ++i) node.must_write({push(i + 1, 3, 1, i, {"t"})});
  node.must_open();
  ASSERT_TRUE(node.disk.remove_file("/data/qlog/q3/r00000001.qidx"));
  EXPECT_EQ(node.texts({3}, {1}).size(), 3u);
}

TEST(Recovery, SealedFilesAtOrBelowTheDurableIndexAreNotScanned) {
  Node node;
  node.options.segment_bytes = 4000;
  node.must_open();
  const std::string text(400, 'x');
  for (std::uint64_t i = 0; i < 40; ++i) node.must_write({push(i + 1, 3, 1, i, {text})});
  node.durable = {.durable_index = 38,
                  .qlog_durable_index = 38,
                  .tails = {{{3}, 38}},
                  .files = {{{3}, node.logs->files().at({3})}}};
  ASSERT_GT(node.durable.files.at({3}).size(), 4u);
  // A flip in a sealed file with a valid index is for readers and the scrub to find, not for the boot.
  node.flip(node.file(3, 1), 500);
  node.must_open();
  EXPECT_LT(node.logs->recovery().bytes_scanned, 10'000u);
  EXPECT_EQ(node.replayed(), (Indexes{39, 40}));
  EXPECT_FALSE(node.logs->read({3}, {1}, 0, Node::kAll));
}

TEST(Recovery, RecordsLongerThanAChunkAreScanned) {
  Node node;
  node.must_open();
  SeededRandom random(4);
  Texts texts;
  for (const std::size_t size : {3'000'000UL, 10UL, 1'048'576UL, 1'500'000UL}) {
    std::string text(size, '\0');
    for (auto& c : text) c = static_cast<char>(random.next());
    node.must_write({push(texts.size() + 1, 3, 1, texts.size(), {text})});
    texts.push_back(std::move(text));
  }
  node.must_open();
  EXPECT_EQ(node.texts({3}, {1}), texts);
}

// Moves whenever it is asked, so that every look at the clock is 3 s later.
class HastyClock final : public Clock {
 public:
  std::int64_t wall_us() override { return 0; }
  std::int64_t mono_us() override { return now_ += 3'000'000; }

 private:
  std::int64_t now_ = 0;
};

TEST(Recovery, TellsItsProgressEvery5Seconds) {
  Node node;
  node.must_open();
  for (std::uint64_t i = 0; i < 6; ++i) node.must_write({touching(i + 1, {3})});
  HastyClock clock;
  node.options.clock = &clock;
  node.log.events.clear();
  node.must_open();
  EXPECT_EQ(std::ranges::count(node.log.events, "qlog_merge_progress"), 3);
}

}  // namespace
}  // namespace queen::qlog

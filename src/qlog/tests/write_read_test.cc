#include <cerrno>
#include <thread>

#include "support.h"

namespace queen::qlog {
namespace {

using Texts = std::vector<std::string>;

TEST(WriteGroup, IsReadableAtOnceAndAfterReopening) {
  Node node;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a", "b"}), push(2, 5, 2, 0, {"x"}), push(3, 5, 1, 2, {"c"})});
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"a", "b", "c"}));
  node.disk.crash();
  node.must_open();
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"a", "b", "c"}));
  EXPECT_EQ(node.texts({5}, {2}), (Texts{"x"}));
  EXPECT_EQ(node.replayed(), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(node.logs->recovery().last_index, 3u);
}

TEST(WriteGroup, WritesAFileExactlyAsGolden) {
  Node node;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a", "b"}),
                   {.index = 2, .messages = {{{5}, {1}, 2, {"c"}}}, .touched = {{4}}, .note = "note"}});
  EXPECT_EQ(hex_lower(node.bytes_of(node.file(5, 1))), hex_lower(golden("qlog/file.hex")));
}

TEST(WriteGroup, LowestLogHoldsTheEntryAndOthersStubs) {
  for (const bool copies : {false, true}) {
    Node node;
    node.options.entry_copies = copies;
    node.must_open();
    node.must_write(
        {{.index = 1, .messages = {}, .touched = {{3}, {5}, {9}}, .note = std::string(200, 'n')}});
    const auto size = [&](std::uint64_t log) {
      return node.bytes_of(node.file(log, 1)).size() - kFileHeaderBytes;
    };
    EXPECT_EQ(size(3), kRecordFixedBytes + 204);
    EXPECT_EQ(size(5), copies ? kRecordFixedBytes + 204 : kStubBytes);
    EXPECT_EQ(size(9), size(5));
    node.options.entry_copies = !copies;  // a directory may hold both
    node.must_open();
    node.must_write({{.index = 2, .messages = {}, .touched = {{3}, {5}}, .note = "two"}});
    node.must_open();
    EXPECT_EQ(node.replayed(), (std::vector<std::uint64_t>{1, 2}));
  }
}

TEST(WriteGroup, OneWriteAndOneSyncPerTouchedLog) {
  Node node;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a"}), push(2, 6, 2, 0, {"a"})});
  const auto before = node.disk.changes();
  node.must_write({push(3, 5, 1, 1, {"b"}), push(4, 5, 1, 2, {"c"}), push(5, 6, 2, 1, {"b"})});
  EXPECT_EQ(node.disk.changes() - before, 4u);  // two writes, two syncs
}

TEST(WriteGroup, EveryLengthOfEveryKindGoesThroughARestart) {
  Node node;
  node.must_open();
  std::vector<std::size_t> sizes{4095, 4096, 4097};
  for (std::size_t n = 1; n <= 17; ++n) sizes.push_back(n);
  std::uint64_t index = 0;
  Texts expected;
  SeededRandom random(3);
  for (const auto n : sizes) {
    std::string text;
    while (text.size() < n) text.push_back(static_cast<char>('a' + random.next() % 26));
    TestEntry entry = push(index + 1, 5, 1, index, {text});
    ++index;
    entry.touched = {{5}, {6}};
    entry.note = text;
    node.must_write({entry});
    expected.push_back(text);
  }
  node.disk.crash();
  node.must_open();
  EXPECT_EQ(node.texts({5}, {1}), expected);
  std::size_t at = 0;
  ASSERT_TRUE(node.logs->replay([&](const RecoveredEntry& entry) -> Status {
    EXPECT_TRUE(entry.entry.ends_with(expected[at++]));
    return {};
  }));
  EXPECT_EQ(at, sizes.size());
}

TEST(Roll, HappensBeforeAGroupOnceTheFileIsFull) {
  Node node;
  node.options.segment_bytes = 200;
  node.must_open();
  Texts expected;
  for (std::uint64_t i = 0; i < 20; ++i) {
    expected.push_back("text " + std::to_string(i));
    node.must_write({push(i + 1, 5, 1, i, {expected.back()})});
    EXPECT_EQ(node.texts({5}, {1}), expected);
  }
  const auto files = node.logs->files().at({5});
  EXPECT_EQ(files.size(), 10u);  // two entries reach 200 bytes
  EXPECT_EQ(files.front(), 1u);
  EXPECT_EQ(files.back(), 10u);
  EXPECT_TRUE(node.disk.files().contains("/data/qlog/q5/r00000009.qidx"));
  EXPECT_FALSE(node.disk.files().contains("/data/qlog/q5/r00000010.qidx"));
  node.disk.crash();
  node.must_open();
  EXPECT_EQ(node.texts({5}, {1}), expected);
  EXPECT_EQ(node.texts({5}, {1}, 7), (Texts(expected.begin() + 7, expected.end())));
}

TEST(Roll, AGroupLargerThanTheLimitLiesWholeInOneFile) {
  Node node;
  node.options.segment_bytes = 33;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a"}), push(2, 5, 1, 1, {"b"}), push(3, 5, 1, 2, {"c"})});
  EXPECT_EQ(node.logs->files().at({5}).size(), 1u);
  node.must_write({push(4, 5, 1, 3, {"d"})});
  EXPECT_EQ(node.logs->files().at({5}).size(), 2u);
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"a", "b", "c", "d"}));
}

TEST(Roll, SyncsEarlierGroupsOfAllLogsFirst) {
  Node node;
  node.options.segment_bytes = 100;
  node.must_open();
  const TestGroup first({push(1, 5, 1, 0, {std::string(100, 'a')}), push(2, 6, 2, 0, {"b"})});
  ASSERT_TRUE(node.logs->write_group(first.entries()));
  const TestGroup second({push(3, 5, 1, 1, {"c"})});
  ASSERT_TRUE(node.logs->write_group(second.entries()));
  node.disk.crash();  // nobody called sync(), the roll did
  node.must_open();
  EXPECT_EQ(node.replayed(), (std::vector<std::uint64_t>{1, 2}));
}

TEST(Precreation, MakesTheNextFileWhenHalfFullAndLeavesItUnlisted) {
  Node node;
  node.options.segment_bytes = 300;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {std::string(50, 'x')})});
  ASSERT_TRUE(node.disk.files().contains(node.file(5, 2)));
  EXPECT_EQ(decode_file_header(node.bytes_of(node.file(5, 2)))->first_seq, kUnusedFirstSeq);
  EXPECT_EQ(node.logs->files().at({5}), std::vector<std::uint32_t>{1});
  node.must_write({push(2, 5, 1, 1, {std::string(50, 'y')}), push(3, 5, 1, 2, {"z"})});
  node.must_write({push(4, 5, 1, 3, {"in two"})});
  EXPECT_EQ(decode_file_header(node.bytes_of(node.file(5, 2)))->first_seq, 4u);
  node.must_open();
  EXPECT_EQ(node.texts({5}, {1}, 3), (Texts{"in two"}));
}

TEST(Precreation, CanBeOff) {
  Node node;
  node.options.segment_bytes = 300;
  node.options.precreate = false;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {std::string(150, 'x')})});
  EXPECT_FALSE(node.disk.files().contains(node.file(5, 2)));
}

struct PreallocRow {
  const char* name;
  std::uint64_t prealloc_bytes;
  std::uint32_t min_syncs;
  std::size_t text_bytes;
  std::uint64_t syncs;
  std::uint64_t zeros_least, zeros_most;
};

class Preallocation : public testing::TestWithParam<PreallocRow> {};

TEST_P(Preallocation, FollowsTheTable) {
  const auto& row = GetParam();
  Node node;
  node.options.prealloc_bytes = row.prealloc_bytes;
  node.options.prealloc_min_syncs = row.min_syncs;
  node.must_open();
  SeededRandom random(5);
  std::uint64_t logical = kFileHeaderBytes;
  for (std::uint64_t i = 0; i < row.syncs; ++i) {
    std::string text;
    while (text.size() < row.text_bytes) text.push_back(static_cast<char>(random.next()));
    const TestGroup group({push(i + 1, 5, 1, i, {text})});
    const auto written = node.logs->write_group(group.entries());
    ASSERT_TRUE(written && node.logs->sync(*written));
    logical += written->bytes;
  }
  const std::uint64_t zeros = node.bytes_of(node.file(5, 1)).size() - logical;
  EXPECT_GE(zeros, row.zeros_least);
  EXPECT_LE(zeros, row.zeros_most);
  EXPECT_EQ(node.logs->bytes_on_disk(), logical + zeros);
  ASSERT_TRUE(node.logs->close());
  EXPECT_EQ(node.bytes_of(node.file(5, 1)).size(), logical);
  node.must_open();
  EXPECT_EQ(node.logs->recovery().last_index, row.syncs);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, Preallocation,
    testing::Values(PreallocRow{"off", 0, 0, 100, 100, 0, 0},
                    PreallocRow{"before_the_gate", 1 << 20, 64, 100, 64, 0, 0},
                    PreallocRow{"shortest_run", 1 << 20, 64, 100, 65, 64 << 10, 64 << 10},
                    PreallocRow{"run_by_average", 1 << 20, 64, 4096, 65, 64 * 4000, 64 * 4400},
                    PreallocRow{"longest_run", 1 << 20, 64, 24 << 10, 65, 1 << 20, 1 << 20},
                    PreallocRow{"large_syncs", 1 << 20, 2, 40 << 10, 20, 0, 0},
                    PreallocRow{"no_gate", 256 << 10, 0, 100, 2, 256 << 10, 256 << 10},
                    PreallocRow{"refill", 64 << 10, 0, 1000, 60, 16 << 10, 64 << 10}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(PreallocationBound, NeverPassesTheRollSize) {
  Node node;
  node.options.segment_bytes = 1000;
  node.options.prealloc_min_syncs = 0;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a"})});
  node.must_write({push(2, 5, 1, 1, {"b"})});
  EXPECT_EQ(node.bytes_of(node.file(5, 1)).size(), 1000u);
  for (std::uint64_t i = 2; i < 20; ++i) node.must_write({push(i + 1, 5, 1, i, {"c"})});
  EXPECT_GE(node.logs->files().at({5}).size(), 2u);
  EXPECT_NE(node.bytes_of(node.file(5, 1)).size() % 1000, 0u);  // cut at the roll
  node.must_open();
  EXPECT_EQ(node.texts({5}, {1}).size(), 20u);
}

TEST(Preallocation, AZeroTailAtOpenIsCut) {
  Node node;
  node.options.prealloc_min_syncs = 0;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a"})});
  node.must_write({push(2, 5, 1, 1, {"b"})});
  ASSERT_GT(node.bytes_of(node.file(5, 1)).size(), 1U << 20);
  node.disk.crash();
  node.must_open();
  EXPECT_LT(node.bytes_of(node.file(5, 1)).size(), 1000u);
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"a", "b"}));
}

TEST(FullDisk, GroupIsCutBackEverywhereAndTheNodeGoesOn) {
  Node node;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a"}), push(2, 6, 2, 0, {"b"})});
  const auto before = node.disk.files();
  node.disk.set_free_bytes(200);
  SeededRandom random(1);
  std::string big;
  while (big.size() < 500) big.push_back(static_cast<char>('a' + random.next() % 26));
  EXPECT_EQ(node.write({push(3, 5, 1, 1, {"c"}), push(4, 6, 2, 1, {big})}).error().code, Errc::full);
  EXPECT_EQ(node.disk.files(), before);
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"a"}));
  node.disk.set_free_bytes(std::nullopt);
  node.must_write({push(3, 6, 2, 1, {"d"})});
  node.disk.crash();
  node.must_open();
  EXPECT_EQ(node.replayed(), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(node.texts({6}, {2}), (Texts{"b", "d"}));
}

TEST(FullDisk, ALogThatCannotBeMadeOrRolledLeavesTheNodeUsable) {
  Node node;
  node.options.segment_bytes = 100;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a"})});
  node.disk.set_free_bytes(0);
  EXPECT_EQ(node.write({push(2, 7, 3, 0, {"new log"})}).error().code, Errc::full);
  EXPECT_EQ(node.write({push(2, 5, 1, 1, {"rolls"})}).error().code, Errc::full);
  node.disk.set_free_bytes(std::nullopt);
  node.must_write({push(2, 5, 1, 1, {"b"}), push(3, 7, 3, 0, {"c"})});
  node.must_open();
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"a", "b"}));
  EXPECT_EQ(node.texts({7}, {3}), (Texts{"c"}));
}

TEST(Failures, AFailedWriteOrSyncEndsWriting) {
  for (const auto op : {disk::RamOp::pwrite, disk::RamOp::sync}) {
    Node node;
    node.must_open();
    node.must_write({push(1, 5, 1, 0, {"a"})});
    node.disk.fail(op, 1, Errc::unavailable, EIO);
    EXPECT_EQ(node.write({push(2, 5, 1, 1, {"b"})}).error().code, Errc::unavailable);
    EXPECT_EQ(node.write({push(2, 5, 1, 1, {"b"})}).error().code, Errc::unavailable);
    EXPECT_EQ(node.texts({5}, {1}).front(), "a");
  }
}

TEST(Failures, AFailureToCutBackEndsWriting) {
  Node node;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a"})});
  node.disk.set_free_bytes(1);
  node.disk.fail(disk::RamOp::truncate, 1, Errc::unavailable, EIO);
  EXPECT_EQ(node.write({push(2, 5, 1, 1, {"b"})}).error().code, Errc::unavailable);
  EXPECT_EQ(node.write({push(2, 5, 1, 1, {"b"})}).error().code, Errc::unavailable);
}

TEST(Failures, RecordsAboveTheLimitAreInvalidAndChangeNothing) {
  Node node;
  node.must_open();
  const Bytes huge(kRecordBytesMax, 'x');
  const EntryToWrite entry{
      .index = {1}, .term = 0, .now_us = 1, .entry = huge, .messages = {}, .touched = {kSystemLog}};
  EXPECT_EQ(node.logs->write_group({&entry, 1}).error().code, Errc::invalid);
  node.must_write({push(1, 5, 1, 0, {"a"})});
}

TEST(Close, NoWriteMayFollow) {
  Node node;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a"})});
  ASSERT_TRUE(node.logs->close());
  EXPECT_EQ(node.write({push(2, 5, 1, 1, {"b"})}).error().code, Errc::unavailable);
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"a"}));
}

class ReadLimitsTest : public testing::Test {
 protected:
  void SetUp() override {
    node_.options.segment_bytes = 150;
    node_.must_open();
    node_.must_write({push(1, 5, 1, 0, {"aa", "bb", "cc"}), push(2, 5, 2, 0, {"other"})});
    node_.must_write({push(3, 5, 1, 3, {"dd", ""})});
    node_.must_write({push(4, 5, 1, 7, {"hh", "ii"})});  // 5 and 6 were never written
  }
  std::vector<std::uint64_t> offsets(std::uint64_t from, ReadLimits limits) {
    const auto batch = node_.logs->read({5}, {1}, from, limits);
    EXPECT_TRUE(batch);
    std::vector<std::uint64_t> out;
    for (const auto& message : batch->messages) out.push_back(message.offset);
    return out;
  }
  Node node_;
};
using Offsets = std::vector<std::uint64_t>;

TEST_F(ReadLimitsTest, StartsInsideARecordAndJumpsOverGaps) {
  EXPECT_EQ(offsets(1, Node::kAll), (Offsets{1, 2, 3, 4, 7, 8}));
  EXPECT_EQ(offsets(5, Node::kAll), (Offsets{7, 8}));
  EXPECT_EQ(offsets(8, Node::kAll), (Offsets{8}));
  EXPECT_EQ(offsets(9, Node::kAll), Offsets{});
}

TEST_F(ReadLimitsTest, EndOffsetIsExclusive) {
  EXPECT_EQ(offsets(0, {.end_offset = 4, .messages_max = 99, .payload_bytes_max = 99}),
            (Offsets{0, 1, 2, 3}));
  EXPECT_EQ(offsets(5, {.end_offset = 7, .messages_max = 99, .payload_bytes_max = 99}), Offsets{});
  EXPECT_EQ(offsets(0, {.end_offset = 0, .messages_max = 99, .payload_bytes_max = 99}), Offsets{});
}

TEST_F(ReadLimitsTest, CountsMessages) {
  EXPECT_EQ(offsets(0, {.end_offset = 99, .messages_max = 4, .payload_bytes_max = 99}),
            (Offsets{0, 1, 2, 3}));
  EXPECT_EQ(offsets(0, {.end_offset = 99, .messages_max = 0, .payload_bytes_max = 99}), Offsets{});
}

TEST_F(ReadLimitsTest, LeavesOutWhatWouldCrossTheBytesUnlessFirst) {
  EXPECT_EQ(offsets(0, {.end_offset = 99, .messages_max = 99, .payload_bytes_max = 5}), (Offsets{0, 1}));
  EXPECT_EQ(offsets(0, {.end_offset = 99, .messages_max = 99, .payload_bytes_max = 6}), (Offsets{0, 1, 2}));
  EXPECT_EQ(offsets(0, {.end_offset = 99, .messages_max = 99, .payload_bytes_max = 0}), (Offsets{0}));
  // The empty payload at 4 counts one byte.
  EXPECT_EQ(offsets(3, {.end_offset = 99, .messages_max = 99, .payload_bytes_max = 3}), (Offsets{3, 4}));
  EXPECT_EQ(offsets(3, {.end_offset = 99, .messages_max = 99, .payload_bytes_max = 2}), (Offsets{3}));
}

TEST_F(ReadLimitsTest, UnknownLogsAndPartitionsAreEmpty) {
  EXPECT_TRUE(node_.texts({77}, {1}).empty());
  EXPECT_TRUE(node_.texts({5}, {77}).empty());
}

TEST_F(ReadLimitsTest, DamageIsAnErrorOnlyWhereTheReadStarts) {
  const Bytes bytes = node_.bytes_of(node_.file(5, 2));
  node_.flip(node_.file(5, 2), bytes.size() / 2);  // the record at offset 3
  EXPECT_EQ(offsets(0, Node::kAll), (Offsets{0, 1, 2}));
  const auto damaged = node_.logs->read({5}, {1}, 3, Node::kAll);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, Errc::corrupt);
  EXPECT_NE(damaged.error().what.find("q5"), std::string::npos);
  EXPECT_EQ(offsets(7, Node::kAll), (Offsets{7, 8}));
}

TEST(FdCache, ZeroOpensPerUse) {
  Node node;
  node.options.fd_cache = 0;
  node.options.segment_bytes = 100;
  node.must_open();
  for (std::uint64_t i = 0; i < 10; ++i) node.must_write({push(i + 1, 5, 1, i, {"t"})});
  node.must_open();
  EXPECT_EQ(node.texts({5}, {1}).size(), 10u);
}

TEST(FdCache, AFailedOpenIsTriedAgainWithoutTheCachedOnes) {
  Node node;
  node.options.fd_cache = 1;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a"}), push(2, 6, 2, 0, {"b"})});
  node.disk.fail(disk::RamOp::open, 1, Errc::unavailable, EMFILE);
  node.must_write({push(3, 5, 1, 1, {"c"}), push(4, 6, 2, 1, {"d"})});
}

// Readers run while files are written, rolled and sealed; each batch is a gapless prefix of what was written.
TEST(Threads, ReadersSeeWholePrefixesDuringRolls) {
  Node node;
  node.options.segment_bytes = 2000;
  node.must_open();
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> batches{0};
  const auto reader = [&] {
    while (!stop) {
      const auto batch = node.logs->read({5}, {1}, 0, Node::kAll);
      ASSERT_TRUE(batch);
      for (std::size_t i = 0; i < batch->messages.size(); ++i) {
        ASSERT_EQ(batch->messages[i].offset, i);
        ASSERT_EQ(batch->messages[i].frame.payload, std::to_string(i));
      }
      ++batches;
    }
  };
  std::thread first(reader), second(reader);
  for (std::uint64_t i = 0; i < 400; ++i) {
    // A busy machine may run the writer alone for long: every so often it waits for a reader.
    for (const std::uint64_t seen = batches; i % 40 == 0 && batches == seen;) std::this_thread::yield();
    node.must_write({push(i + 1, 5, 1, i, {std::to_string(i)})});
  }
  stop = true;
  first.join();
  second.join();
  EXPECT_GT(node.logs->files().at({5}).size(), 10u);
}

// The writer goes on while another thread syncs.
TEST(Threads, SyncOnAnotherThreadWhileTheNextGroupIsWritten) {
  Node node;
  node.options.segment_bytes = 1000;
  node.must_open();
  std::optional<WrittenGroup> before;
  for (std::uint64_t i = 0; i < 200; ++i) {
    std::thread syncer([&] {
      if (before) {
        EXPECT_TRUE(node.logs->sync(*before));
      }
    });
    const TestGroup group({push(i + 1, 5 + i % 3, 1 + i % 3, i / 3, {"t"})});
    auto written = node.logs->write_group(group.entries());
    syncer.join();
    ASSERT_TRUE(written);
    before = std::move(*written);
  }
  ASSERT_TRUE(node.logs->sync(*before));
  node.disk.crash();
  node.must_open();
  EXPECT_EQ(node.logs->recovery().last_index, 200u);
}

}  // namespace
}  // namespace queen::qlog

// The questions that the index answers without a scan: where appends stand, from when on, and with which ids.
#include "support.h"

namespace queen::qlog {
namespace {

// Entry n writes message n-1 of pid 1 at stamp 1'000'000 + n, over many small files, pid 2 between them.
void fill(Node& node, std::uint64_t entries, std::uint64_t segment_bytes) {
  node.options.segment_bytes = segment_bytes;
  node.must_open();
  for (std::uint64_t i = 0; i < entries; ++i) {
    TestEntry entry = push(i + 1, 5, 1, i, {"text " + std::to_string(i)});
    entry.messages.push_back({{5}, {2}, 2 * i, {"a", "b"}});
    node.must_write({entry});
  }
}

std::int64_t stamp(std::uint64_t offset) {
  return 1'000'001 + static_cast<std::int64_t>(offset);
}

// storage.md 20.1 steps 1-3
TEST(Locate, GivesTheAppendsFromAnOffsetOnOverAllFiles) {
  Node node;
  fill(node, 40, 500);
  ASSERT_GT(node.logs->files().at({5}).size(), 5u);
  for (std::uint64_t from = 0; from <= 80; ++from) {
    const auto places = node.logs->locate({5}, {2}, from, 1000);
    ASSERT_TRUE(places);
    ASSERT_EQ(places->size(), 40 - from / 2) << from;
    for (std::size_t i = 0; i < places->size(); ++i) {
      EXPECT_EQ((*places)[i].base_offset, from / 2 * 2 + 2 * i);
      EXPECT_EQ((*places)[i].end, (*places)[i].base_offset + 2);
      EXPECT_EQ((*places)[i].count, 2u);
      EXPECT_EQ((*places)[i].created_at, stamp((*places)[i].base_offset / 2));
    }
  }
  EXPECT_EQ(node.logs->locate({5}, {2}, 10, 3)->size(), 3u);
  EXPECT_TRUE(node.logs->locate({5}, {3}, 0, 10)->empty());
  EXPECT_TRUE(node.logs->locate({6}, {1}, 0, 10)->empty());
}

TEST(Locate, TellsThePayloadBytesAsStored) {
  Node node;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"abc"}), push(2, 5, 1, 1, {std::string(4000, 'z')})});
  const auto places = node.logs->locate({5}, {1}, 0, 10);
  ASSERT_EQ(places->size(), 2u);
  MessageFrame frame;
  frame.transaction_id = "t0";
  frame.payload = "abc";
  Bytes raw;
  append_frame(raw, frame);
  EXPECT_EQ((*places)[0].stored_bytes, raw.size());
  EXPECT_LT((*places)[1].stored_bytes, 1000u);  // compressed
}

// storage.md 20.1 step 4
TEST(FirstStamped, IsTheFirstOffsetAtOrAfterAStampInEveryFile) {
  Node node;
  fill(node, 40, 500);
  for (std::uint64_t at = 0; at < 40; ++at) {
    EXPECT_EQ(*node.logs->first_stamped_at_or_after({5}, {1}, 0, 40, stamp(at)), at);
    EXPECT_EQ(*node.logs->first_stamped_at_or_after({5}, {2}, 0, 80, stamp(at)), 2 * at);
    for (std::uint64_t from = 0; from < 40; from += 7)
      EXPECT_EQ(*node.logs->first_stamped_at_or_after({5}, {1}, from, 40, stamp(at)), std::max(at, from));
  }
}

TEST(FirstStamped, IsTheEndWhenNothingBelowItIsYoungEnough) {
  Node node;
  fill(node, 40, 500);
  EXPECT_EQ(*node.logs->first_stamped_at_or_after({5}, {1}, 0, 40, stamp(40)), 40u);
  EXPECT_EQ(*node.logs->first_stamped_at_or_after({5}, {1}, 0, 20, stamp(30)), 20u);
  EXPECT_EQ(*node.logs->first_stamped_at_or_after({5}, {9}, 3, 40, stamp(0)), 40u);
  EXPECT_EQ(*node.logs->first_stamped_at_or_after({6}, {1}, 3, 40, stamp(0)), 40u);
  // From the middle of an append: its first message that is asked for.
  EXPECT_EQ(*node.logs->first_stamped_at_or_after({5}, {2}, 7, 80, stamp(0)), 7u);
}

// RD-5
TEST(HashesAt, AreThoseOfTheAppendThatHoldsTheOffset) {
  Node node;
  node.must_open();
  const std::string large(4000, 'z');
  node.must_write({push(1, 5, 1, 0, {"a", "b"}), push(2, 5, 1, 2, {large, large})});
  const auto first = node.logs->hashes_at({5}, {1}, 1);
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->base_offset, 0u);
  EXPECT_EQ((*first)->created_at, stamp(0));
  EXPECT_EQ((*first)->hashes, Bytes(xxh3_128("t0").view()) + Bytes(xxh3_128("t1").view()));
  const auto second = node.logs->hashes_at({5}, {1}, 3);
  ASSERT_TRUE(second && *second);
  EXPECT_EQ((*second)->base_offset, 2u);
  Bytes raw;
  for (const char* id : {"t2", "t3"}) {
    MessageFrame frame;
    frame.transaction_id = id;
    frame.payload = large;
    append_frame(raw, frame);
  }
  EXPECT_EQ((*second)->raw_bytes, raw.size());
  for (const std::uint64_t nowhere : {4ULL, 100ULL}) {
    const auto none = node.logs->hashes_at({5}, {1}, nowhere);
    ASSERT_TRUE(none);
    EXPECT_FALSE(*none);
  }
}

// RD-5: a damaged payload makes the hashes unusable too, for only the whole record has a checksum.
TEST(HashesAt, IsAnErrorWhenAnyByteOfTheRecordIsDamaged) {
  Node node;
  node.options.segment_bytes = 33;
  node.must_open();
  node.must_write({push(1, 5, 1, 0, {"a"})});
  node.must_write({push(2, 5, 1, 1, {"b"})});
  const std::size_t end =
      kFileHeaderBytes + node.logs->locate({5}, {1}, 0, 1)->front().stored_bytes + kRecordFixedBytes + 16;
  for (std::size_t at = kFileHeaderBytes; at < end; ++at) {
    node.flip(node.file(5, 1), at);
    const auto found = node.logs->hashes_at({5}, {1}, 0);
    ASSERT_FALSE(found) << at;
    EXPECT_EQ(found.error().code, Errc::corrupt);
    node.flip(node.file(5, 1), at);
  }
  EXPECT_TRUE(node.logs->hashes_at({5}, {1}, 0));
}

}  // namespace
}  // namespace queen::qlog

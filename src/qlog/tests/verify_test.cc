// Verification of the logs without a node: everything is found, nothing is changed.
#include "qlog/verify.h"

#include "verify_support.h"
#include "watched_disk.h"

namespace queen::qlog {
namespace {

// Entries over three logs, each in a file of its own.
void fill(Node& node, std::uint64_t entries) {
  node.options.segment_bytes = 33;
  node.options.precreate = false;
  node.must_open();
  for (std::uint64_t i = 1; i <= entries; ++i)
    node.must_write({{.index = i,
                      .messages = {{{3}, {1}, i - 1, {std::string(700, 'x')}}, {{9}, {2}, i - 1, {"small"}}},
                      .touched = {{12}},
                      .note = {}}});
  ASSERT_TRUE(node.logs->close());
  node.logs.reset();
}

TEST(VerifyLogs, FindsNothingInWhatWasWritten) {
  Node node;
  fill(node, 5);
  const auto all_new = verify(node);
  EXPECT_TRUE(all_new.found.all.empty());
  EXPECT_EQ(all_new.facts.last_index, 5u);
  EXPECT_EQ(all_new.seen.messages, 10u);
  EXPECT_EQ(all_new.seen.entries, 5u);
  node.durable.durable_index = 5;
  EXPECT_TRUE(verify(node).found.all.empty());
}

// A copy may lie where nothing can be written. Entries to replay are read from their files once more.
TEST(VerifyLogs, OpensNothingToWrite) {
  Node node;
  fill(node, 3);
  WatchedDisk disk(node.disk);
  ManualClock clock;
  const AppendsOf appends = appends_of;
  Seen seen;
  FindingList found;
  const auto facts =
      verify_logs({disk, node.options.directory, node.durable, appends, clock, Logger(null_log(), "verify")},
                  seen, found);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->entries_to_replay, 3u);
  EXPECT_TRUE(disk.watch.opened_to_write.empty());
}

// BR-1, CR-6: recovery stops at the first, and does not look where an index is valid.
TEST(VerifyLogs, FindsEveryDamagedRecordOfSealedFiles) {
  Node node;
  fill(node, 6);
  node.durable.durable_index = 6;
  for (const std::uint32_t file : {1, 2, 4}) node.flip(node.file(3, file), kFileHeaderBytes + 60);
  const auto seen = verify(node);
  EXPECT_EQ(seen.rules(Severity::damage), (std::vector<std::string>{"CR-6", "CR-6", "CR-6"}));
  EXPECT_EQ(seen.found.all.front().path, node.file(3, 1));
  EXPECT_EQ(seen.found.all.front().position, kFileHeaderBytes);
  EXPECT_EQ(seen.found.all.front().boot, Boot::starts);
  EXPECT_EQ(seen.seen.messages, 9u);  // what stands behind the damage was read
}

// BR-4 below the durable index, where recovery no longer looks.
TEST(VerifyLogs, ComparesPartsOfEntriesThatAreCheckpointed) {
  for (const std::size_t parts_max : {1000, 2}) {
    Node node;
    fill(node, 6);
    node.durable.durable_index = 6;
    const std::string path = node.file(12, 2);
    Bytes bytes = node.bytes_of(path);
    const Record stub = scan_record(BytesView(bytes).substr(kFileHeaderBytes)).record;
    Record other = stub;
    other.created_at += 1;
    Bytes changed = bytes.substr(0, kFileHeaderBytes);
    append_record(changed, other, stub.body);
    node.put(path, changed);
    const auto seen = verify(node, parts_max);
    EXPECT_EQ(seen.rules(Severity::damage), std::vector<std::string>{"BR-4"}) << parts_max;
  }
}

// BR-10, BR-3: both logs are named, not only the first.
TEST(VerifyLogs, NamesEveryMissingFileAndEveryShortLog) {
  Node node;
  fill(node, 3);
  node.durable = {.durable_index = 3,
                  .qlog_durable_index = 3,
                  .tails = {{{9}, 7}, {{12}, 8}},
                  .files = {{{3}, {1, 2, 3, 8, 9}}}};
  EXPECT_EQ(verify(node).rules(Severity::damage),
            (std::vector<std::string>{"BR-10", "BR-10", "BR-3", "BR-3"}));
}

// 14: what must not stop a boot.
TEST(VerifyLogs, LeftoversAreNotes) {
  Node node;
  fill(node, 3);
  node.put(node.options.directory + "/q3/r00000001.compact", "half");
  node.put(node.options.directory + "/q3/stranger", "?");
  node.flip(detail::index_path(node.options.directory, {3}, 1), 20);
  ASSERT_TRUE(node.disk.remove_file(detail::index_path(node.options.directory, {3}, 2)));
  const auto seen = verify(node);
  EXPECT_TRUE(seen.rules(Severity::damage).empty());
  EXPECT_EQ(seen.rules(Severity::note), (std::vector<std::string>{"QL-21", "QL-21", "RC-6", "DIR-8"}));
}

Record message_of(Bytes& body, std::uint32_t count, bool compressed) {
  Record record;
  record.count = count;
  record.compressed = compressed;
  record.body = body;
  return record;
}
Bytes frame_of(std::string_view transaction, std::string_view payload) {
  MessageFrame frame;
  frame.transaction_id = transaction;
  frame.payload = payload;
  Bytes bytes;
  append_frame(bytes, frame);
  return bytes;
}

TEST(CheckContent, TakesRecordsAsTheyAreWritten) {
  Bytes plain = Bytes(xxh3_128("a").view()) + frame_of("a", "1");
  EXPECT_TRUE(check_content(message_of(plain, 1, false)));
  const Bytes frame = frame_of("a", std::string(2000, 'x'));
  Bytes packed = Bytes(xxh3_128("a").view()) + compress_payload(frame, 1).value();
  EXPECT_TRUE(check_content(message_of(packed, 1, true)));
}

// QL-15
TEST(CheckContent, FindsAnotherNumberOfFrames) {
  Bytes body = Bytes(xxh3_128("a").view()) + frame_of("a", "1") + frame_of("b", "1");
  EXPECT_FALSE(check_content(message_of(body, 1, false)));
}

// QL-2
TEST(CheckContent, FindsAHashOfAnotherId) {
  Bytes body = Bytes(xxh3_128("b").view()) + frame_of("a", "1");
  EXPECT_FALSE(check_content(message_of(body, 1, false)));
}

// QL-9
TEST(CheckContent, FindsAPayloadThatIsNoZstdFrame) {
  Bytes body = Bytes(xxh3_128("a").view()) + frame_of("a", "1");
  EXPECT_FALSE(check_content(message_of(body, 1, true)));
}

}  // namespace
}  // namespace queen::qlog

// A sealed file written anew: when the copy takes its place, what recovery makes of it, and readers beside
// it. storage.md RE-8, RD-8.
#include <atomic>
#include <cerrno>
#include <thread>

#include "qlog/detail/queue_logs_impl.h"
#include "qlog/detail/record_read.h"
#include "upkeep_support.h"

namespace queen::qlog {
namespace {

using Texts = std::vector<std::string>;

// RE-8
TEST(Rewrite, ACopyTakesItsPlaceOnlyAfterACheckpointCutAfterTheJudgement) {
  UpkeepNode node;
  one_sealed_file(node, 5, 3);
  node.dead_below(1, 1);
  const Bytes old = node.bytes_of(node.file(5, 1));
  TestCut before = node.cut();
  ASSERT_EQ(node.pass().rewritten, 1u);
  node.commit(std::move(before));
  node.pass();
  EXPECT_EQ(node.bytes_of(node.file(5, 1)), old);
  EXPECT_TRUE(node.has(node.compact_of(5, 1)));
  EXPECT_TRUE(node.logs->files_changed()) << "an idle node takes that checkpoint too";
  node.checkpoint();
  node.pass();
  EXPECT_NE(node.bytes_of(node.file(5, 1)), old);
  EXPECT_FALSE(node.has(node.compact_of(5, 1)));
}

// RE-8, QL-3: the file keeps its header and holds message records only, byte for byte; a restart takes it as
// it is, with and without its index.
TEST(Rewrite, ARewrittenFileIsASealedFileToRecovery) {
  for (const bool with_index : {true, false}) {
    UpkeepNode node;
    one_sealed_file(node, 5, 3);
    const Bytes old = node.bytes_of(node.file(5, 1));
    node.dead_below(1, 1);
    rewrite_file_one(node);
    const Bytes fresh = node.bytes_of(node.file(5, 1));
    EXPECT_EQ(fresh.substr(0, kFileHeaderBytes), old.substr(0, kFileHeaderBytes));
    for (std::size_t at = kFileHeaderBytes; at < fresh.size();) {
      const auto found = scan_record(BytesView(fresh).substr(at));
      ASSERT_EQ(found.outcome, Scan::record);
      EXPECT_EQ(found.record.kind, RecordKind::message);
      EXPECT_NE(old.find(fresh.substr(at, found.bytes)), Bytes::npos);
      at += found.bytes;
    }
    if (!with_index) {
      ASSERT_TRUE(node.disk.remove_file(node.index_of(5, 1)));
      ASSERT_TRUE(node.disk.sync_dir("/data/qlog/q5"));
    }
    node.disk.crash();
    node.must_start();
    EXPECT_EQ(node.texts({5}, {1}), (Texts{"text 1", "text 2"}));
    EXPECT_TRUE(node.has(node.index_of(5, 1)));
    ASSERT_TRUE(node.append(5, 1, 3, {"text 3"}));
    EXPECT_EQ(node.texts({5}, {1}), (Texts{"text 1", "text 2", "text 3"}));
  }
}

// CR-6: until the copy has the name, what the scrub finds under it is no damage.
TEST(Rewrite, TheScrubTakesTheOldBytesForNoDamage) {
  UpkeepNode node;
  one_sealed_file(node, 5, 3);
  node.dead_below(1, 1);
  ASSERT_EQ(node.pass().rewritten, 1u);
  node.checkpoint();
  node.disk.fail(disk::RamOp::rename, 2, Errc::unavailable, EIO);  // of the records, behind their index
  node.pass();
  ASSERT_TRUE(node.has(node.compact_of(5, 1)));
  const auto scrub = node.logs->make_scrub();
  while (!scrub->step(1U << 20).round_done) continue;
  EXPECT_TRUE(node.logs->damaged_files().empty());
  node.pass();
  ASSERT_FALSE(node.has(node.compact_of(5, 1)));
  while (!scrub->step(1U << 20).round_done) continue;
  EXPECT_TRUE(node.logs->damaged_files().empty());
}

// RE-8: a file is rewritten again when more of it died.
TEST(Rewrite, AFileIsRewrittenAgainAndAtLastUnlinked) {
  UpkeepNode node;
  one_sealed_file(node, 5, 4);
  for (std::uint64_t dead = 1; dead <= 3; ++dead) {
    node.dead_below(1, dead);
    rewrite_file_one(node);
    EXPECT_EQ(node.texts({5}, {1}).size(), 4 - dead);
  }
  node.dead_below(1, 4);
  node.pass();
  node.checkpoint();
  EXPECT_EQ(node.pass().unlinked, 1u);
  EXPECT_TRUE(node.texts({5}, {1}).empty());
}

// RE-8: a damaged record that lives is never left behind; its file stays as it is.
TEST(Rewrite, AFileWithADamagedLiveRecordIsNotRewritten) {
  UpkeepNode node;
  one_sealed_file(node, 5, 3);
  node.flip(node.file(5, 1), node.bytes_of(node.file(5, 1)).size() - 70);
  const Bytes old = node.bytes_of(node.file(5, 1));
  node.dead_below(1, 1);
  EXPECT_EQ(node.pass().rewritten, 0u);
  node.checkpoint();
  node.pass();
  EXPECT_EQ(node.bytes_of(node.file(5, 1)), old);
  EXPECT_FALSE(node.has(node.compact_of(5, 1)));
  EXPECT_NE(std::ranges::find(node.log.events, "rewrite_failed"), node.log.events.end());
}

// RE-8: no room for a copy is no failure of the node.
TEST(Rewrite, AFullVolumePutsARewriteOff) {
  UpkeepNode node;
  one_sealed_file(node, 5, 3);
  node.dead_below(1, 1);
  node.disk.set_free_bytes(10);
  EXPECT_EQ(node.pass().rewritten, 0u);
  EXPECT_FALSE(node.has(node.compact_of(5, 1)));
  node.disk.set_free_bytes(std::nullopt);
  rewrite_file_one(node);
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"text 1", "text 2"}));
}

// RD-8 (B22): a place that was found before the rewrite leads to the bytes it was found in.
TEST(Rewrite, AReaderThatHoldsTheOldFileKeepsItThroughRewriteAndUnlink) {
  UpkeepNode node;
  one_sealed_file(node, 5, 3);
  auto& logs = static_cast<detail::QueueLogsImpl&>(*node.logs);
  const auto log = logs.find({5});
  const auto run = log->find({.pid = 1, .offset = 1}, 10);
  ASSERT_TRUE(run);
  ASSERT_EQ(run->records.size(), 2u);
  const auto held = logs.shared().open_file(run->file);
  ASSERT_TRUE(held);
  node.dead_below(1, 1);
  rewrite_file_one(node);
  Bytes bytes(run->records[0].length, '\0');
  ASSERT_TRUE((*held)->pread(run->records[0].position, bytes));
  EXPECT_EQ(scan_record(bytes).outcome, Scan::record);
  node.dead_below(1, 3);
  node.pass();
  node.checkpoint();
  ASSERT_EQ(node.pass().unlinked, 1u);
  ASSERT_TRUE((*held)->pread(run->records[1].position, bytes));
  EXPECT_EQ(scan_record(bytes).outcome, Scan::record);
}

// RD-8: whoever found a place and comes to the file only after the rewrite asks again, and reports no damage.
TEST(Rewrite, AReaderThatComesTooLateAsksAgain) {
  UpkeepNode node;
  node.options.fd_cache = 0;
  one_sealed_file(node, 5, 3);
  auto& logs = static_cast<detail::QueueLogsImpl&>(*node.logs);
  const auto log = logs.find({5});
  int asked = 0;
  const auto read = detail::asking_again(*log, [&]() -> Result<Texts> {
    if (asked++ > 0) return node.texts({5}, {1});
    const auto run = log->find({.pid = 1, .offset = 1}, 10);
    node.dead_below(1, 1);
    rewrite_file_one(node);
    // The name leads to the new bytes now.
    const auto old = detail::read_record(logs.shared(), run->file, run->records[0]);
    EXPECT_FALSE(old);
    return Error{Errc::corrupt, "not where it was"};
  });
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(*read, (Texts{"text 1", "text 2"}));
}

// RD-8 (B22), RE-10: readers read all the time while files are rewritten and unlinked under them.
TEST(Rewrite, ReadersNeverMissALiveMessageMeanwhile) {
  UpkeepNode node;
  node.options.fd_cache = 2;
  one_sealed_file(node, 5, 60);
  std::atomic<std::uint64_t> dead{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        const std::uint64_t from = dead.load();
        const auto batch = node.logs->read({5}, {1}, 59, Node::kAll);
        ASSERT_TRUE(batch) << batch.error().what;
        ASSERT_EQ(batch->messages.size(), 1u);
        const auto more = node.logs->read({5}, {1}, from + 2, Node::kAll);
        ASSERT_TRUE(more) << more.error().what;
        for (const auto& message : more->messages)
          ASSERT_EQ(message.frame.payload, "text " + std::to_string(message.offset));
      }
    });
  }
  for (std::uint64_t below = 1; below < 50; ++below) {
    dead = below;
    node.dead_below(1, below);
    node.pass();
    node.checkpoint();
    node.pass();
  }
  done = true;
  for (auto& reader : readers) reader.join();
}

}  // namespace
}  // namespace queen::qlog

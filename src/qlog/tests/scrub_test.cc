// The log scrub: CR-6, QL-27.
#include "qlog/detail/index_file.h"
#include "qlog/detail/queue_logs_impl.h"
#include "upkeep_support.h"
#include "watched_disk.h"

namespace queen::qlog {
namespace {

// Two logs of four sealed files each, entries in turn.
struct ScrubbedNode : Node {
  WatchedDisk watched{disk};
  std::unique_ptr<LogScrub> scrub;

  ScrubbedNode() {
    seen = &watched;
    options.segment_bytes = 33;
    must_open();
    for (std::uint64_t i = 0; i < 10; ++i)
      must_write({push(i + 1, 5 + i % 2, 1 + i % 2, i / 2, {"text " + std::to_string(i)})});
    scrub = logs->make_scrub();
  }
  ~ScrubbedNode() {
    scrub.reset();
    logs.reset();
  }
  ScrubStep round() {
    ScrubStep all;
    while (!all.round_done) {
      const ScrubStep step = scrub->step(1);
      all.bytes += step.bytes;
      all.files += step.files;
      all.round_done = step.round_done;
    }
    return all;
  }
  std::ptrdiff_t errors() const { return std::ranges::count(log.events, "scrub_found_damage"); }
};

TEST(LogScrub, ReadsEverySealedByteOncePerRound) {
  ScrubbedNode node;
  std::uint64_t sealed = 0;
  for (const std::uint64_t log : {5, 6})
    for (std::uint32_t id = 1; id <= 4; ++id)
      sealed += node.bytes_of(node.file(log, id)).size() - kFileHeaderBytes;
  for (int i = 0; i < 3; ++i) {
    const ScrubStep round = node.round();
    EXPECT_EQ(round.bytes, sealed);
    EXPECT_EQ(round.files, 8u);
  }
  EXPECT_TRUE(node.logs->damaged_files().empty());
  EXPECT_EQ(node.logs->stats().scrubbed_bytes, 3 * sealed);
  EXPECT_EQ(node.logs->stats().scrub_rounds, 3u);
}

TEST(LogScrub, BeginsWithTheOldestFilesAndKeepsItsPlace) {
  ScrubbedNode node;
  std::vector<std::string> order;
  node.watched.watch.on_read = [&](const std::string& path) {
    if (path.ends_with(".qlog") && (order.empty() || order.back() != path)) order.push_back(path);
  };
  node.round();
  std::vector<std::string> expected;
  for (std::uint32_t id = 1; id <= 4; ++id)
    for (const std::uint64_t log : {5, 6}) expected.push_back(node.file(log, id));
  EXPECT_EQ(order, expected);
}

TEST(LogScrub, LetsGoOfWhatItReadInThePageCache) {
  ScrubbedNode node;
  node.round();
  std::map<std::string, std::uint64_t> dropped;
  for (const auto& [path, offset, bytes] : node.watched.watch.dropped) {
    EXPECT_EQ(offset, dropped[path]);
    dropped[path] += bytes;
  }
  EXPECT_EQ(dropped.size(), 8u);
  for (const auto& [path, bytes] : dropped) EXPECT_EQ(bytes, node.bytes_of(path).size());
}

// B8: a bit flip in a sealed file whose index is valid boots, and is found by the scrub.
TEST(LogScrub, FindsEveryFlippedBitOfASealedFileAndReportsTheFile) {
  ScrubbedNode node;
  const std::string path = node.file(6, 2);
  const Bytes good = node.bytes_of(path);
  for (std::size_t at = kFileHeaderBytes; at < good.size(); ++at) {
    node.flip(path, at);
    node.round();
    const auto damaged = node.logs->damaged_files();
    ASSERT_EQ(damaged.size(), 1u) << at;
    EXPECT_EQ(damaged[0].log, LogId{6});
    EXPECT_EQ(damaged[0].file_id, 2u);
    EXPECT_EQ(damaged[0].path, path);
    EXPECT_GE(damaged[0].position, kFileHeaderBytes);
    node.put(path, good);
    node.round();
    EXPECT_TRUE(node.logs->damaged_files().empty());  // it was no damage of the disk after all
  }
  EXPECT_EQ(node.errors(), static_cast<std::ptrdiff_t>(good.size() - kFileHeaderBytes));
}

TEST(LogScrub, ReportsAFileThatWasCutOrCannotBeRead) {
  ScrubbedNode node;
  const Bytes good = node.bytes_of(node.file(5, 3));
  node.put(node.file(5, 3), BytesView(good).substr(0, good.size() - 1));
  node.round();
  ASSERT_EQ(node.logs->damaged_files().size(), 1u);
  node.put(node.file(5, 3), good);
  node.round();
  EXPECT_TRUE(node.logs->damaged_files().empty());
  node.disk.fail(disk::RamOp::pread, 3, Errc::unavailable, EIO);
  node.round();
  EXPECT_EQ(node.logs->damaged_files().size(), 1u);
}

// A damaged read is listed too, for who looks at the health of the node.
TEST(LogScrub, SharesItsListWithReads) {
  ScrubbedNode node;
  node.flip(node.file(5, 1), kFileHeaderBytes + 60);
  EXPECT_FALSE(node.logs->read({5}, {1}, 0, Node::kAll));
  EXPECT_EQ(node.logs->damaged_files().size(), 1u);
  node.round();
  EXPECT_EQ(node.logs->damaged_files().size(), 1u);
}

std::vector<detail::DamageReports::Damaged> noted(QueueLogs& logs) {
  return static_cast<detail::QueueLogsImpl&>(logs).shared().damage.files();
}

// CR-6: what is told of a file goes with it, so that the bounded list always has room for new damage.
TEST(DamagedFiles, AreForgottenOnceReclaimRemovedThem) {
  UpkeepNode node;
  node.options.segment_bytes = 33;
  node.must_start();
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(node.append(5, 1, i, {"text " + std::to_string(i)}));
  node.checkpoint();
  node.flip(node.file(5, 1), kFileHeaderBytes + 60);
  EXPECT_FALSE(node.logs->read({5}, {1}, 0, Node::kAll));
  EXPECT_EQ(node.logs->damaged_files().size(), 1u);
  EXPECT_EQ(noted(*node.logs).size(), 1u);
  node.dead_below(1, 2);
  for (int i = 0; i < 4; ++i) {
    node.pass();
    node.checkpoint();
  }
  ASSERT_FALSE(node.has(node.file(5, 1)));
  EXPECT_TRUE(noted(*node.logs).empty());
  EXPECT_TRUE(node.logs->damaged_files().empty());
}

// B12 at run time
TEST(LogScrub, MakesAnIndexAgainThatIsNotWhatTheRecordsSay) {
  ScrubbedNode node;
  const std::string path = detail::index_path(node.options.directory, {5}, 2);
  const Bytes good = node.bytes_of(path);
  auto wrong = detail::decode_index_file(good);
  wrong->records[0].created_at += 1;  // right in itself
  for (const Bytes& bad : {Bytes("noise"), Bytes(), detail::encode_index_file(*wrong)}) {
    node.put(path, bad);
    node.round();
    EXPECT_EQ(hex_lower(node.bytes_of(path)), hex_lower(good));
  }
  ASSERT_TRUE(node.disk.remove_file(path));
  node.round();
  EXPECT_EQ(node.bytes_of(path), good);
  EXPECT_TRUE(node.logs->damaged_files().empty());
  EXPECT_EQ(node.errors(), 0);
}

}  // namespace
}  // namespace queen::qlog

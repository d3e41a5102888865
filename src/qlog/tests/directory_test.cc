// Directories over sealed files: the same answers with fewer files asked. RD-9, RD-10.
#include "base/hash.h"
#include "directory_support.h"
#include "qlog/detail/directory_file.h"

namespace queen::qlog {
namespace {

using detail::DirectoryHeader;
using detail::DirectoryRow;
using detail::IndexQuery;

Bytes encode(const DirectoryHeader& header, const std::vector<DirectoryRow>& rows) {
  Bytes content = detail::encode_directory_files(header.files);
  for (const auto& row : rows) detail::append_row(content, row);
  return detail::encode_directory_header(header, xxh3_64(content)) + content;
}

const DirectoryHeader kHeader{.log = {5}, .files = {1, 2, 4}, .rows = 4};
const std::vector<DirectoryRow> kRows{
    {.pid = 7, .first_offset = 0, .end = 4, .last_stamp = 100, .file_id = 1},
    {.pid = 7, .first_offset = 6, .end = 9, .last_stamp = 200, .file_id = 4},
    {.pid = 8, .first_offset = 3, .end = 5, .last_stamp = 150, .file_id = 1},
    {.pid = 8, .first_offset = 5, .end = 6, .last_stamp = 150, .file_id = 2},
};

TEST(DirectoryFileCodec, EncodesExactlyAsGolden) {
  EXPECT_EQ(hex_lower(encode(kHeader, kRows)), hex_lower(golden("qlog/directory.hex")));
}

TEST(DirectoryFileCodec, ComesBack) {
  const auto header = detail::verify_directory_file(encode(kHeader, kRows));
  ASSERT_TRUE(header) << header.error().what;
  EXPECT_EQ(header->log, kHeader.log);
  EXPECT_EQ(header->files, kHeader.files);
  EXPECT_EQ(header->rows, 4u);
}

TEST(DirectoryFileCodec, RejectsEveryTruncationAndBitFlip) {
  const Bytes bytes = encode(kHeader, kRows);
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(detail::verify_directory_file(BytesView(bytes).substr(0, n))) << n;
  EXPECT_FALSE(detail::verify_directory_file(bytes + '\0'));
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    Bytes flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(detail::verify_directory_file(flipped)) << bit;
  }
}

TEST(DirectoryFileCodec, RejectsRowsThatNoLogHasThoughTheChecksumsAreRight) {
  const auto with = [](std::size_t i, const std::function<void(DirectoryRow&)>& change) {
    auto rows = kRows;
    change(rows[i]);
    return detail::verify_directory_file(encode(kHeader, rows)).has_value();
  };
  EXPECT_TRUE(with(1, [](DirectoryRow&) {}));
  EXPECT_FALSE(with(1, [](DirectoryRow& row) { row.file_id = 3; }));       // not in the list
  EXPECT_FALSE(with(1, [](DirectoryRow& row) { row.file_id = 1; }));       // twice
  EXPECT_FALSE(with(1, [](DirectoryRow& row) { row.first_offset = 3; }));  // overlap
  EXPECT_FALSE(with(1, [](DirectoryRow& row) { row.end = 5; }));           // ends before it begins
  EXPECT_FALSE(with(1, [](DirectoryRow& row) { row.last_stamp = 99; }));   // older than the row before
  EXPECT_FALSE(with(2, [](DirectoryRow& row) { row.pid = 6; }));           // order
  for (const std::vector<std::uint32_t>& files :
       {std::vector<std::uint32_t>{}, {0, 1, 2, 4}, {1, 4, 2}, {1, 2, 2, 4}})
    EXPECT_FALSE(detail::verify_directory_file(encode({.log = {5}, .files = files, .rows = 4}, kRows)));
}

TEST(Directories, AreMadeOnceSixteenSealedFilesAreInNone) {
  DirectoryNode node;
  node.must_start();
  node.fill(16);  // fifteen sealed ones
  node.pass();
  EXPECT_TRUE(node.directory_names().empty());
  EXPECT_EQ(node.logs->stats().files_without_directory, 15u);
  node.fill(1);
  const auto before = node.answers();
  node.pass();
  EXPECT_EQ(node.directory_names(), (std::vector<std::string>{"dirx-00000001-00000016.qdx"}));
  EXPECT_EQ(node.logs->stats().directories, 1u);
  EXPECT_EQ(node.logs->stats().files_without_directory, 0u);
  EXPECT_EQ(node.logs->stats().maps, 1u);
  EXPECT_EQ(node.answers(), before);
}

TEST(Directories, AreMergedSoThatTheirNumberStaysSmall) {
  DirectoryNode node;
  node.must_start();
  for (int i = 0; i < 40; ++i) {
    node.fill(16);
    node.pass();
  }
  EXPECT_LE(node.directory_names().size(), 6u);
  EXPECT_LE(node.logs->stats().files_without_directory, 16u);
  const auto with = node.answers();
  node.on_disk = node.cut();
  for (const auto& name : node.directory_names()) ASSERT_TRUE(node.disk.remove_file("/data/qlog/q5/" + name));
  node.must_start();
  EXPECT_EQ(node.logs->stats().directories, 0u);
  EXPECT_EQ(node.answers(), with);
}

// RD-9: an old offset in a log of hundreds of sealed files asks a few of them.
TEST(Directories, LetAReadOfAnOldOffsetAskFewFiles) {
  DirectoryNode node;
  node.must_start();
  node.fill(400);
  for (int i = 0; i < 30; ++i) node.pass();
  node.commit(node.cut());
  const auto index_files_asked = [&](std::uint64_t pid, std::uint64_t offset) {
    node.must_start();  // nothing is loaded
    std::set<std::string> asked;
    node.watched.watch.on_read = [&](const std::string& path) {
      if (path.ends_with(".qidx")) asked.insert(path);
    };
    const auto places = node.logs->locate({5}, {pid}, offset, 1);
    EXPECT_TRUE(places && places->size() == 1);
    node.watched.watch.on_read = [](const std::string&) {};
    return asked.size();
  };
  for (const std::uint64_t offset : {0, 1, 100, 300, 500})
    EXPECT_LE(index_files_asked(1, offset), 17u) << offset;
  EXPECT_LE(index_files_asked(2, 0), 17u);
  EXPECT_LE(index_files_asked(1003, 0), 17u);
}

TEST(Directories, AreUsedAgainAfterARestart) {
  DirectoryNode node;
  node.must_start();
  node.fill(40);
  node.pass();
  const auto names = node.directory_names();
  ASSERT_FALSE(names.empty());
  const auto before = node.answers();
  node.commit(node.cut());
  node.must_start();
  EXPECT_EQ(node.directory_names(), names);
  EXPECT_EQ(node.logs->stats().directories, names.size());
  EXPECT_EQ(node.answers(), before);
}

// RD-10, B13
TEST(Directories, ThatAreLostOrDamagedAreMadeAgain) {
  DirectoryNode node;
  node.must_start();
  node.fill(40);
  node.pass();
  node.commit(node.cut());
  const auto before = node.answers();
  const auto names = node.directory_names();
  ASSERT_EQ(names.size(), 1u);
  const std::string path = "/data/qlog/q5/" + names[0];
  const Bytes good = node.bytes_of(path);
  std::vector<std::function<void()>> changes{[&] { ASSERT_TRUE(node.disk.remove_file(path)); },
                                             [&] { node.put(path, ""); }, [&] { node.put(path, "noise"); },
                                             [&] { node.put(path, good + "x"); },
                                             [&] {  // of another log
                                               Bytes other = good;
                                               other[8] = 6;
                                               node.put(path, other);
                                             }};
  for (std::size_t at = 0; at < good.size(); at += 1 + good.size() / 30)
    changes.emplace_back([&node, &path, at] { node.flip(path, at); });
  for (const auto& change : changes) {
    change();
    node.must_start();
    EXPECT_EQ(node.logs->stats().directories, 0u);
    EXPECT_EQ(node.answers(), before);
    node.pass();
    EXPECT_EQ(node.directory_names(), names);
    EXPECT_EQ(node.bytes_of(path), good);
    EXPECT_EQ(node.answers(), before);
  }
}

// A crash between the name of the new one and the removal of those it took over.
TEST(Directories, ThatAnotherCoversAreRemovedAtOpen) {
  DirectoryNode node;
  node.must_start();
  node.fill(17);
  node.pass();
  const std::string small = "/data/qlog/q5/dirx-00000001-00000016.qdx";
  const Bytes bytes = node.bytes_of(small);
  node.fill(16);
  node.pass();
  ASSERT_EQ(node.directory_names(), (std::vector<std::string>{"dirx-00000001-00000032.qdx"}));
  const auto before = node.answers();
  node.commit(node.cut());
  node.put(small, bytes);
  node.must_start();
  EXPECT_EQ(node.directory_names(), (std::vector<std::string>{"dirx-00000001-00000032.qdx"}));
  EXPECT_EQ(node.answers(), before);
}

// RD-10: reclaim takes files away and rewrites others under a directory; what is alive is found all the same.
TEST(Directories, StayRightWhileFilesAreRewrittenAndUnlinked) {
  DirectoryNode node;
  node.must_start();
  node.fill(80);
  for (int i = 0; i < 3; ++i) node.pass();
  ASSERT_FALSE(node.directory_names().empty());
  for (std::uint64_t start = 0; start <= 160; start += 8) {
    node.dead_below(1, start);
    node.dead_below(2, start / 6);
    for (std::uint64_t pid = 1000; pid < 1000 + start / 2; ++pid) node.host.partitions.erase(pid);
    for (int i = 0; i < 6; ++i) {
      node.pass();
      node.checkpoint();
      const auto places = node.logs->locate({5}, {1}, start, 1000);
      ASSERT_TRUE(places) << places.error().what;
      ASSERT_EQ(places->size(), 80 - start / 2);
      const auto others = node.logs->locate({5}, {2}, start / 6, 1000);
      ASSERT_TRUE(others);
      ASSERT_EQ(others->size(), 27 - start / 6);
    }
    const auto before = node.texts({5}, {1}, start);
    node.must_start();
    EXPECT_EQ(node.texts({5}, {1}, start), before);
  }
  EXPECT_LE(node.logs->stats().directories, 1u);  // what is mostly gone is dropped
}

// QL-22: the pages of an index are in memory while it is searched, not for ever.
TEST(IndexPages, LeaveMemoryAfterTheWalkOfALoadAndOnceNobodySearches) {
  DirectoryNode node;
  node.options.directories = false;
  node.settings.reclaim = false;
  node.must_start();
  TestEntry entry{.index = 1, .messages = {}, .touched = {}, .note = {}};
  for (std::uint64_t pid = 1; pid <= 200; ++pid) entry.messages.push_back({{5}, {pid}, 0, {"m"}});
  ASSERT_TRUE(node.put({entry}));
  ASSERT_TRUE(node.append(5, 1, 1, {"next"}));
  const std::string path = detail::index_path(node.options.directory, {5}, 1);
  const auto search = [&] { EXPECT_EQ(node.logs->locate({5}, {77}, 0, 1)->size(), 1u); };
  const auto pass = [&] {
    node.clock.advance(30'000'000);
    node.upkeep->reclaim_pass();
  };
  search();
  EXPECT_EQ(node.watched.watch.let_go[path], 1u);  // it was read whole to be verified
  pass();
  EXPECT_EQ(node.watched.watch.let_go[path], 1u);  // searched lately
  search();
  pass();
  EXPECT_EQ(node.watched.watch.let_go[path], 1u);
  pass();
  EXPECT_EQ(node.watched.watch.let_go[path], 2u);
  pass();
  EXPECT_EQ(node.watched.watch.let_go[path], 2u);  // nothing of it is there
  search();
}

TEST(Directories, AreNotBuiltWhenSwitchedOff) {
  DirectoryNode node;
  node.options.directories = false;
  node.must_start();
  node.fill(40);
  node.pass();
  EXPECT_TRUE(node.directory_names().empty());
}

TEST(Directories, AFullVolumeOnlyLeavesThemAway) {
  DirectoryNode node;
  node.must_start();
  node.fill(40);
  const auto before = node.answers();
  node.disk.set_free_bytes(100);
  node.pass();
  EXPECT_TRUE(node.directory_names().empty());
  EXPECT_EQ(node.answers(), before);
  for (const auto& [path, bytes] : node.disk.files()) EXPECT_FALSE(path.ends_with(".tmp")) << path;
}

}  // namespace
}  // namespace queen::qlog

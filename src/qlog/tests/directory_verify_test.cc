// Verification of the directories over sealed files: every byte, and against the files. RD-9, RD-10.
#include "base/hash.h"
#include "directory_support.h"
#include "qlog/detail/directory_file.h"
#include "verify_support.h"

namespace queen::qlog {
namespace {

using detail::DirectoryRow;

// A stopped node with one directory over its first 32 files, and what its bytes say.
struct VerifiedDirectory : DirectoryNode {
  std::string path = "/data/qlog/q5/dirx-00000001-00000032.qdx";
  Bytes good;
  detail::DirectoryHeader header;
  std::vector<DirectoryRow> rows;

  VerifiedDirectory() {
    options.precreate = false;
    must_start();
    fill(33);
    pass();
    stop();
    good = bytes_of(path);
    const auto read = detail::verify_directory_file(good);
    EXPECT_TRUE(read);
    header = *read;
    const std::size_t rows_at = detail::kDirectoryHeaderBytes + 4 * header.files.size();
    for (std::size_t at = rows_at; at < good.size(); at += detail::kDirectoryRowBytes) {
      ByteReader reader(BytesView(good).substr(at));
      DirectoryRow row;
      row.pid = reader.le<std::uint64_t>();
      row.first_offset = reader.le<std::uint64_t>();
      row.end = reader.le<std::uint64_t>();
      row.last_stamp = reader.le<std::int64_t>();
      row.file_id = reader.le<std::uint32_t>();
      rows.push_back(row);
    }
  }
  void stop() {
    commit(cut());
    upkeep.reset();
    ASSERT_TRUE(logs->close());
    logs.reset();
    durable = on_disk.state;
  }
  void put_rows() {
    header.rows = rows.size();
    Bytes content = detail::encode_directory_files(header.files);
    for (const auto& row : rows) detail::append_row(content, row);
    put(path, detail::encode_directory_header(header, xxh3_64(content)) + content);
  }
  std::vector<std::string> damages() { return verify(*this).rules(Severity::damage); }
};

using Rules = std::vector<std::string>;

TEST(VerifyDirectories, FindsNothingInWhatANodeMade) {
  VerifiedDirectory node;
  EXPECT_TRUE(verify(node).found.all.empty());
}

TEST(VerifyDirectories, FindsEveryFlippedByte) {
  VerifiedDirectory node;
  for (std::size_t at = 0; at < node.good.size(); ++at) {
    node.flip(node.path, at);
    const auto seen = verify(node);
    ASSERT_EQ(seen.rules(Severity::damage), Rules{"RD-10"}) << at;
    EXPECT_EQ(seen.found.all.front().path, node.path);
    EXPECT_EQ(seen.found.all.front().boot, Boot::starts);
    node.put(node.path, node.good);
  }
}

// Behind good checksums: a node would use it, and answer wrongly.
TEST(VerifyDirectories, FindsRowsThatDoNotDescribeTheFiles) {
  const std::vector<std::function<void(VerifiedDirectory&)>> changes{
      [](auto& node) { node.rows.erase(node.rows.begin() + 3); },
      [](auto& node) { node.rows[0].first_offset += 1; },
      [](auto& node) { node.rows[0].end -= 1; },
      [](auto& node) { node.rows.back().end += 1; },
      [](auto& node) { node.rows[0].last_stamp -= 1; },
      [](auto& node) { node.rows.back().last_stamp += 1; },
      [](auto& node) { node.rows.back().pid += 1; },
      [](auto& node) {
        DirectoryRow more = node.rows.back();
        more.pid += 1;
        node.rows.push_back(more);
      },
      [](auto& node) {  // a file that is there, and no reader would look into it
        const std::uint32_t gone = node.header.files[4];
        node.header.files.erase(node.header.files.begin() + 4);
        std::erase_if(node.rows, [&](const DirectoryRow& row) { return row.file_id == gone; });
      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    VerifiedDirectory node;
    changes[i](node);
    node.put_rows();
    const auto seen = verify(node);
    EXPECT_EQ(seen.rules(Severity::damage), Rules{"RD-9"}) << i;
    ASSERT_FALSE(seen.found.all.empty());
    EXPECT_EQ(seen.found.all.front().path, node.path);
    EXPECT_TRUE(seen.found.all.front().position);
  }
}

TEST(VerifyDirectories, FindsOneOfAnotherLogOrRange) {
  VerifiedDirectory node;
  node.header.log = {6};
  node.put_rows();
  EXPECT_EQ(node.damages(), Rules{"RD-10"});
  ASSERT_TRUE(node.disk.remove_file(node.path));
  node.put("/data/qlog/q5/dirx-00000001-00000031.qdx", node.good);
  EXPECT_EQ(node.damages(), Rules{"RD-10"});
}

// It is not synced: what power loss leaves of it is no damage, and neither is none.
TEST(VerifyDirectories, WhatIsMissingOrCutShortIsANote) {
  VerifiedDirectory node;
  Bytes zeros = node.good;
  zeros.replace(512, 512, Bytes(512, '\0'));
  for (const Bytes& left :
       {Bytes(), node.good.substr(0, 40), node.good.substr(0, 700), zeros, Bytes(node.good.size(), '\0')}) {
    node.put(node.path, left);
    const auto seen = verify(node);
    EXPECT_EQ(seen.rules(Severity::damage), Rules{});
    EXPECT_EQ(seen.rules(Severity::note), (Rules{"RD-10", "RD-9"})) << left.size();
  }
  ASSERT_TRUE(node.disk.remove_file(node.path));
  EXPECT_EQ(verify(node).rules(Severity::note), Rules{"RD-9"});
  EXPECT_EQ(node.damages(), Rules{});
}

// A crash between the name of the larger one and the removal of those that it took over.
TEST(VerifyDirectories, OneThatAnotherCoversIsANote) {
  VerifiedDirectory node;
  node.header.files.resize(16);
  std::erase_if(node.rows, [](const DirectoryRow& row) { return row.file_id > 16; });
  const std::string larger = node.path;
  node.path = "/data/qlog/q5/dirx-00000001-00000016.qdx";
  node.put_rows();
  const auto seen = verify(node);
  EXPECT_EQ(seen.rules(Severity::note), Rules{"RD-10"});
  EXPECT_EQ(seen.rules(Severity::damage), Rules{});
  EXPECT_EQ(seen.found.all.front().path, node.path);
}

// RD-10: reclaim takes records and files away under a directory.
TEST(VerifyDirectories, RewritesAndUnlinksLeaveThemRight) {
  VerifiedDirectory node;
  std::size_t stale = 0;
  for (std::uint64_t start = 0; start <= 60; start += 10) {
    node.must_start();
    node.dead_below(1, start);
    node.dead_below(2, start / 6);
    for (std::uint64_t pid = 1000; pid < 1000 + start / 2; ++pid) node.host.partitions.erase(pid);
    for (int i = 0; i < 4; ++i) {
      node.pass();
      node.checkpoint();
    }
    node.stop();
    const auto seen = verify(node);
    EXPECT_EQ(seen.rules(Severity::damage), Rules{}) << start;
    for (const auto& finding : seen.found.all) stale += finding.rule == "RD-10" ? 1 : 0;
  }
  EXPECT_LE(stale, 1u);
}

}  // namespace
}  // namespace queen::qlog

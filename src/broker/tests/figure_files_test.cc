// The files that keep figures: bytes, age, number of rows, damage, disks that fail.
#include "broker/figure_files.h"

#include <gtest/gtest.h>

#include <cctype>
#include <fstream>

#include "base/ids.h"
#include "base/text.h"
#include "disk/ram_disk.h"
#include "source_dir.h"

namespace queen::broker {
namespace {

constexpr std::int64_t kHour = 3'600'000'000;
constexpr std::int64_t kStart = 472'222 * kHour;  // 2023-11-14T22:00:00Z
const std::string kTenant{kDefaultTenant};

NodeRow node_row(std::int64_t from, std::uint64_t pushed) {
  NodeRow row;
  row.from_us = from;
  row.until_us = from + 60'000'000;
  row.ops[Op::push_messages] = pushed;
  row.ops.lag = {2, 3'000, 2'000};
  row.loop = {600, 12'000, 900};
  row.gauges.look({250, 50, 1U << 30, 1ULL << 33, 4, 1, 0, 65'536, 2, 7});
  return row;
}
QueueOpsRow queue_row(std::int64_t from, const std::string& queue, std::uint64_t popped) {
  QueueOpsRow row{from, kTenant, queue, {}, 3};
  row.ops[Op::pop_messages] = popped;
  row.ops.lag = {popped, 1'000'000, 400'000};
  return row;
}

struct Rows {
  std::vector<NodeRow> nodes;
  std::vector<QueueOpsRow> queues;
  FigureVisitor visitor() {
    return {[this](const NodeRow& row) { nodes.push_back(row); },
            [this](QueueOpsRow row) { queues.push_back(std::move(row)); }};
  }
};

Bytes sample_file() {
  Bytes out = figure_file_header();
  append_figure(out, node_row(kStart, 7));
  append_figure(out, queue_row(kStart, "orders.eu", 5));
  return out;
}

TEST(FigureRows, HaveTheGoldenBytes) {
  std::ifstream file(source_dir() + "/tests/golden/figures/file.hex");
  std::string golden;
  for (std::string line; std::getline(file, line);)
    for (const char c : line.substr(0, line.find('#')))
      if (std::isspace(static_cast<unsigned char>(c)) == 0) golden.push_back(c);
  EXPECT_EQ(hex_lower(sample_file()), golden);
}

TEST(FigureRows, AreReadAsTheyWereWritten) {
  Rows rows;
  ASSERT_TRUE(read_figures(sample_file(), rows.visitor()));
  ASSERT_EQ(rows.nodes.size(), 1U);
  const NodeRow& node = rows.nodes[0];
  EXPECT_EQ(node.from_us, kStart);
  EXPECT_EQ(node.until_us, kStart + 60'000'000);
  EXPECT_EQ(node.ops[Op::push_messages], 7U);
  EXPECT_EQ(node.ops.lag.max_us, 2'000U);
  EXPECT_EQ(node.loop.sum_us, 12'000U);
  EXPECT_EQ(node.gauges.looks, 1U);
  EXPECT_EQ(node.gauges[Gauge::virtual_bytes].last, 1ULL << 33);
  ASSERT_EQ(rows.queues.size(), 1U);
  EXPECT_EQ(rows.queues[0].tenant, kTenant);
  EXPECT_EQ(rows.queues[0].queue, "orders.eu");
  EXPECT_EQ(rows.queues[0].ops[Op::pop_messages], 5U);
  EXPECT_EQ(rows.queues[0].parked, 3U);
}

TEST(FigureRows, EndAtEveryTruncationWithTheRowsBeforeIt) {
  const Bytes whole = sample_file();
  Bytes first = figure_file_header();
  append_figure(first, node_row(kStart, 7));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Rows rows;
    const bool at_a_record = size == kFigureHeaderBytes || size == first.size();
    EXPECT_EQ(read_figures(BytesView(whole).substr(0, size), rows.visitor()), at_a_record) << size;
    EXPECT_EQ(rows.nodes.size(), size >= first.size() ? 1U : 0U) << size;
    EXPECT_EQ(rows.queues.size(), 0U);
  }
}

TEST(FigureRows, EndAtEveryDamagedByte) {
  const Bytes whole = sample_file();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Bytes damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    Rows rows;
    EXPECT_FALSE(read_figures(damaged, rows.visitor())) << at;
  }
}

class FigureFilesTest : public ::testing::Test {
 protected:
  FigureFiles files(std::uint64_t rows_max = 1000) {
    return {disk_, "/data/figures", {48, 24, rows_max}, Logger(null_log(), "rsm")};
  }
  static bool add(FigureFiles& files, std::int64_t from, std::uint64_t value) {
    Bytes node, queue;
    append_figure(node, node_row(from, value));
    append_figure(queue, queue_row(from, "q", value));
    const bool written = files.append(FigureFiles::Kind::node, from, node, 1);
    return files.append(FigureFiles::Kind::queue, from, queue, 1) && written;
  }
  // Messages pushed of the node's rows, and popped of the queue's, in all.
  static std::pair<std::uint64_t, std::uint64_t> sums(const FigureFiles& files, std::int64_t from = 0,
                                                      std::int64_t to = kStart + 1000 * kHour) {
    Rows rows;
    files.read(FigureFiles::Kind::node, from, to, rows.visitor());
    files.read(FigureFiles::Kind::queue, from, to, rows.visitor());
    std::pair<std::uint64_t, std::uint64_t> out;
    for (const auto& row : rows.nodes) out.first += row.ops[Op::push_messages];
    for (const auto& row : rows.queues) out.second += row.ops[Op::pop_messages];
    return out;
  }
  using Sums = std::pair<std::uint64_t, std::uint64_t>;
  disk::RamDisk disk_;
};

TEST_F(FigureFilesTest, GoOnAfterARestart) {
  {
    auto first = files();
    first.open();
    EXPECT_TRUE(add(first, kStart, 1));
    EXPECT_TRUE(add(first, kStart + kHour, 2));
  }
  auto second = files();
  second.open();
  EXPECT_EQ(second.newest_us(), kStart + kHour + 60'000'000);
  EXPECT_TRUE(add(second, kStart + kHour, 4));
  EXPECT_EQ(sums(second), Sums(7, 7));
  EXPECT_EQ(sums(second, kStart + kHour), Sums(6, 6));
}

TEST_F(FigureFilesTest, KeepRowsForTheirHours) {
  auto kept = files();
  for (std::int64_t hour = 0; hour < 60; ++hour) add(kept, kStart + hour * kHour, 1);
  kept.prune(kStart + 60 * kHour);
  EXPECT_EQ(sums(kept), Sums(48, 24));
  EXPECT_EQ(disk_.list("/data/figures")->size(), 48U + 24U);
}

TEST_F(FigureFilesTest, KeepSoManyRowsOfQueuesAndDropTheOldest) {
  auto kept = files(80);
  for (std::int64_t minute = 0; minute < 200; ++minute) {
    add(kept, kStart + minute * 60'000'000, 1);
    kept.prune(kStart + minute * 60'000'000);
  }
  EXPECT_LE(sums(kept).second, 80U);
  EXPECT_GE(sums(kept).second, 70U);
  EXPECT_EQ(sums(kept).first, 200U);  // rows of the node are few, and stay
  EXPECT_EQ(sums(kept, kStart + 3 * kHour + 19 * 60'000'000).second > 0, true);
}

// The file of an earlier run is cut anywhere: what is whole is read, and what is new is behind no damage.
TEST_F(FigureFilesTest, AreReadUpToDamage) {
  {
    auto first = files();
    add(first, kStart, 1);
    add(first, kStart + 60'000'000, 2);
  }
  auto file = disk_.open("/data/figures/node-472222-1.rows", disk::Open::read_write);
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->truncate(*(*file)->size() - 3));
  auto second = files();
  second.open();
  EXPECT_TRUE(add(second, kStart + 120'000'000, 4));
  EXPECT_EQ(sums(second), Sums(5, 7));
}

TEST_F(FigureFilesTest, PassOverNamesThatAreNotTheirs) {
  ASSERT_TRUE(disk_.make_dirs("/data/figures"));
  for (const char* name :
       {"node-1.rows", "node-x-1.rows", "other-1-1.rows", "node-1-1.txt", "rows", "-.rows"})
    ASSERT_TRUE(disk_.open(std::string("/data/figures/") + name, disk::Open::create));
  auto found = files();
  found.open();
  EXPECT_EQ(sums(found), Sums(0, 0));
  found.prune(kStart + 100'000 * kHour);
  EXPECT_EQ(disk_.list("/data/figures")->size(), 6U);  // they are somebody's
}

TEST_F(FigureFilesTest, LoseWhatAFullDiskDoesNotTakeAndGoOn) {
  auto kept = files();
  EXPECT_TRUE(add(kept, kStart, 1));
  disk_.set_free_bytes(20);
  EXPECT_FALSE(add(kept, kStart + 60'000'000, 2));
  disk_.set_free_bytes(std::nullopt);
  EXPECT_TRUE(add(kept, kStart + 120'000'000, 4));
  EXPECT_EQ(sums(kept), Sums(5, 5));
}

TEST_F(FigureFilesTest, GoOnAfterAnyCallFails) {
  for (const disk::RamOp op :
       {disk::RamOp::open, disk::RamOp::pwrite, disk::RamOp::truncate, disk::RamOp::make_dirs}) {
    auto kept = files();
    disk_.fail(op, 1, Errc::unavailable, 5);
    add(kept, kStart, 1);
    EXPECT_TRUE(add(kept, kStart + 60'000'000, 4)) << static_cast<int>(op);
    EXPECT_GE(sums(kept).first, 4U) << static_cast<int>(op);
  }
}

}  // namespace
}  // namespace queen::broker

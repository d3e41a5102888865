#include "qlog/detail/lru.h"
#include "support.h"

namespace queen::qlog {
namespace {

constexpr std::string_view kTenant = kDefaultTenant;

TEST(Layout, AQueuesLogIsTheHashOfTenantAndName) {
  const Layout layout;
  const Bytes key = std::string(kTenant) + "\x1F" + "orders";
  EXPECT_EQ(layout.of_queue(kTenant, "orders").value, xxh3_64(key));
  EXPECT_EQ(Layout::queue_id(kTenant, "orders").value, xxh3_64(key));
}

TEST(Layout, LanesSplitByPartitionAndLaneZeroIsTheQueuesOwn) {
  const Layout layout{.shards = 0, .lanes = 4};
  const LogId queue = Layout::queue_id(kTenant, "orders");
  EXPECT_EQ(layout.of_partition(queue, {8}), queue);
  EXPECT_EQ(layout.of_queue(kTenant, "orders"), queue);
  Bytes key;
  append_le(key, queue.value);
  append_le(key, std::uint64_t{3});
  EXPECT_EQ(layout.of_partition(queue, {7}).value, xxh3_64(key));
}

TEST(Layout, ShardsSpreadByQueueIdAndIgnoreLanes) {
  const Layout layout{.shards = 3, .lanes = 4};
  for (std::uint64_t id = 1; id < 10; ++id) EXPECT_EQ(layout.of_partition({id}, {5}).value, 2 + id % 3) << id;
}

TEST(LayoutFiles, AreWrittenAtCreationAndWinLater) {
  Node node;
  node.options.layout_if_new = {.shards = 3, .lanes = 2};
  node.must_open();
  EXPECT_EQ(node.bytes_of("/data/qlog/SHARDS"), "3\n");
  EXPECT_EQ(node.bytes_of("/data/qlog/LANES"), "2\n");
  node.disk.crash();
  node.options.layout_if_new = {.shards = 7, .lanes = 1};
  node.must_open();
  EXPECT_EQ(node.logs->layout().shards, 3u);
  EXPECT_EQ(node.logs->layout().lanes, 2u);
  EXPECT_EQ(std::ranges::count(node.log.events, "layout_of_directory_wins"), 2);
}

TEST(LayoutFiles, MissingBesideLogsIsRefused) {
  for (const std::string name : {"LANES", "SHARDS"}) {
    Node node;
    node.must_open();
    node.must_write({push(1, 9, 1, 0, {"a"})});
    ASSERT_TRUE(node.disk.remove_file("/data/qlog/" + name));
    node.must_refuse({"/data/qlog/" + name, "missing", name == "LANES" ? "1 to 64" : "0 to 4096"});
  }
}

TEST(LayoutFiles, MissingBesideTheSystemLogAloneIsMadeAgain) {
  Node node;
  node.must_open();
  node.must_write({{.index = 1, .messages = {}, .touched = {}, .note = "kv"}});
  ASSERT_TRUE(node.disk.remove_file("/data/qlog/LANES"));
  node.must_open();
  EXPECT_EQ(node.bytes_of("/data/qlog/LANES"), "1\n");
  EXPECT_EQ(node.replayed(), std::vector<std::uint64_t>{1});
}

TEST(LayoutFiles, ANumberThatIsNoneOrOutOfRangeIsRefused) {
  for (const std::string text : {"", "1", "x\n", "65\n", "0\n", "-1\n", "1\n\n", " 1\n", "99999999999\n"}) {
    Node node;
    node.must_open();
    node.put("/data/qlog/LANES", text);
    node.must_refuse({"/data/qlog/LANES", "1 to 64", "restore a backup"});
  }
  Node node;
  node.must_open();
  node.put("/data/qlog/SHARDS", "4097\n");
  node.must_refuse({"/data/qlog/SHARDS", "\"4097\"", "0 to 4096"});
}

// BR-9: a flipped bit makes one number of another, and messages would be looked for in the wrong log.
TEST(LayoutFiles, ANumberThatTheCheckpointContradictsIsRefused) {
  for (const std::string name : {"LANES", "SHARDS"}) {
    Node node;
    node.options.layout_if_new = {.shards = 2, .lanes = 2};
    node.must_open();
    node.durable.layout = Layout{.shards = 2, .lanes = 2};
    node.must_open();
    node.put("/data/qlog/" + name, "3\n");
    node.must_refuse({"/data/qlog/" + name, "holds 3", "made under 2"});
  }
}

// LOG-5: made again as the checkpoint knows it, not as the settings would have it now.
TEST(LayoutFiles, MissingOnesComeFromTheCheckpoint) {
  Node node;
  node.options.layout_if_new = {.shards = 2, .lanes = 1};
  node.must_open();
  ASSERT_TRUE(node.disk.remove_file("/data/qlog/SHARDS"));
  node.durable.layout = Layout{.shards = 2, .lanes = 1};
  node.options.layout_if_new.shards = 5;
  node.must_open();
  EXPECT_EQ(node.bytes_of("/data/qlog/SHARDS"), "2\n");
}

TEST(Paths, NamesAreReadOnlyAsTheyAreWritten) {
  using namespace detail;
  EXPECT_EQ(record_file("/q", {12}, 3), "/q/q12/r00000003.qlog");
  EXPECT_EQ(index_path("/q", {12}, 123456789), "/q/q12/r123456789.qidx");
  EXPECT_EQ(parse_log_directory("q12"), LogId{12});
  EXPECT_EQ(parse_log_directory("q18446744073709551615"), LogId{0xFFFF'FFFF'FFFF'FFFF});
  for (const char* name : {"q", "q012", "q-1", "q12x", "12", "q18446744073709551616", "q12.dead"})
    EXPECT_FALSE(parse_log_directory(name)) << name;
  EXPECT_EQ(parse_file_name("r00000003.qlog", ".qlog"), 3u);
  EXPECT_EQ(parse_file_name("r123456789.qlog", ".qlog"), 123456789u);
  for (const char* name :
       {"r3.qlog", "r00000000.qlog", "r00000003.qlog.tmp", "x00000003.qlog", ".qlog", "r.qlog"})
    EXPECT_FALSE(parse_file_name(name, ".qlog")) << name;
}

TEST(LruCache, DropsTheLeastRecentlyUsed) {
  detail::LruCache<int> cache(2);
  cache.insert({{1}, 1}, std::make_shared<int>(1), 1);
  cache.insert({{1}, 2}, std::make_shared<int>(2), 1);
  EXPECT_TRUE(cache.find({{1}, 1}));
  cache.insert({{1}, 3}, std::make_shared<int>(3), 1);
  EXPECT_FALSE(cache.find({{1}, 2}));
  EXPECT_TRUE(cache.find({{1}, 1}) && cache.find({{1}, 3}));
  EXPECT_EQ(*cache.insert({{1}, 3}, std::make_shared<int>(9), 1), 3);
  EXPECT_EQ(*cache.insert({{2}, 1}, std::make_shared<int>(4), 5), 4);
  EXPECT_FALSE(cache.find({{2}, 1}));
  cache.erase({{1}, 3});
  EXPECT_FALSE(cache.find({{1}, 3}));
  cache.clear();
  EXPECT_FALSE(cache.find({{1}, 1}));
}

}  // namespace
}  // namespace queen::qlog

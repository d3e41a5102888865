// Logs that more than one thing shares: queues whose ids collide, entry layouts that changed, shards.
#include <gtest/gtest.h>

#include <set>

#include "qlog/tests/support.h"

namespace queen::qlog {
namespace {

using Indexes = std::vector<std::uint64_t>;
using Texts = std::vector<std::string>;

TestEntry over_three_logs(std::uint64_t index) {
  TestEntry entry{.index = index, .messages = {}, .touched = {}, .note = "note"};
  for (std::uint64_t log : {3, 9, 12})
    entry.messages.push_back({{log}, {log}, index - 1, {std::to_string(index)}});
  return entry;
}

// LOG-12, B17: a directory may be written with copies, then with stubs, and the other way round.
class EntryLayouts : public ::testing::TestWithParam<bool> {};

TEST_P(EntryLayouts, MixInOneDirectory) {
  Node node;
  node.options.entry_copies = GetParam();
  node.must_open();
  node.must_write({over_three_logs(1), over_three_logs(2)});
  node.options.entry_copies = !GetParam();
  node.disk.crash();
  node.must_open();
  EXPECT_EQ(node.replayed(), (Indexes{1, 2}));
  node.must_write({over_three_logs(3), over_three_logs(4)});
  node.disk.crash();
  node.must_open();
  EXPECT_EQ(node.replayed(), (Indexes{1, 2, 3, 4}));
  for (std::uint64_t log : {3, 9, 12}) EXPECT_EQ(node.texts({log}, {log}), (Texts{"1", "2", "3", "4"}));
}

INSTANTIATE_TEST_SUITE_P(Orders, EntryLayouts, ::testing::Bool(),
                         [](const auto& order) { return order.param ? "copies_first" : "stubs_first"; });

// LOG-6: what shares a log is told apart by partition, also when it is sealed.
TEST(SharedLog, QueuesWhoseIdsCollideReadTheirOwnMessages) {
  Node node;
  node.options.segment_bytes = 256;
  node.must_open();
  for (std::uint64_t index = 1; index <= 20; ++index)
    node.must_write({push(index, 7, 1 + index % 2, (index - 1) / 2, {std::to_string(index)})});
  node.must_open();
  Texts odd, even;
  for (int index = 1; index <= 20; ++index) (index % 2 == 0 ? even : odd).push_back(std::to_string(index));
  EXPECT_EQ(node.texts({7}, {1}), even);
  EXPECT_EQ(node.texts({7}, {2}), odd);
  EXPECT_TRUE(node.texts({7}, {3}).empty());
}

// GC-12, LIM-7, B16: with shards a group over ten thousand queues touches three logs.
TEST(SharedLog, ShardsBoundTheSyncsOfAGroupOverManyQueues) {
  const Layout shards{.shards = 3, .lanes = 1};
  const Layout own;
  std::set<std::uint64_t> shared, each;
  for (int i = 0; i < 10'000; ++i) {
    const std::string queue = "queue-" + std::to_string(i);
    shared.insert(shards.of_queue(kDefaultTenant, queue).value);
    each.insert(own.of_queue(kDefaultTenant, queue).value);
  }
  EXPECT_EQ(shared, (std::set<std::uint64_t>{2, 3, 4}));
  EXPECT_EQ(each.size(), 10'000U);
}

}  // namespace
}  // namespace queen::qlog

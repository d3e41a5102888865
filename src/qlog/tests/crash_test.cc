// The power goes off at every change of the disk that a scripted workload makes. Whatever sync() had returned
// for is replayed after reopening, once and in order, and its messages read back; what follows may be there
// or not, but only as a prefix of what was written.
#include "support.h"

namespace queen::qlog {
namespace {

enum class Loss : bool { all_unsynced, by_sector };

std::vector<std::vector<TestEntry>> workload() {
  std::vector<std::vector<TestEntry>> groups;
  std::uint64_t index = 0;
  for (std::uint64_t i = 0; i < 9; ++i) {
    TestEntry wide = push(++index, 3, 1, i, {"wide " + std::to_string(i)});
    wide.messages.push_back({{5}, {2}, i, {std::string(40 + i, 'w')}});
    wide.touched = {{0}};
    TestEntry narrow = push(++index, 5 + i % 3, 10 + i % 3, i / 3, {"narrow " + std::to_string(i)});
    groups.push_back({std::move(wide), std::move(narrow)});
  }
  return groups;
}

struct Workload {
  Node node;
  std::uint64_t acknowledged = 0;

  Workload() {
    node.options.segment_bytes = 400;
    node.options.prealloc_min_syncs = 2;
    node.options.prealloc_bytes = 300;
  }
  // Writes from the entry behind `last_index` on, until the power goes off or all is done.
  bool work(std::uint64_t last_index) {
    for (const auto& group : workload()) {
      std::vector<TestEntry> left;
      for (const auto& entry : group)
        if (entry.index > last_index) left.push_back(entry);
      if (left.empty()) continue;
      if (!node.write(left)) return false;
      acknowledged = left.back().index;
    }
    return node.logs->close().has_value();
  }
  void check_messages(std::uint64_t last_index) {
    for (const auto& group : workload()) {
      for (const auto& entry : group) {
        for (const auto& messages : entry.messages) check(entry.index <= last_index, messages);
      }
    }
  }
  void check(bool kept, const TestMessages& messages) {
    const auto batch =
        node.logs->read(messages.log, messages.pid, messages.base,
                        {.end_offset = messages.base + 1, .messages_max = 1, .payload_bytes_max = 999});
    ASSERT_TRUE(batch) << batch.error().what;
    ASSERT_EQ(batch->messages.size(), kept ? 1u : 0u);
    if (!kept) return;
    EXPECT_EQ(batch->messages[0].frame.payload, messages.texts[0]);
  }
  std::uint64_t reopen_and_check() {
    const auto opened = node.open();
    EXPECT_TRUE(opened) << opened.error().what;
    if (!opened) return 0;
    const auto indexes = node.replayed();
    for (std::size_t i = 0; i < indexes.size(); ++i) EXPECT_EQ(indexes[i], i + 1);
    EXPECT_GE(indexes.size(), acknowledged);
    check_messages(indexes.size());
    return indexes.size();
  }
};

void lose_power(Workload& run, Loss loss, std::uint64_t seed) {
  SeededRandom random(seed);
  if (loss == Loss::by_sector) {
    run.node.disk.crash_torn(random);
  } else {
    run.node.disk.crash();
  }
}

void crash_everywhere(Loss loss) {
  for (std::uint64_t changes = 0;; ++changes) {
    SCOPED_TRACE(changes);
    Workload run;
    run.node.disk.power_off_after(changes);
    const bool finished = run.node.open() && run.work(0);
    lose_power(run, loss, changes);
    const auto last = run.reopen_and_check();
    if (testing::Test::HasFailure()) return;
    // The node goes on where it was, and a second recovery changes nothing more.
    ASSERT_TRUE(run.work(last));
    run.node.disk.crash();
    ASSERT_EQ(run.reopen_and_check(), 18u);
    if (finished) break;
    ASSERT_LT(changes, 2000u);
  }
}

TEST(Crash, AtEveryChangeLosingAllThatWasNotSynced) {
  crash_everywhere(Loss::all_unsynced);
}

TEST(Crash, AtEveryChangeTearingWhatWasNotSynced) {
  crash_everywhere(Loss::by_sector);
}

// Recovery itself is stopped at each of its steps, then again at the next, and ends in the same state.
TEST(Crash, DuringRecoveryAtEveryStep) {
  Workload reference;
  reference.node.must_open();
  ASSERT_TRUE(reference.work(0));
  const auto total = reference.node.disk.changes();
  for (const std::uint64_t first : {total / 3, total / 2, total * 3 / 4, total - 3}) {
    Workload run;
    run.node.disk.power_off_after(first);
    ignore(run.node.open(), "the power may go off while it opens");
    if (run.node.logs) run.work(0);
    lose_power(run, Loss::by_sector, first);
    bool opened = false;
    for (std::uint64_t step = 0; !opened; ++step) {
      run.node.disk.power_off_after(step);
      opened = run.node.open().has_value();
      run.node.logs.reset();
      lose_power(run, Loss::by_sector, first + step);
      ASSERT_LT(step, 500u);
    }
    run.reopen_and_check();
  }
}

}  // namespace
}  // namespace queen::qlog

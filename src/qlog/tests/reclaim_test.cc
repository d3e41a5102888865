// Reclaim: what may be freed is, what may not is not, and readers never notice. storage.md 18.
#include <thread>

#include "qlog/detail/queue_logs_impl.h"
#include "upkeep_support.h"

namespace queen::qlog {
namespace {

using Ids = std::vector<std::uint32_t>;
using Texts = std::vector<std::string>;

// Each append of one message seals the file before it: message n of pid 1 is alone in file n + 1.
void one_per_file(UpkeepNode& node, std::uint64_t log, std::uint64_t pid, std::uint64_t messages) {
  node.options.segment_bytes = 33;
  if (node.logs == nullptr) node.must_start();
  for (std::uint64_t i = 0; i < messages; ++i)
    ASSERT_TRUE(node.append(log, pid, i, {"text " + std::to_string(i)}));
}

// RE-1, RE-9 (B21)
TEST(Reclaim, UnlinksADeadFileOnceACheckpointWithoutItIsDurable) {
  UpkeepNode node;
  one_per_file(node, 5, 1, 4);
  node.checkpoint();
  ASSERT_EQ(node.listed(5), (Ids{1, 2, 3, 4}));
  node.dead_below(1, 2);
  node.pass();
  EXPECT_EQ(node.pass().unlinked, 0u);
  EXPECT_TRUE(node.logs->files_changed());
  TestCut taken = node.cut();
  EXPECT_EQ(node.pass().unlinked, 0u);
  EXPECT_TRUE(node.has(node.file(5, 1)));
  node.commit(std::move(taken));
  ASSERT_EQ(node.listed(5), (Ids{3, 4}));
  const auto report = node.pass();
  EXPECT_EQ(report.unlinked, 2u);
  EXPECT_GT(report.freed_bytes, 0u);
  for (const std::uint32_t id : {1, 2}) {
    EXPECT_FALSE(node.has(node.file(5, id)));
    EXPECT_FALSE(node.has(node.index_of(5, id)));
  }
  EXPECT_EQ(node.texts({5}, {1}, 2), (Texts{"text 2", "text 3"}));
  EXPECT_FALSE(node.logs->files_changed());
}

// RE-9: a cut that was begun before the file left the list does not count, however late it becomes durable.
TEST(Reclaim, WaitsForACheckpointThatWasCutAfterTheFileLeftTheList) {
  UpkeepNode node;
  one_per_file(node, 5, 1, 3);
  node.checkpoint();
  node.dead_below(1, 1);
  TestCut before = node.cut();
  node.pass();
  node.commit(std::move(before));
  EXPECT_EQ(node.pass().unlinked, 0u);
  node.checkpoint();
  EXPECT_EQ(node.pass().unlinked, 1u);
}

// RE-2 (B21)
TEST(Reclaim, RewritesAFileOfOneQueueAtItsFirstDeadMessage) {
  UpkeepNode node;
  one_sealed_file(node, 5, 50);
  EXPECT_EQ(node.pass().rewritten, 0u);
  node.dead_below(1, 1);
  const auto before = node.bytes_of(node.file(5, 1)).size();
  rewrite_file_one(node);
  EXPECT_LT(node.bytes_of(node.file(5, 1)).size(), before);
  EXPECT_EQ(node.texts({5}, {1}).size(), 49u);
  EXPECT_EQ(node.texts({5}, {1}).front(), "text 1");
}

void shared_log(UpkeepNode& node, std::uint64_t dead_of_40) {
  node.options.layout_if_new.shards = 3;
  one_sealed_file(node, 4, 40);
  node.dead_below(1, dead_of_40);
}

// RE-2 (B21)
TEST(Reclaim, RewritesAFileOfASharedLogWhenHalfOfItIsDead) {
  for (const std::uint64_t dead : {1, 10, 18, 22, 39}) {
    UpkeepNode node;
    shared_log(node, dead);
    EXPECT_EQ(node.pass().rewritten, dead >= 20 ? 1u : 0u) << dead;
  }
}

// RE-2: one setting replaces both thresholds.
TEST(Reclaim, TheSettingReplacesBothThresholds) {
  for (const std::uint64_t dead : {9, 12}) {
    UpkeepNode shared;
    shared.settings.min_dead_pct = 25;
    shared_log(shared, dead);
    EXPECT_EQ(shared.pass().rewritten, dead >= 10 ? 1u : 0u) << dead;
    UpkeepNode own;
    own.settings.min_dead_pct = 25;
    one_sealed_file(own, 5, 40);
    own.dead_below(1, dead);
    EXPECT_EQ(own.pass().rewritten, dead >= 10 ? 1u : 0u) << dead;
  }
}

// RE-3 (B21)
TEST(Reclaim, LeavesTheActiveFileAndWhatIsAboveTheCheckpoint) {
  UpkeepNode node;
  one_per_file(node, 5, 1, 2);
  node.checkpoint();
  ASSERT_TRUE(node.append(5, 1, 2, {"above"}));
  ASSERT_TRUE(node.append(5, 1, 3, {"active"}));
  node.dead_below(1, 100);
  node.host.floor = 1;
  EXPECT_EQ(node.pass().looked_at, 1u);  // file 1 with entry 1
  node.host.floor = 2;
  EXPECT_EQ(node.pass().looked_at, 1u);  // file 2 with entry 2
  node.host.floor = 4;
  EXPECT_EQ(node.pass().looked_at, 1u);  // file 3; file 4 is active
  node.checkpoint();
  EXPECT_EQ(node.pass().unlinked, 3u);
  EXPECT_TRUE(node.has(node.file(5, 4)));
}

// RE-4 (B21)
TEST(Reclaim, RewritesOneFilePerPass) {
  UpkeepNode node;
  for (const std::uint64_t log : {5, 6, 7}) {
    for (std::uint64_t i = 0; i < 2; ++i) {
      if (!node.logs) node.must_start();
      ASSERT_TRUE(node.append(log, log, i, {"text"}));
    }
  }
  ASSERT_EQ(node.upkeep->idle_pass(10'000'000'000'000)->sealed, 3u);
  node.checkpoint();
  for (const std::uint64_t pid : {5, 6, 7}) node.dead_below(pid, 1);
  for (std::uint32_t done = 1; done <= 3; ++done) {
    EXPECT_EQ(node.pass().rewritten, 1u);
    EXPECT_EQ(node.pass().rewritten, 0u) << "the copy before has not taken its place";
    node.checkpoint();
  }
  node.pass();
  for (const std::uint64_t log : {5, 6, 7}) EXPECT_EQ(node.texts({log}, {log}), (Texts{"text"}));
}

// RE-4, RE-5: 256 files a pass, and the next one goes on where it stopped.
TEST(Reclaim, LooksAtSoManyFilesAndGoesOnBehindThem) {
  UpkeepNode node;
  one_per_file(node, 5, 1, 600);
  node.checkpoint();
  node.dead_below(1, 600);
  Ids unlinked;
  for (const std::uint32_t expected : {256, 256, 87}) {
    EXPECT_EQ(node.pass().looked_at, expected);
  }
  node.checkpoint();
  EXPECT_EQ(node.pass().unlinked, 256u);
  EXPECT_EQ(node.pass().unlinked, 256u);
  EXPECT_EQ(node.pass().unlinked, 87u);
  node.checkpoint();
  EXPECT_EQ(node.listed(5), (Ids{600}));
}

// RE-4
TEST(Reclaim, StopsAfterTwoHundredMilliseconds) {
  UpkeepNode node;
  one_per_file(node, 5, 1, 21);
  node.checkpoint();
  node.host.on_look_up = [&] { node.clock.advance(50'000); };
  EXPECT_EQ(node.upkeep->reclaim_pass().looked_at, 4u);
  EXPECT_EQ(node.upkeep->reclaim_pass().looked_at, 4u);
  EXPECT_EQ(node.upkeep->reclaim_pass().looked_at, 4u);
}

// RE-5: a file that asks for more than a pass may is judged over several.
TEST(Reclaim, AsksSoManyPartitionsAndGoesOnInTheMiddleOfAFile) {
  constexpr std::uint64_t kPartitions = 300'000;
  UpkeepNode node;
  node.options.segment_bytes = 1U << 30;
  node.must_start();
  TestEntry entry{.index = 1, .messages = {}, .touched = {}, .note = {}};
  for (std::uint64_t pid = 1; pid <= kPartitions; ++pid) entry.messages.push_back({{5}, {pid}, 0, {"x"}});
  ASSERT_TRUE(node.put({entry}));
  ASSERT_EQ(node.upkeep->idle_pass(10'000'000'000'000)->sealed, 1u);
  node.checkpoint();
  const auto first = node.pass();
  EXPECT_EQ(first.look_ups, 262'144u);
  EXPECT_FALSE(node.logs->files_changed());
  EXPECT_EQ(node.pass().look_ups, kPartitions - 262'144);
  EXPECT_LE(node.host.most_at_once, 256u);
  node.checkpoint();
  EXPECT_EQ(node.pass().unlinked, 1u);
}

// RE-6
TEST(Reclaim, AMessageIsDeadWithItsPartitionOrBelowItsHashLists) {
  for (const auto& partition : std::vector<std::optional<UpkeepHost::Partition>>{
           std::nullopt, UpkeepHost::Partition{.log = {6}, .txns_start = 0},
           UpkeepHost::Partition{.log = {5}, .txns_start = 3}}) {
    UpkeepNode node;
    one_sealed_file(node, 5, 3);
    node.host.partitions.erase(1);
    if (partition) node.host.partitions[1] = *partition;
    node.pass();
    node.checkpoint();
    EXPECT_EQ(node.pass().unlinked, 1u);
  }
}

// RE-6: an append that the watermark cuts in the middle is alive.
TEST(Reclaim, AnAppendIsDeadOnlyAsAWhole) {
  UpkeepNode node;
  node.must_start();
  ASSERT_TRUE(node.append(5, 1, 0, {"a", "b"}));
  ASSERT_TRUE(node.append(5, 1, 2, {"c", "d"}));
  ASSERT_EQ(node.upkeep->idle_pass(10'000'000'000'000)->sealed, 1u);
  node.checkpoint();
  node.dead_below(1, 1);
  EXPECT_EQ(node.pass().rewritten, 0u);
  node.dead_below(1, 2);
  rewrite_file_one(node);
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"c", "d"}));
}

// RE-6, HD-31
TEST(Reclaim, EntryRecordsKeepNoFileAlive) {
  UpkeepNode node;
  node.options.segment_bytes = 400;
  node.must_start();
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(node.touch(0));
    if (i % 10 != 9) continue;
    node.pass();
    node.checkpoint();
    node.pass();
    EXPECT_LT(node.logs->bytes_on_disk(), 3'000u);
  }
  node.disk.crash();
  node.must_start();
  EXPECT_EQ(node.logs->recovery().last_index, 300u);
}

// RE-7: what was found dead at the front of a file is not asked about again.
TEST(Reclaim, RemembersTheDeadPrefixOfAFile) {
  UpkeepNode node;
  node.settings.min_dead_pct = 90;
  node.must_start();
  TestEntry entry{.index = 1, .messages = {}, .touched = {}, .note = {}};
  for (std::uint64_t pid = 1; pid <= 20; ++pid) {
    entry.messages.push_back({{5}, {pid}, 0, {"x"}});
    if (pid > 12) node.host.partitions[pid] = {.log = {5}, .txns_start = 0};
  }
  ASSERT_TRUE(node.put({entry}));
  ASSERT_EQ(node.upkeep->idle_pass(10'000'000'000'000)->sealed, 1u);
  node.checkpoint();
  EXPECT_EQ(node.pass().look_ups, 20u + 20u);  // the sample, then all of them
  EXPECT_EQ(node.pass().look_ups, 8u + 8u);
}

// RE-7: where a share is asked for, 32 records say that it is not worth to ask about all.
TEST(Reclaim, ASampleSparesTheExactCount) {
  UpkeepNode node;
  node.settings.min_dead_pct = 50;
  node.must_start();
  TestEntry entry{.index = 1, .messages = {}, .touched = {}, .note = {}};
  for (std::uint64_t pid = 1; pid <= 1000; ++pid) {
    entry.messages.push_back({{5}, {pid}, 0, {"x"}});
    if (pid % 10 != 0) node.host.partitions[pid] = {.log = {5}, .txns_start = 0};
  }
  ASSERT_TRUE(node.put({entry}));
  ASSERT_EQ(node.upkeep->idle_pass(10'000'000'000'000)->sealed, 1u);
  node.checkpoint();
  EXPECT_EQ(node.pass().look_ups, 32u);
  for (std::uint64_t pid = 1; pid <= 600; ++pid) node.host.partitions.erase(pid);
  const auto report = node.pass();
  EXPECT_EQ(report.look_ups, 1032u);
  EXPECT_EQ(report.rewritten, 1u);
}

// RE-9: what a crash brought back after its unlink goes first, before any file that is listed.
TEST(Reclaim, AFileThatIsPresentButNotListedGoesFirst) {
  UpkeepNode node;
  one_per_file(node, 5, 1, 3);
  one_per_file(node, 9, 2, 3);
  node.dead_below(2, 1);
  node.checkpoint();
  node.pass();
  node.checkpoint();
  ASSERT_EQ(node.listed(9), (Ids{2, 3}));
  node.disk.crash();
  node.must_start();
  ASSERT_TRUE(node.has(node.file(9, 1)));
  EXPECT_EQ(node.logs->files().at({9}), (Ids{2, 3}));
  node.host.on_look_up = [&] { node.clock.advance(300'000); };
  EXPECT_EQ(node.upkeep->reclaim_pass().looked_at, 1u);
  node.host.on_look_up = nullptr;
  node.checkpoint();
  EXPECT_EQ(node.pass().unlinked, 1u);
  EXPECT_FALSE(node.has(node.file(9, 1)));
}

// RE-9: one that lives after all is kept, and listed again.
TEST(Reclaim, AnUnlistedFileInWhichSomethingLivesStays) {
  UpkeepNode node;
  one_per_file(node, 9, 2, 3);
  node.checkpoint();
  node.on_disk.state.files[{9}] = {2, 3};
  node.must_start();
  node.pass();
  node.checkpoint();
  node.pass();
  EXPECT_EQ(node.listed(9), (Ids{1, 2, 3}));
  EXPECT_EQ(node.texts({9}, {2}).size(), 3u);
}

// RE-10: who writes to the log has its turn, and reclaim comes back another time.
TEST(Reclaim, NeverWaitsForTheTurnOfALog) {
  UpkeepNode node;
  one_per_file(node, 5, 1, 3);
  node.checkpoint();
  node.dead_below(1, 1);
  node.pass();
  node.checkpoint();
  detail::Turn& turn = static_cast<detail::QueueLogsImpl&>(*node.logs).find({5})->turn();
  std::thread([&] {
    const std::lock_guard held(turn);
    std::thread([&] { EXPECT_EQ(node.pass().unlinked, 0u); }).join();
  }).join();
  EXPECT_TRUE(node.has(node.file(5, 1)));
  EXPECT_EQ(node.pass().unlinked, 1u);
}

// RE-11
TEST(Reclaim, OffKeepsEverySealedFile) {
  UpkeepNode node;
  node.settings.reclaim = false;
  one_per_file(node, 5, 1, 3);
  node.checkpoint();
  node.dead_below(1, 3);
  EXPECT_EQ(node.pass().looked_at, 0u);
  node.checkpoint();
  node.pass();
  EXPECT_TRUE(node.has(node.file(5, 1)));
}

TEST(Reclaim, NothingIsDoneOnANodeThatStops) {
  UpkeepNode node;
  one_per_file(node, 5, 1, 3);
  node.checkpoint();
  node.dead_below(1, 3);
  node.pass();
  node.checkpoint();
  node.host.running = false;
  EXPECT_EQ(node.pass().unlinked, 0u);
  EXPECT_EQ(node.upkeep->idle_pass(10'000'000'000'000)->sealed, 0u);
  EXPECT_TRUE(node.has(node.file(5, 1)));
}

// A failed unlink is tried again; readers are off the file already.
TEST(Reclaim, AnUnlinkThatFailsIsTriedAgain) {
  UpkeepNode node;
  one_per_file(node, 5, 1, 3);
  node.checkpoint();
  node.dead_below(1, 1);
  node.pass();
  node.checkpoint();
  node.disk.fail(disk::RamOp::remove_file, 1, Errc::unavailable, EIO);
  EXPECT_EQ(node.pass().unlinked, 0u);
  EXPECT_EQ(node.texts({5}, {1}, 0), (Texts{"text 1", "text 2"}));
  EXPECT_EQ(node.pass().unlinked, 1u);
}

}  // namespace
}  // namespace queen::qlog

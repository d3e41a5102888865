// The idle pass: files sealed by age, empty logs removed. storage.md 19.
#include <cerrno>
#include <thread>

#include "qlog/detail/queue_logs_impl.h"
#include "upkeep_support.h"

namespace queen::qlog {
namespace {

using Ids = std::vector<std::uint32_t>;
using Texts = std::vector<std::string>;

constexpr std::int64_t kStampsFrom = 1'000'000;  // entry n carries kStampsFrom + n
constexpr std::int64_t kAge = 600'000'000;
constexpr std::int64_t kLong = 10'000'000'000'000;

std::int64_t stamp(std::uint64_t index) {
  return kStampsFrom + static_cast<std::int64_t>(index);
}

// A log whose only message is dead, sealed and freed: its directory holds one empty file. Another log is
// further on.
void emptied(UpkeepNode& node, std::uint64_t log) {
  if (node.logs == nullptr) node.must_start();
  ASSERT_TRUE(node.append(log, log, 0, {"gone"}));
  ASSERT_EQ(node.upkeep->idle_pass(kLong)->sealed, 1u);
  node.checkpoint();
  node.dead_below(log, 1);
  node.pass();
  ASSERT_TRUE(node.touch(1000));
  node.checkpoint();
  ASSERT_EQ(node.pass().unlinked, 1u);
  node.checkpoint();
  ASSERT_EQ(node.listed(log), (Ids{2}));
}

std::string directory_of(std::uint64_t log) {
  return "/data/qlog/q" + std::to_string(log);
}

// ID-1, ID-2 (B23)
TEST(IdlePass, SealsAFileWhoseOldestMessageIsOldEnough) {
  UpkeepNode node;
  node.must_start();
  ASSERT_TRUE(node.append(5, 1, 0, {"old"}));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(node.append(5, 1, 1 + static_cast<std::uint64_t>(i), {"young"}));
  EXPECT_EQ(node.upkeep->idle_pass(stamp(1) + kAge - 1)->sealed, 0u);
  EXPECT_EQ(node.upkeep->idle_pass(stamp(1) + kAge)->sealed, 1u);
  EXPECT_EQ(node.logs->files().at({5}), (Ids{1, 2}));
  EXPECT_TRUE(node.has(node.index_of(5, 1)));
  EXPECT_EQ(node.texts({5}, {1}).size(), 11u);
}

// ID-2: entry parts have no message whose age could count.
TEST(IdlePass, AFileOfEntryPartsAgesFromWhenItWasOpened) {
  UpkeepNode node;
  node.must_start();
  ASSERT_TRUE(node.append(0, 1, 0, {"x"}));  // entry 1
  ASSERT_TRUE(node.touch(7));                // entry 2 opens the log
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(node.touch(7));
  EXPECT_EQ(node.upkeep->idle_pass(stamp(2) + kAge - 1)->sealed, 1u);  // q0 alone
  EXPECT_EQ(node.upkeep->idle_pass(stamp(2) + kAge)->sealed, 1u);
  EXPECT_EQ(node.logs->files().at({7}), (Ids{1, 2}));
}

// ID-1: age goes on counting over a restart.
TEST(IdlePass, AgeSurvivesARestart) {
  UpkeepNode node;
  node.must_start();
  ASSERT_TRUE(node.append(5, 1, 0, {"x"}));
  ASSERT_TRUE(node.touch(7));
  node.must_start();
  EXPECT_EQ(node.upkeep->idle_pass(stamp(1) + kAge - 1)->sealed, 0u);
  EXPECT_EQ(node.upkeep->idle_pass(stamp(1) + kAge)->sealed, 1u);
  EXPECT_EQ(node.upkeep->idle_pass(stamp(2) + kAge)->sealed, 1u);
}

// ID-1
TEST(IdlePass, AgeZeroSealsNothing) {
  UpkeepNode node;
  node.settings.seal_age_us = 0;
  node.must_start();
  ASSERT_TRUE(node.append(5, 1, 0, {"x"}));
  EXPECT_EQ(node.upkeep->idle_pass(kLong)->sealed, 0u);
}

TEST(IdlePass, AnEmptyFileIsNotSealed) {
  UpkeepNode node;
  node.must_start();
  ASSERT_TRUE(node.append(5, 1, 0, {"x"}));
  EXPECT_EQ(node.upkeep->idle_pass(kLong)->sealed, 1u);
  EXPECT_EQ(node.upkeep->idle_pass(2 * kLong)->sealed, 0u);
}

// ID-2: the next file is opened for the next index of the node, not of the log.
TEST(IdlePass, TheNextFileIsOpenedForTheNextIndex) {
  UpkeepNode node;
  node.must_start();
  ASSERT_TRUE(node.append(5, 1, 0, {"x"}));
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(node.touch(0));
  ASSERT_EQ(node.upkeep->idle_pass(kLong)->sealed, 2u);
  EXPECT_EQ(decode_file_header(node.bytes_of(node.file(5, 2)))->first_seq, 8u);
  ASSERT_TRUE(node.append(5, 1, 1, {"y"}));
  node.disk.crash();
  node.must_start();
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"x", "y"}));
}

// QL-26, QL-28 (B31): the quiet log was sealed for an index that recovery cut; the entry that takes the lower
// index is found, and found again after a restart.
TEST(IdlePass, AnEntryBelowTheFirstSeqOfASealedLogsNextFileIsKept) {
  UpkeepNode node;
  node.must_start();
  ASSERT_TRUE(node.append(5, 1, 0, {"x"}));
  // Entries 2 and 3 are written and lost: nothing of them was synced.
  const TestEntry two{.index = 2, .messages = {}, .touched = {{0}}, .note = {}};
  const TestEntry three{.index = 3, .messages = {}, .touched = {{0}}, .note = {}};
  const TestGroup lost({two, three});
  ASSERT_TRUE(node.logs->write_group(lost.entries()));
  ASSERT_EQ(node.upkeep->idle_pass(kLong)->sealed, 1u);
  EXPECT_EQ(decode_file_header(node.bytes_of(node.file(5, 2)))->first_seq, 4u);
  node.disk.crash();
  node.must_start();
  ASSERT_EQ(node.logs->recovery().last_index, 1u);
  EXPECT_EQ(decode_file_header(node.bytes_of(node.file(5, 2)))->first_seq, 2u);
  ASSERT_TRUE(node.append(5, 1, 1, {"y"}));
  node.disk.crash();
  node.must_start();
  EXPECT_EQ(node.logs->recovery().last_index, 2u);
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"x", "y"}));
}

// QL-18: what is sealed is synced in all of its logs.
TEST(IdlePass, SkipsALogWithUnsyncedWrites) {
  UpkeepNode node;
  node.must_start();
  const TestEntry first = push(1, 5, 1, 0, {"x"});
  const TestGroup group({first});
  const auto written = node.logs->write_group(group.entries());
  ASSERT_TRUE(written);
  EXPECT_EQ(node.upkeep->idle_pass(kLong)->sealed, 0u);
  ASSERT_TRUE(node.logs->sync(*written));
  EXPECT_EQ(node.upkeep->idle_pass(kLong)->sealed, 1u);
}

// RE-10, GC-3: the writer has the log's turn; the pass comes back another time.
TEST(IdlePass, SkipsALogThatIsBeingWrittenTo) {
  UpkeepNode node;
  node.must_start();
  ASSERT_TRUE(node.append(5, 1, 0, {"x"}));
  detail::Turn& turn = static_cast<detail::QueueLogsImpl&>(*node.logs).find({5})->turn();
  std::thread([&] {
    const std::lock_guard held(turn);
    std::thread([&] { EXPECT_EQ(node.upkeep->idle_pass(kLong)->sealed, 0u); }).join();
  }).join();
  EXPECT_EQ(node.upkeep->idle_pass(kLong)->sealed, 1u);
}

// ID-1..ID-3: 64 steps a pass, going on where it stopped.
TEST(IdlePass, TakesSixtyFourStepsAndGoesOnBehindThem) {
  UpkeepNode node;
  node.must_start();
  for (std::uint64_t log = 1; log <= 150; ++log) ASSERT_TRUE(node.append(log, log, 0, {"x"}));
  EXPECT_EQ(node.upkeep->idle_pass(kLong)->sealed, 64u);
  EXPECT_EQ(node.upkeep->idle_pass(kLong)->sealed, 64u);
  EXPECT_EQ(node.upkeep->idle_pass(kLong)->sealed, 22u);
  EXPECT_EQ(node.upkeep->idle_pass(kLong)->sealed, 0u);
}

// B23: a quiet queue's disk comes back.
TEST(IdlePass, SealingByAgeLetsReclaimFreeAQuietQueue) {
  UpkeepNode node;
  node.must_start();
  ASSERT_TRUE(node.append(5, 1, 0, {std::string(5000, 'q')}));
  node.checkpoint();
  node.dead_below(1, 1);
  node.pass();
  EXPECT_TRUE(node.has(node.file(5, 1)));
  ASSERT_EQ(node.upkeep->idle_pass(kLong)->sealed, 1u);
  node.checkpoint();
  node.pass();
  node.checkpoint();
  EXPECT_EQ(node.pass().unlinked, 1u);
  EXPECT_FALSE(node.has(node.file(5, 1)));
}

TEST(IdlePass, ASealThatFailsStopsTheLogs) {
  UpkeepNode node;
  node.must_start();
  ASSERT_TRUE(node.append(5, 1, 0, {"x"}));
  node.disk.fail(disk::RamOp::sync, 1, Errc::unavailable, EIO);
  EXPECT_FALSE(node.upkeep->idle_pass(kLong));
  EXPECT_FALSE(node.append(5, 1, 1, {"y"}));
}

TEST(IdlePass, AFullVolumePutsASealOff) {
  UpkeepNode node;
  node.must_start();
  ASSERT_TRUE(node.append(5, 1, 0, {"x"}));
  node.disk.set_free_bytes(8);
  EXPECT_EQ(node.upkeep->idle_pass(kLong)->sealed, 0u);
  node.disk.set_free_bytes(std::nullopt);
  ASSERT_TRUE(node.append(5, 1, 1, {"y"}));
  EXPECT_EQ(node.upkeep->idle_pass(kLong)->sealed, 1u);
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"x", "y"}));
}

// ID-3, LOG-7 (B23)
TEST(IdlePass, RemovesAnEmptyLogOnceACheckpointWithoutItIsDurable) {
  UpkeepNode node;
  emptied(node, 5);
  EXPECT_EQ(node.upkeep->idle_pass(0)->removed, 0u);
  TestCut taken = node.cut();
  EXPECT_FALSE(taken.state.files.contains({5}));
  EXPECT_FALSE(taken.state.tails.contains({5}));
  EXPECT_EQ(node.upkeep->idle_pass(0)->removed, 0u);
  EXPECT_TRUE(node.has(node.file(5, 2)));
  node.commit(std::move(taken));
  EXPECT_EQ(node.upkeep->idle_pass(0)->removed, 1u);
  EXPECT_FALSE(*node.disk.exists(directory_of(5)));
  EXPECT_FALSE(*node.disk.exists(directory_of(5) + ".dead"));
  EXPECT_FALSE(node.logs->exists({5}));
  EXPECT_TRUE(node.texts({5}, {5}).empty());
  node.must_start();
  EXPECT_FALSE(node.logs->exists({5}));
}

// ID-3 (B23)
TEST(IdlePass, NeverRemovesTheSystemLogOrASharedOne) {
  UpkeepNode node;
  emptied(node, 0);
  EXPECT_EQ(node.upkeep->idle_pass(0)->removed, 0u);
  node.checkpoint();
  EXPECT_EQ(node.upkeep->idle_pass(0)->removed, 0u);
  EXPECT_TRUE(node.logs->exists({0}));
  UpkeepNode shared;
  shared.options.layout_if_new.shards = 3;
  emptied(shared, 4);
  EXPECT_EQ(shared.upkeep->idle_pass(0)->removed, 0u);
  shared.checkpoint();
  EXPECT_EQ(shared.upkeep->idle_pass(0)->removed, 0u);
  EXPECT_TRUE(shared.logs->exists({4}));
}

// ID-3, BR-3: the log that reaches furthest stays, for the next boot asks how far all logs together reach.
TEST(IdlePass, KeepsAnEmptyLogThatWasOpenedForAnIndexAboveTheFloor) {
  UpkeepNode node;
  emptied(node, 5);
  node.host.floor = 1;
  EXPECT_TRUE(node.upkeep->idle_pass(0));
  node.checkpoint();
  node.host.floor = 1;
  EXPECT_TRUE(node.upkeep->idle_pass(0));
  EXPECT_TRUE(node.logs->exists({5}));
}

// ID-4
TEST(IdlePass, APushToARemovedLogMakesItAgain) {
  UpkeepNode node;
  emptied(node, 5);
  EXPECT_TRUE(node.upkeep->idle_pass(0));
  node.checkpoint();
  ASSERT_EQ(node.upkeep->idle_pass(0)->removed, 1u);
  ASSERT_TRUE(node.append(5, 8, 0, {"again"}));
  EXPECT_EQ(node.logs->files().at({5}), (Ids{1}));
  node.disk.crash();
  node.must_start();
  EXPECT_EQ(node.texts({5}, {8}), (Texts{"again"}));
  node.checkpoint();
  EXPECT_EQ(node.listed(5), (Ids{1}));
  node.disk.crash();
  node.must_start();
  EXPECT_EQ(node.texts({5}, {8}), (Texts{"again"}));
}

// ID-3, ID-4: a write that comes before the rename takes the log back, rows included.
TEST(IdlePass, AWriteTakesBackAPlannedRemoval) {
  UpkeepNode node;
  emptied(node, 5);
  EXPECT_TRUE(node.upkeep->idle_pass(0));
  node.checkpoint();
  ASSERT_TRUE(node.append(5, 8, 0, {"back"}));
  EXPECT_EQ(node.upkeep->idle_pass(0)->removed, 0u);
  EXPECT_EQ(node.texts({5}, {8}), (Texts{"back"}));
  node.checkpoint();
  EXPECT_EQ(node.listed(5), (Ids{2}));
  EXPECT_TRUE(node.on_disk.state.tails.contains({5}));
  node.disk.crash();
  node.must_start();
  EXPECT_EQ(node.texts({5}, {8}), (Texts{"back"}));
}

// ID-3 (B23): a kill between the rename and the deletion leaves what the next boot sweeps.
TEST(IdlePass, ALogThatCannotBeDeletedIsSweptAtTheNextBoot) {
  UpkeepNode node;
  emptied(node, 5);
  EXPECT_TRUE(node.upkeep->idle_pass(0));
  node.checkpoint();
  node.disk.fail(disk::RamOp::remove_file, 1, Errc::unavailable, EIO);
  EXPECT_EQ(node.upkeep->idle_pass(0)->removed, 1u);
  EXPECT_TRUE(*node.disk.exists(directory_of(5) + ".dead"));
  ASSERT_TRUE(node.append(5, 8, 0, {"again"}));
  node.disk.crash();
  node.must_start();
  EXPECT_FALSE(*node.disk.exists(directory_of(5) + ".dead"));
  EXPECT_EQ(node.texts({5}, {8}), (Texts{"again"}));
}

// DUR-10: whether the renamed directory comes back is open when its sync fails, so nothing may list the log.
TEST(IdlePass, ARemovalWhoseSyncFailsStopsTheLogsAndNoCheckpointListsTheLogAgain) {
  for (const bool power_off : {false, true}) {
    UpkeepNode node;
    emptied(node, 5);
    ASSERT_TRUE(node.upkeep->idle_pass(kLong));  // plans it
    node.checkpoint();
    node.disk.fail(disk::RamOp::sync_dir, 2, Errc::unavailable, EIO);  // the first is that of the note
    EXPECT_FALSE(node.upkeep->idle_pass(kLong));
    ASSERT_EQ(node.disk.failures_left(), 0U);
    EXPECT_FALSE(node.append(5, 5, 1, {"more"}));
    node.checkpoint();
    EXPECT_TRUE(node.listed(5).empty());
    if (power_off) node.disk.crash();
    node.must_start();
    EXPECT_TRUE(node.append(5, 5, 1, {"more"}));
  }
}

// ID-3: a second removal finds the leftovers of the first.
TEST(IdlePass, ARemovalSweepsWhatAnEarlierOneLeft) {
  UpkeepNode node;
  emptied(node, 5);
  EXPECT_TRUE(node.upkeep->idle_pass(0));
  node.checkpoint();
  node.disk.fail(disk::RamOp::remove_file, 1, Errc::unavailable, EIO);
  ASSERT_EQ(node.upkeep->idle_pass(0)->removed, 1u);
  ASSERT_TRUE(node.append(5, 8, 0, {"again"}));
  ASSERT_EQ(node.upkeep->idle_pass(kLong)->sealed, 2u);
  node.dead_below(8, 1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(node.touch(1000));
    node.checkpoint();
    node.pass();
  }
  EXPECT_TRUE(node.upkeep->idle_pass(0));
  node.checkpoint();
  EXPECT_EQ(node.upkeep->idle_pass(0)->removed, 1u);
  EXPECT_FALSE(*node.disk.exists(directory_of(5)));
  EXPECT_FALSE(*node.disk.exists(directory_of(5) + ".dead"));
}

// HD-29: an empty directory that no row names is treated like any other log, never swept on sight.
TEST(IdlePass, ALogThatNoRowNamesGoesThroughACheckpointToo) {
  UpkeepNode node;
  emptied(node, 5);
  node.on_disk.state.files.erase({5});
  node.on_disk.state.tails.erase({5});
  node.must_start();
  EXPECT_TRUE(node.logs->exists({5}));
  EXPECT_TRUE(node.logs->files_changed());
  EXPECT_TRUE(node.upkeep->idle_pass(0));
  EXPECT_EQ(node.upkeep->idle_pass(0)->removed, 0u);
  node.checkpoint();
  EXPECT_EQ(node.upkeep->idle_pass(0)->removed, 1u);
}

// HD-29: once a log was removed, the others cannot show any more that something is missing.
TEST(IdlePass, WithoutTheStoreADirectoryFromWhichALogWasRemovedIsRefused) {
  UpkeepNode node;
  emptied(node, 5);
  EXPECT_TRUE(node.upkeep->idle_pass(0));
  node.checkpoint();
  ASSERT_EQ(node.upkeep->idle_pass(0)->removed, 1u);
  node.must_start();
  node.upkeep.reset();
  node.durable = {};
  node.durable.store_missing = true;
  node.must_refuse({"data.mdb", "REMOVED"});
}

// ID-3: a removal that a write took back says nothing about the next one of that log, which waits for a
// checkpoint of its own: here the write found no space, so that the log is as empty as before, and the
// checkpoint that became durable meanwhile lists it.
TEST(IdlePass, ARemovalPlannedAnewWaitsForACheckpointOfItsOwn) {
  UpkeepNode node;
  emptied(node, 5);
  ASSERT_TRUE(node.upkeep->idle_pass(0));  // planned
  node.disk.set_free_bytes(0);
  ASSERT_FALSE(node.append(5, 8, 0, {"finds no space"}));
  node.disk.set_free_bytes(std::nullopt);
  TestCut lists_it = node.cut();
  ASSERT_TRUE(node.upkeep->idle_pass(0));  // planned anew
  node.commit(std::move(lists_it));
  ASSERT_EQ(node.listed(5), (Ids{2}));
  EXPECT_EQ(node.upkeep->idle_pass(0)->removed, 0u);
  node.disk.crash();
  node.must_start();
  EXPECT_TRUE(node.logs->exists({5}));
}

// HD-28: a seal that finds no descriptor is for another time, as with a full volume.
TEST(IdlePass, ASealWithoutDescriptorsIsForAnotherTime) {
  UpkeepNode node;
  node.options.fd_cache = 0;
  node.must_start();
  ASSERT_TRUE(node.append(5, 1, 0, {"x"}));
  node.disk.fail(disk::RamOp::open, 1, Errc::unavailable, EMFILE);
  node.disk.fail(disk::RamOp::open, 1, Errc::unavailable, EMFILE);
  const auto starved = node.upkeep->idle_pass(kLong);
  ASSERT_TRUE(starved) << starved.error().what;
  EXPECT_EQ(starved->sealed, 0u);
  EXPECT_EQ(node.upkeep->idle_pass(kLong)->sealed, 1u);
  ASSERT_TRUE(node.append(5, 1, 1, {"y"}));
  EXPECT_EQ(node.texts({5}, {1}), (Texts{"x", "y"}));
}

// HD-29: nor with a file freed between two that are left: what stands behind it would be cut as torn.
TEST(IdlePass, WithoutTheStoreALogWithAFreedFileBetweenOthersIsRefused) {
  UpkeepNode node;
  node.must_start();
  ASSERT_TRUE(node.append(5, 1, 0, {"kept"}));
  ASSERT_EQ(node.upkeep->idle_pass(kLong)->sealed, 1u);
  ASSERT_TRUE(node.append(5, 2, 0, {"gone"}));
  ASSERT_EQ(node.upkeep->idle_pass(kLong)->sealed, 1u);
  ASSERT_TRUE(node.append(5, 1, 1, {"kept as well"}));
  node.checkpoint();
  node.dead_below(2, 1);
  node.pass();
  node.checkpoint();
  ASSERT_EQ(node.pass().unlinked, 1u);
  node.checkpoint();
  ASSERT_EQ(node.listed(5), (Ids{1, 3}));
  node.upkeep.reset();
  node.durable = {};
  node.durable.store_missing = true;
  node.must_refuse({"data.mdb", "q5"});
}

// ID-4: file 1 of a log that was made again is another file than the one a reader may still have open.
TEST(IdlePass, ALogThatWasMadeAgainNeverMeetsTheFilesOfTheOld) {
  UpkeepNode node;
  node.must_start();
  ASSERT_TRUE(node.append(5, 5, 0, {"gone"}));
  auto& logs = static_cast<detail::QueueLogsImpl&>(*node.logs);
  const auto run = logs.find({5})->find({.pid = 5, .offset = 0}, 1);
  auto held = *logs.shared().open_file(run->file);
  ASSERT_EQ(node.upkeep->idle_pass(kLong)->sealed, 1u);
  node.dead_below(5, 1);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(node.touch(1000));
    node.checkpoint();
    node.pass();
    EXPECT_TRUE(node.upkeep->idle_pass(0));
  }
  ASSERT_FALSE(node.logs->exists({5}));
  // As a reader does that was on its way all the time.
  logs.shared().files.insert(run->file, held, 1);
  ASSERT_TRUE(node.append(5, 8, 0, {"again"}));
  EXPECT_EQ(node.texts({5}, {8}), (Texts{"again"}));
  node.must_start();
  EXPECT_EQ(node.texts({5}, {8}), (Texts{"again"}));
}

// CP-6: nothing changes, nothing asks for a checkpoint.
TEST(IdlePass, AnIdleNodeWantsNoCheckpoint) {
  UpkeepNode node;
  node.must_start();
  ASSERT_TRUE(node.append(5, 1, 0, {"x"}));
  ASSERT_TRUE(node.touch(0));
  node.checkpoint();
  for (int i = 0; i < 10; ++i) {
    node.pass();
    EXPECT_TRUE(node.upkeep->idle_pass(stamp(1) + i));
    EXPECT_FALSE(node.logs->files_changed());
  }
  node.must_start();
  EXPECT_FALSE(node.logs->files_changed());
}

}  // namespace
}  // namespace queen::qlog

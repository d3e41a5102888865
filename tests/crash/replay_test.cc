// The logs alone bring the store back to where it was, from whichever checkpoint they start.
#include <gtest/gtest.h>

#include "workload.h"

namespace queen::crash {
namespace {

constexpr const char* kCheckpoint = "/data/store/checkpoint";

// Every file of the logs stays.
NodeOptions keeping(NodeOptions options) {
  options.upkeep.reclaim = false;
  options.upkeep.seal_age_us = 0;
  return options;
}

// RC-5
TEST(Replay, FromAnyOlderCheckpointWhoseLogsAreThereComesToTheSameStore) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    const NodeOptions options = keeping(shape.options);
    disk::RamDisk disk;
    ASSERT_TRUE(disk.make_dirs("/data"));
    Workload work(disk, options, 7);
    std::vector<Bytes> checkpoints;
    work.on_checkpoint = [&] { checkpoints.push_back(disk.files().at(kCheckpoint)); };
    ASSERT_TRUE(work.start());
    work.run_every_kind();
    work.run(60);
    ASSERT_EQ(work.wrong(), "");
    ASSERT_GT(checkpoints.size(), 5u);
    work.node().kill();
    for (const Bytes& old : checkpoints) {
      const auto rolled_back = disk.copy();
      ASSERT_TRUE(disk::replace_file(*rolled_back, kCheckpoint, old));
      ManualClock clock;
      MiniNode node(*rolled_back, clock, options);
      const auto opened = node.open();
      ASSERT_TRUE(opened) << opened.error().what;
      ASSERT_EQ(node.applied(), work.answered());
      ASSERT_EQ(node.store().digest(), work.digest_at(node.applied()));
      ASSERT_EQ(difference(work.model_at(node.applied()), node), "");
    }
  }
}

// AP-7: what replay makes of the logs is what the live node had, at each of its checkpoints.
TEST(Replay, GivesTheDigestOfTheLiveNodeAtEveryCheckpoint) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    disk::RamDisk disk;
    ASSERT_TRUE(disk.make_dirs("/data"));
    ASSERT_TRUE(disk.sync_dir("/"));
    Workload work(disk, shape.options, 11);
    int checkpoints = 0;
    work.on_checkpoint = [&] {
      ++checkpoints;
      const auto other = disk.copy();
      other->crash();
      ManualClock clock;
      MiniNode node(*other, clock, shape.options);
      const auto opened = node.open();
      ASSERT_TRUE(opened) << opened.error().what;
      EXPECT_EQ(node.store().digest(), work.node().store().digest());
    };
    ASSERT_TRUE(work.start());
    work.run_every_kind();
    work.run(100);
    EXPECT_EQ(work.wrong(), "");
    EXPECT_GT(checkpoints, 10);
  }
}

}  // namespace
}  // namespace queen::crash

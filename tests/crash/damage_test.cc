// One bit of a data directory is another one: the node refuses to start, or gives out nothing but what was
// written.
#include <gtest/gtest.h>

#include "workload.h"

namespace queen::crash {
namespace {

void flip(disk::RamDisk& disk, const std::string& path, std::uint64_t at) {
  auto file = disk.open(path, disk::Open::read_write);
  ASSERT_TRUE(file);
  char byte = 0;
  ASSERT_TRUE((*file)->pread(at, {&byte, 1}));
  byte = static_cast<char>(byte ^ (1 << (at % 8)));
  ASSERT_TRUE((*file)->pwrite(at, {&byte, 1}));
  ASSERT_TRUE((*file)->sync());
}

struct Counts {
  std::uint64_t refused = 0, served = 0;
};

void damage_every_byte(const Shape& shape, bool orderly, Counts& counts) {
  disk::RamDisk disk;
  ASSERT_TRUE(disk.make_dirs("/data"));
  Workload work(disk, shape.options, 5);
  ASSERT_TRUE(work.start());
  work.run_every_kind();
  work.run(40);
  ASSERT_EQ(work.wrong(), "");
  if (orderly) {
    ASSERT_TRUE(work.node().stop());
  }
  work.node().kill();
  for (const auto& [path, bytes] : disk.files()) {
    for (std::uint64_t at = 0; at < bytes.size(); ++at) {
      const auto damaged = disk.copy();
      flip(*damaged, path, at);
      ManualClock clock;
      MiniNode node(*damaged, clock, shape.options);
      if (const auto opened = node.open(); !opened) {
        ++counts.refused;
        continue;
      }
      ++counts.served;
      // Behind the last checkpoint a damaged end of a log is what a write that was cut off leaves.
      if (orderly) {
        ASSERT_EQ(node.applied(), work.answered()) << path << " byte " << at;
      }
      ASSERT_EQ(difference(work.model_at(node.applied()), node, Reads::may_fail), "")
          << path << " byte " << at;
    }
  }
}

// CR-5, BR-8
TEST(Damage, AFlippedBitAtAnyByteOfAStoppedNodesDirectoryIsRefusedOrHarmless) {
  for (const Shape& shape : shapes()) {
    Counts counts;
    SCOPED_TRACE(shape.name);
    damage_every_byte(shape, true, counts);
    std::printf("%s: %llu refused, %llu served\n", shape.name.c_str(),
                static_cast<unsigned long long>(counts.refused),
                static_cast<unsigned long long>(counts.served));
    EXPECT_GT(counts.refused, 1'000u);
    EXPECT_GT(counts.served, 1'000u);
  }
}

TEST(Damage, AFlippedBitAtAnyByteOfAKilledNodesDirectoryIsRefusedOrCutOrHarmless) {
  Counts counts;
  damage_every_byte(shapes()[0], false, counts);
  EXPECT_GT(counts.refused, 1'000u);
  EXPECT_GT(counts.served, 1'000u);
}

}  // namespace
}  // namespace queen::crash

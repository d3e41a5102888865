// A call of the disk fails once: the node goes on or stops, and whatever it answered is there when it is
// opened again; what it refused is not.
#include <gtest/gtest.h>

#include <cerrno>

#include "workload.h"

namespace queen::crash {
namespace {

using disk::RamOp;

struct Fault {
  RamOp op = RamOp::pwrite;
  Errc code = Errc::unavailable;
  int sys_errno = EIO;
};

void reopen_and_check(const disk::RamDisk& left, const NodeOptions& options, const Workload& work,
                      int variant) {
  const auto disk = left.copy();
  SeededRandom random(work.answered() + static_cast<std::uint64_t>(variant));
  if (variant == 1) disk->crash();
  if (variant == 2) disk->crash_any(random);
  ManualClock clock;
  MiniNode node(*disk, clock, options);
  const auto opened = node.open();
  ASSERT_TRUE(opened) << opened.error().what;
  ASSERT_GE(node.applied(), work.answered());
  ASSERT_LE(node.applied(), work.written());
  ASSERT_EQ(difference(work.model_at(node.applied()), node), "");
  if (const auto live = work.digest_at(node.applied())) {
    ASSERT_EQ(*live, node.store().digest());
  }
}

// False once there was no such call.
bool fails_once(const Shape& shape, const Fault& fault, std::uint64_t nth) {
  disk::RamDisk disk;
  EXPECT_TRUE(disk.make_dirs("/data"));
  EXPECT_TRUE(disk.sync_dir("/"));
  Workload work(disk, shape.options, 3);
  work.reads = Reads::may_fail;
  disk.fail(fault.op, nth, fault.code, fault.sys_errno);
  if (work.start()) work.run_every_kind();
  const bool happened = disk.failures_left() == 0;
  EXPECT_EQ(work.wrong(), "");
  work.node().kill();
  for (int variant = 0; variant < 3; ++variant)
    if (happened && !testing::Test::HasFailure()) reopen_and_check(disk, shape.options, work, variant);
  return happened;
}

std::uint64_t at_every_call(const std::vector<Fault>& faults, const Shape& shape, std::uint64_t stride) {
  std::uint64_t failed = 0;
  for (const Fault& fault : faults) {
    for (std::uint64_t nth = 1; fails_once(shape, fault, nth); nth += stride) {
      ++failed;
      if (!testing::Test::HasFailure()) continue;
      ADD_FAILURE() << shape.name << ": call " << nth << " of operation " << static_cast<int>(fault.op);
      return failed;
    }
  }
  return failed;
}

// DUR-10, HD-4
TEST(Faults, AnyCallThatFailsOnceLosesNothingThatWasAnswered) {
  std::vector<Fault> faults;
  for (const RamOp op :
       {RamOp::open, RamOp::pread, RamOp::pwrite, RamOp::sync, RamOp::size, RamOp::truncate, RamOp::list,
        RamOp::make_dirs, RamOp::rename, RamOp::remove_file, RamOp::remove_dir, RamOp::sync_dir})
    faults.push_back({op, Errc::unavailable, EIO});
  std::uint64_t failed = 0;
  for (const Shape& shape : shapes()) failed += at_every_call(faults, shape, 3);
  std::printf("calls that failed: %llu\n", static_cast<unsigned long long>(failed));
  EXPECT_GT(failed, 1'000u);
}

TEST(Faults, AFullVolumeRefusesAndNothingRefusedExists) {
  std::vector<Fault> faults;
  for (const RamOp op : {RamOp::open, RamOp::pwrite, RamOp::make_dirs, RamOp::rename, RamOp::truncate})
    faults.push_back({op, Errc::full, ENOSPC});
  std::uint64_t failed = 0;
  for (const Shape& shape : shapes()) failed += at_every_call(faults, shape, 3);
  std::printf("calls on a full volume: %llu\n", static_cast<unsigned long long>(failed));
  EXPECT_GT(failed, 500u);
}

// The last write before the volume is full is a short one. Space comes back, as it does when retention frees
// some.
TEST(Faults, AVolumeThatIsFullAtAnyByteRefusesAndGoesOnOnceThereIsRoom) {
  std::uint64_t refused = 0;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    for (std::uint64_t room = 0; room < 30'000; room += 691) {
      SCOPED_TRACE(room);
      disk::RamDisk disk;
      ASSERT_TRUE(disk.make_dirs("/data"));
      ASSERT_TRUE(disk.sync_dir("/"));
      Workload work(disk, shape.options, 3);
      disk.set_free_bytes(room);
      if (work.start()) work.run_every_kind();
      refused += work.refused();
      disk.set_free_bytes(std::nullopt);
      if (work.node().is_open() && !work.node().stopped()) {
        const std::uint64_t before = work.answered();
        work.run(20);
        EXPECT_GT(work.answered(), before);
      }
      ASSERT_EQ(work.wrong(), "");
      work.node().kill();
      for (int variant = 0; variant < 3; ++variant) {
        reopen_and_check(disk, shape.options, work, variant);
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(refused, 300u);
}

}  // namespace
}  // namespace queen::crash

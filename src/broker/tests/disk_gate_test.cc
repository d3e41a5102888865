// The gate and the reserve over a volume whose size the test decides.
#include "broker/disk_gate.h"

#include <gtest/gtest.h>

#include "disk/ram_disk.h"

namespace queen::broker {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;

// A RAM disk that says what the test wants of its volume.
class SizedDisk final : public disk::Disk {
 public:
  using File = disk::File;
  Result<std::unique_ptr<File>> open(const std::string& path, disk::Open mode) override {
    return ram.open(path, mode);
  }
  Result<bool> exists(const std::string& path) override { return ram.exists(path); }
  Result<std::vector<disk::DirEntry>> list(const std::string& path) override { return ram.list(path); }
  Status make_dirs(const std::string& path) override { return ram.make_dirs(path); }
  Status rename(const std::string& from, const std::string& to) override { return ram.rename(from, to); }
  Status remove_file(const std::string& path) override { return ram.remove_file(path); }
  Status remove_dir(const std::string& path) override { return ram.remove_dir(path); }
  Status sync_dir(const std::string& path) override { return ram.sync_dir(path); }
  Result<disk::VolumeUse> volume(const std::string&) override { return use; }
  Result<std::unique_ptr<disk::LockHeld>> lock(const std::string& path) override { return ram.lock(path); }

  disk::RamDisk ram;
  disk::VolumeUse use{1000 * kMiB, 900 * kMiB};
};

struct Rig {
  Rig() { ignore(disk.make_dirs("data"), "new"); }
  bool reserve_there() { return *disk.exists("data/reserve.bin"); }
  void use_pct(std::uint64_t used) { disk.use.free_bytes = (100 - used) * 10 * kMiB; }
  SizedDisk disk;
};

// storage.md 24: closes at the high mark, opens below the low one.
TEST(DiskGate, ClosesAtTheHighMarkAndOpensBelowTheLowOne) {
  Rig rig;
  DiskGate gate(rig.disk, "data", {85, 80, 0}, Logger(null_log(), "rsm"));
  for (const auto& [used, closed] : std::vector<std::pair<std::uint64_t, bool>>{
           {84, false}, {85, true}, {81, true}, {80, true}, {79, false}, {84, false}}) {
    rig.use_pct(used);
    gate.check();
    EXPECT_EQ(gate.closed(), closed) << used;
  }
}

// HD-30: made when twice its size is free.
TEST(DiskGate, MakesTheReserveWhenTwiceItsSizeIsFree) {
  Rig rig;
  DiskGate gate(rig.disk, "data", {85, 80, 4 * kMiB}, Logger(null_log(), "rsm"));
  rig.disk.use.free_bytes = 7 * kMiB;
  gate.check();
  EXPECT_FALSE(rig.reserve_there());
  rig.disk.use.free_bytes = 8 * kMiB;
  gate.check();
  EXPECT_TRUE(rig.reserve_there());
  const auto file = rig.disk.open("data/reserve.bin", disk::Open::read);
  EXPECT_EQ(*(*file)->size(), 4 * kMiB);
}

// HD-30: released once, and then the gate is closed before anybody can use the space for growth.
TEST(DiskGate, AFullVolumeReleasesTheReserveAndClosesTheGate) {
  Rig rig;
  DiskGate gate(rig.disk, "data", {100, 80, 4 * kMiB}, Logger(null_log(), "rsm"));
  gate.check();
  ASSERT_TRUE(rig.reserve_there());
  EXPECT_FALSE(gate.closed());
  EXPECT_TRUE(gate.volume_full());
  EXPECT_TRUE(gate.closed());
  EXPECT_FALSE(rig.reserve_there());
  rig.disk.use.free_bytes = 0;
  EXPECT_FALSE(gate.volume_full()) << "there is nothing left to give";
}

// HD-30: the space of the reserve is never counted as free for the gate.
TEST(DiskGate, TheSpaceOfTheReserveIsNotFreeForGrowth) {
  Rig rig;
  DiskGate gate(rig.disk, "data", {100, 80, 64 * kMiB}, Logger(null_log(), "rsm"));
  rig.disk.use.free_bytes = 60 * kMiB;
  gate.check();
  EXPECT_TRUE(gate.closed());
  rig.disk.use.free_bytes = 500 * kMiB;
  gate.check();
  EXPECT_FALSE(gate.closed());
  EXPECT_TRUE(rig.reserve_there());
}

TEST(DiskGate, AVolumeTooSmallForAReserveHasNone) {
  Rig rig;
  rig.disk.use = {24 * kMiB, 20 * kMiB};
  DiskGate gate(rig.disk, "data", {85, 80, 64 * kMiB}, Logger(null_log(), "rsm"));
  gate.check();
  EXPECT_FALSE(rig.reserve_there());
  EXPECT_FALSE(gate.closed());
}

TEST(DiskGate, AHalfMadeReserveIsMadeAgain) {
  Rig rig;
  {
    const auto file = rig.disk.open("data/reserve.bin", disk::Open::create);
    ASSERT_TRUE((*file)->truncate(kMiB));
  }
  DiskGate gate(rig.disk, "data", {85, 80, 4 * kMiB}, Logger(null_log(), "rsm"));
  EXPECT_FALSE(gate.closed());
  gate.check();
  const auto file = rig.disk.open("data/reserve.bin", disk::Open::read);
  EXPECT_EQ(*(*file)->size(), 4 * kMiB);
}

// HD-18: whoever is refused is told when the hold of a sink keeps most of the volume.
TEST(DiskGate, ARefusalNamesWhatHoldsTheVolume) {
  Rig rig;
  DiskGate gate(rig.disk, "data", {.high_pct = 90, .low_pct = 80, .reserve_bytes = kMiB},
                Logger(null_log(), "rsm"));
  EXPECT_EQ(gate.refusal("the volume is full"), "the volume is full");
  gate.set_holder("the hold keeps it");
  EXPECT_EQ(gate.refusal("the volume is full"), "the volume is full; the hold keeps it");
  gate.set_holder("");
  EXPECT_EQ(gate.refusal("the volume is full"), "the volume is full");
}

}  // namespace
}  // namespace queen::broker

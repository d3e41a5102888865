// One body over both disks, then what only the RAM disk can do.
#include "disk/disk.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "disk/ram_disk.h"

namespace queen::disk {
namespace {

class AnyDisk : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string_view(GetParam()) == "ram") {
      disk_ = std::make_unique<RamDisk>();
      root_ = "/data";
      ASSERT_TRUE(disk_->make_dirs(root_));
      return;
    }
    disk_ = make_posix_disk();
    std::string path = testing::TempDir() + "queen-disk-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  void TearDown() override {
    if (std::string_view(GetParam()) == "posix") std::filesystem::remove_all(root_);
  }
  std::unique_ptr<File> make(const std::string& name, BytesView content = "") {
    auto file = disk_->open(root_ + "/" + name, Open::create);
    EXPECT_TRUE(file);
    EXPECT_TRUE((*file)->pwrite(0, content));
    return std::move(*file);
  }
  static Bytes all_of(File& file) {
    Bytes bytes(*file.size(), '\0');
    EXPECT_EQ(*file.pread(0, bytes), bytes.size());
    return bytes;
  }

  std::unique_ptr<Disk> disk_;
  std::string root_;
};

INSTANTIATE_TEST_SUITE_P(Both, AnyDisk, testing::Values("ram", "posix"),
                         [](const auto& disk) { return std::string(disk.param); });

TEST_P(AnyDisk, ReadsBackWhatWasWritten) {
  auto file = make("a", "hello");
  ASSERT_TRUE(file->pwrite(8, "world"));
  EXPECT_EQ(all_of(*file), Bytes("hello\0\0\0world", 13));
}

TEST_P(AnyDisk, ReadsFewerBytesOnlyAtTheEnd) {
  auto file = make("a", "0123456789");
  Bytes into(6, '\0');
  EXPECT_EQ(*file->pread(2, into), 6u);
  EXPECT_EQ(into, "234567");
  EXPECT_EQ(*file->pread(7, into), 3u);
  EXPECT_EQ(*file->pread(10, into), 0u);
  EXPECT_EQ(*file->pread(99, into), 0u);
}

TEST_P(AnyDisk, TruncateCutsAndGrowsWithZeros) {
  auto file = make("a", "0123456789");
  ASSERT_TRUE(file->truncate(4));
  ASSERT_TRUE(file->truncate(6));
  EXPECT_EQ(all_of(*file), Bytes("0123\0\0", 6));
  EXPECT_TRUE(file->sync());
}

TEST_P(AnyDisk, OpenModesSayWhatMustExist) {
  EXPECT_EQ(disk_->open(root_ + "/a", Open::read).error().code, Errc::not_found);
  EXPECT_EQ(disk_->open(root_ + "/a", Open::read_write).error().code, Errc::not_found);
  EXPECT_EQ(disk_->open(root_ + "/none/a", Open::create).error().code, Errc::not_found);
  EXPECT_TRUE(disk_->open(root_ + "/a", Open::create_new));
  EXPECT_EQ(disk_->open(root_ + "/a", Open::create_new).error().code, Errc::conflict);
  EXPECT_TRUE(disk_->open(root_ + "/a", Open::create));
  EXPECT_TRUE(disk_->open(root_ + "/a", Open::read));
}

TEST_P(AnyDisk, ListsInNameOrderAndTellsDirectories) {
  make("b");
  make("a");
  ASSERT_TRUE(disk_->make_dirs(root_ + "/c/d"));
  ASSERT_TRUE(disk_->make_dirs(root_ + "/c/d"));
  const auto found = disk_->list(root_);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 3u);
  EXPECT_EQ((*found)[0].name, "a");
  EXPECT_EQ((*found)[1].name, "b");
  EXPECT_EQ((*found)[2].name, "c");
  EXPECT_TRUE((*found)[2].directory);
  EXPECT_FALSE((*found)[0].directory);
  EXPECT_EQ(disk_->list(root_ + "/none").error().code, Errc::not_found);
}

TEST_P(AnyDisk, RenameReplacesTheTarget) {
  make("a", "new");
  make("b", "old");
  ASSERT_TRUE(disk_->rename(root_ + "/a", root_ + "/b"));
  EXPECT_FALSE(*disk_->exists(root_ + "/a"));
  EXPECT_EQ(*read_file(*disk_, root_ + "/b", 10), "new");
  EXPECT_EQ(disk_->rename(root_ + "/a", root_ + "/b").error().code, Errc::not_found);
}

TEST_P(AnyDisk, RemovesFilesAndEmptyDirectories) {
  ASSERT_TRUE(disk_->make_dirs(root_ + "/d"));
  make("d/a");
  EXPECT_FALSE(disk_->remove_dir(root_ + "/d"));
  EXPECT_TRUE(disk_->remove_file(root_ + "/d/a"));
  EXPECT_EQ(disk_->remove_file(root_ + "/d/a").error().code, Errc::not_found);
  EXPECT_TRUE(disk_->remove_dir(root_ + "/d"));
  EXPECT_FALSE(*disk_->exists(root_ + "/d"));
}

TEST_P(AnyDisk, AnOpenFileOutlivesItsName) {
  auto file = make("a", "kept");
  ASSERT_TRUE(disk_->remove_file(root_ + "/a"));
  EXPECT_EQ(all_of(*file), "kept");
}

TEST_P(AnyDisk, ReplaceFileLeavesNoTemporary) {
  ASSERT_TRUE(replace_file(*disk_, root_ + "/x", "a long first version"));
  make("x.tmp", "left by a crash, longer than the rest");
  ASSERT_TRUE(replace_file(*disk_, root_ + "/x", "short"));
  EXPECT_EQ(*read_file(*disk_, root_ + "/x", 100), "short");
  EXPECT_EQ(disk_->list(root_)->size(), 1u);
}

TEST_P(AnyDisk, ReadFileRefusesWhatIsTooLong) {
  make("a", "0123456789");
  EXPECT_EQ(*read_file(*disk_, root_ + "/a", 10), "0123456789");
  EXPECT_EQ(read_file(*disk_, root_ + "/a", 9).error().code, Errc::invalid);
  EXPECT_EQ(read_file(*disk_, root_ + "/b", 9).error().code, Errc::not_found);
}

TEST_P(AnyDisk, OneHolderOfALockAtATime) {
  auto first = disk_->lock(root_ + "/LOCK");
  ASSERT_TRUE(first);
  EXPECT_EQ(disk_->lock(root_ + "/LOCK").error().code, Errc::busy);
  first->reset();
  EXPECT_TRUE(disk_->lock(root_ + "/LOCK"));
}

TEST_P(AnyDisk, VolumeHasRoom) {
  const auto use = disk_->volume(root_);
  ASSERT_TRUE(use);
  EXPECT_GT(use->total_bytes, 0u);
  EXPECT_LE(use->free_bytes, use->total_bytes);
}

TEST(PosixDisk, MakesFilesAndDirectoriesForOwnerAndGroupOnly) {
  auto disk = make_posix_disk();
  std::string path = testing::TempDir() + "queen-disk-XXXXXX";
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  const auto mask = ::umask(0);
  ASSERT_TRUE(disk->make_dirs(path + "/d"));
  ASSERT_TRUE(disk->open(path + "/d/f", Open::create));
  ::umask(mask);
  struct stat about{};
  ASSERT_EQ(::stat((path + "/d").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777u, 0750u);
  ASSERT_EQ(::stat((path + "/d/f").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777u, 0640u);
  std::filesystem::remove_all(path);
}

TEST(RamDisk, CrashKeepsOnlyWhatWasSynced) {
  RamDisk disk;
  ASSERT_TRUE(disk.make_dirs("/d"));
  ASSERT_TRUE(disk.sync_dir("/"));
  auto kept = *disk.open("/d/kept", Open::create);
  ASSERT_TRUE(kept->pwrite(0, "first"));
  ASSERT_TRUE(kept->sync());
  ASSERT_TRUE(disk.sync_dir("/d"));
  ASSERT_TRUE(kept->pwrite(2, "LOST AND LONG"));
  auto unnamed = *disk.open("/d/unnamed", Open::create);
  ASSERT_TRUE(unnamed->pwrite(0, "x"));
  ASSERT_TRUE(unnamed->sync());
  disk.crash();
  EXPECT_EQ(disk.files(), (std::map<std::string, Bytes>{{"/d/kept", "first"}}));
  EXPECT_FALSE(kept->pwrite(0, "x"));
}

TEST(RamDisk, RemovalIsUndoneByACrashBeforeTheDirectoryIsSynced) {
  RamDisk disk;
  ASSERT_TRUE(replace_file(disk, "/a", "1"));
  ASSERT_TRUE(disk.remove_file("/a"));
  disk.crash();
  EXPECT_TRUE(*disk.exists("/a"));
  ASSERT_TRUE(disk.remove_file("/a"));
  ASSERT_TRUE(disk.sync_dir("/"));
  disk.crash();
  EXPECT_FALSE(*disk.exists("/a"));
}

TEST(RamDisk, TruncateThenGrowDoesNotBringOldBytesBackAtSync) {
  RamDisk disk;
  auto file = *disk.open("/a", Open::create);
  ASSERT_TRUE(file->pwrite(0, "secret"));
  ASSERT_TRUE(file->sync());
  ASSERT_TRUE(disk.sync_dir("/"));
  ASSERT_TRUE(file->truncate(0));
  ASSERT_TRUE(file->truncate(6));
  ASSERT_TRUE(file->sync());
  disk.crash();
  EXPECT_EQ(disk.files().at("/a"), Bytes(6, '\0'));
}

TEST(RamDisk, ATornCrashKeepsSyncedBytes) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    RamDisk disk;
    SeededRandom random(seed);
    auto file = *disk.open("/a", Open::create);
    ASSERT_TRUE(file->pwrite(0, Bytes(700, 'a')));
    ASSERT_TRUE(file->sync());
    ASSERT_TRUE(disk.sync_dir("/"));
    ASSERT_TRUE(file->pwrite(700, Bytes(3000, 'b')));
    disk.crash_torn(random);
    const Bytes left = disk.files().at("/a");
    ASSERT_TRUE(left.size() == 700 || left.size() == 3700);
    EXPECT_EQ(left.substr(0, 700), Bytes(700, 'a'));
  }
}

TEST(RamDisk, FailsTheNthCallOnce) {
  RamDisk disk;
  auto file = *disk.open("/a", Open::create);
  disk.fail(RamOp::pwrite, 2, Errc::unavailable, EIO);
  EXPECT_TRUE(file->pwrite(0, "1"));
  EXPECT_EQ(file->pwrite(0, "2").error().sys_errno, EIO);
  EXPECT_TRUE(file->pwrite(1, "3"));
  EXPECT_EQ(disk.files().at("/a"), "13");
}

TEST(RamDisk, LeavesHalfOfAWriteThatFailsHalfWay) {
  RamDisk disk;
  auto file = *disk.open("/a", Open::create);
  disk.fail_half_written(2, Errc::full, ENOSPC);
  EXPECT_TRUE(file->pwrite(0, "1234"));
  EXPECT_EQ(disk.failures_left(), 1U);
  EXPECT_EQ(file->pwrite(4, "5678").error().sys_errno, ENOSPC);
  EXPECT_EQ(disk.failures_left(), 0U);
  EXPECT_EQ(disk.files().at("/a"), "123456");
  EXPECT_TRUE(file->pwrite(4, "5678"));
  EXPECT_EQ(disk.files().at("/a"), "12345678");
}

TEST(RamDisk, TellsOfEachCallThatCanFail) {
  RamDisk disk;
  std::vector<RamOp> calls;
  disk.on_call([&](RamOp op) { calls.push_back(op); });
  auto file = *disk.open("/a", Open::create);
  ASSERT_TRUE(file->pwrite(0, "1"));
  ASSERT_TRUE(file->size());
  ASSERT_TRUE(disk.list("/"));
  EXPECT_EQ(calls, (std::vector<RamOp>{RamOp::open, RamOp::pwrite, RamOp::size, RamOp::list}));
}

TEST(RamDisk, FillsUpAndHasRoomAgain) {
  RamDisk disk;
  auto file = *disk.open("/a", Open::create);
  ASSERT_TRUE(file->pwrite(0, "12345"));
  disk.set_free_bytes(3);
  EXPECT_EQ(file->pwrite(5, "6789").error().code, Errc::full);
  EXPECT_EQ(*file->size(), 8u);
  EXPECT_TRUE(file->pwrite(0, "abcde"));
  ASSERT_TRUE(file->truncate(5));
  EXPECT_EQ(disk.volume("/")->free_bytes, 3u);
  EXPECT_TRUE(file->pwrite(5, "678"));
}

TEST(RamDisk, NothingWorksAfterThePowerWentOff) {
  RamDisk disk;
  disk.power_off_after(1);
  auto file = disk.open("/a", Open::create);
  ASSERT_TRUE(file);
  EXPECT_FALSE((*file)->pwrite(0, "1"));
  EXPECT_FALSE(disk.list("/"));
  disk.crash();
  EXPECT_TRUE(disk.list("/")->empty());
}

TEST(RamDisk, ACarelessCrashKeepsEachChangeOfNamesOrNot) {
  bool seen[4] = {};
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    RamDisk disk;
    SeededRandom random(seed);
    auto old = *disk.open("/old", Open::create);
    ASSERT_TRUE(old->pwrite(0, "x"));
    ASSERT_TRUE(old->sync());
    ASSERT_TRUE(disk.sync_dir("/"));
    ASSERT_TRUE(disk.open("/a", Open::create));
    ASSERT_TRUE(disk.rename("/old", "/new"));
    disk.crash_any(random);
    const auto files = disk.files();
    // A rename happened or did not: the file has one name.
    ASSERT_NE(files.contains("/old"), files.contains("/new"));
    ASSERT_EQ(files.contains("/new") ? files.at("/new") : files.at("/old"), "x");
    seen[(files.contains("/a") ? 1 : 0) + (files.contains("/new") ? 2 : 0)] = true;
  }
  for (const bool combination : seen) EXPECT_TRUE(combination);
}

TEST(RamDisk, ACarelessCrashMayLoseAllBehindAByteAndNothingThatWasSynced) {
  bool cut_in_a_sector = false;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    RamDisk disk;
    SeededRandom random(seed);
    auto file = *disk.open("/a", Open::create);
    ASSERT_TRUE(disk.sync_dir("/"));
    ASSERT_TRUE(file->pwrite(0, "synced"));
    ASSERT_TRUE(file->sync());
    ASSERT_TRUE(file->pwrite(6, std::string(300, 'n')));
    disk.crash_any(random);
    const Bytes left = disk.files().at("/a");
    ASSERT_TRUE(left.starts_with("synced"));
    cut_in_a_sector = cut_in_a_sector || (left.size() > 6 && left.size() < 306);
  }
  EXPECT_TRUE(cut_in_a_sector);
}

TEST(RamDisk, ACopyIsSyncedAsFarAndGoesItsOwnWay) {
  RamDisk disk;
  ASSERT_TRUE(disk.make_dirs("/d"));
  auto file = *disk.open("/d/a", Open::create);
  ASSERT_TRUE(disk.sync_dir("/"));
  ASSERT_TRUE(disk.sync_dir("/d"));
  ASSERT_TRUE(file->pwrite(0, "1"));
  ASSERT_TRUE(file->sync());
  ASSERT_TRUE(file->pwrite(1, "2"));
  const auto copy = disk.copy();
  EXPECT_EQ(copy->files(), disk.files());
  ASSERT_TRUE(file->pwrite(0, "3"));
  EXPECT_EQ(copy->files().at("/d/a"), "12");
  copy->crash();
  EXPECT_EQ(copy->files().at("/d/a"), "1");
  EXPECT_EQ(disk.files().at("/d/a"), "32");
}

TEST(RamDisk, SaysWhenItIsAboutToChange) {
  RamDisk disk;
  int looks = 0;
  std::size_t files = 9;
  disk.before_change([&] {
    ++looks;
    files = disk.copy()->files().size();
  });
  ASSERT_TRUE(disk.open("/a", Open::create));
  EXPECT_EQ(looks, 1);
  EXPECT_EQ(files, 0u);  // before, not after
  ASSERT_TRUE(disk.list("/"));
  EXPECT_EQ(looks, 1);
}

}  // namespace
}  // namespace queen::disk

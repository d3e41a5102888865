// Mapped files, and the end of a process that cannot read one: each in a child process of its own.
#include "disk/mapped_reads.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <vector>

#include "disk/disk.h"
#include "disk/ram_disk.h"

namespace queen::disk {
namespace {

constexpr std::size_t kPage = 4096;

std::string scratch_file(const std::string& name) {
  const auto directory =
      std::filesystem::path(testing::TempDir()) / ("queen-map-" + std::to_string(getpid()));
  std::filesystem::create_directories(directory);
  return directory / name;
}

void write_file(Disk& disk, const std::string& path, BytesView bytes) {
  auto file = disk.open(path, Open::create);
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->truncate(0));
  ASSERT_TRUE((*file)->pwrite(0, bytes));
}

TEST(Map, ShowsTheBytesOfAFileOnEitherDisk) {
  const std::string path = scratch_file("either");
  RamDisk ram;
  ASSERT_TRUE(ram.make_dirs(std::filesystem::path(path).parent_path()));
  const auto posix = make_posix_disk();
  for (Disk* disk : {static_cast<Disk*>(&ram), posix.get()}) {
    write_file(*disk, path, "some bytes");
    const auto mapping = disk->map(path);
    ASSERT_TRUE(mapping) << mapping.error().what;
    EXPECT_EQ((*mapping)->bytes(), "some bytes");
    EXPECT_EQ((*mapping)->path(), path);
    (*mapping)->let_go();
    EXPECT_EQ((*mapping)->bytes(), "some bytes");
    ASSERT_TRUE(disk->remove_file(path));
    EXPECT_EQ((*mapping)->bytes(), "some bytes");  // whoever maps a file keeps it
    EXPECT_EQ(disk->map(path).error().code, Errc::not_found);
    write_file(*disk, path, "");
    const auto empty = disk->map(path);
    ASSERT_TRUE(empty);
    EXPECT_TRUE((*empty)->bytes().empty());
  }
}

// CR-4
TEST(BusErrors, AReadOfAMappedFileThatWasCutEndsTheProcessWithOneLine) {
  const std::string path = scratch_file("cut");
  const auto disk = make_posix_disk();
  write_file(*disk, path, Bytes(3 * kPage, 'x'));
  const auto read_after_cut = [&] {
    end_process_on_bus_errors();
    const auto mapping = disk->map(path);
    std::filesystem::resize_file(path, 100);
    const ReadingMapped reading(**mapping);
    const volatile char* bytes = (*mapping)->bytes().data();
    (void)bytes[2 * kPage + 7];
    std::_Exit(0);
  };
  EXPECT_EXIT(read_after_cut(), testing::ExitedWithCode(1),
              "^FATAL: bus error while reading .*/cut at byte 8199: [^\n]*\n$");
}

// CR-4
TEST(BusErrors, AreNoticedWithoutADeclarationToo) {
  const std::string path = scratch_file("undeclared");
  const auto disk = make_posix_disk();
  write_file(*disk, path, Bytes(kPage, 'x'));
  const auto read_after_cut = [&] {
    end_process_on_bus_errors();
    const auto mapping = disk->map(path);
    std::filesystem::resize_file(path, 0);
    const volatile char* bytes = (*mapping)->bytes().data();
    (void)bytes[0];
    std::_Exit(0);
  };
  EXPECT_EXIT(read_after_cut(), testing::ExitedWithCode(1), "^FATAL: bus error while reading a mapped file");
}

// CR-4: a range that nobody may read.
class Nowhere final : public Mapping {
 public:
  BytesView bytes() const override { return {static_cast<const char*>(at_), kPage}; }
  const char* path() const override { return "nowhere"; }

 private:
  void* at_ = ::mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

TEST(BusErrors, ASegmentationFaultInsideADeclaredRangeIsTreatedTheSame) {
  const auto read_nothing = [] {
    end_process_on_bus_errors();
    const Nowhere mapping;
    const ReadingMapped reading(mapping);
    const volatile char* bytes = mapping.bytes().data();
    (void)bytes[3];
    std::_Exit(0);
  };
  EXPECT_EXIT(read_nothing(), testing::ExitedWithCode(1), "FATAL: bus error while reading nowhere at byte 3");
}

TEST(BusErrors, ASegmentationFaultElsewhereEndsTheProcessAsBefore) {
  const auto read_nothing = [] {
    std::signal(SIGSEGV, SIG_DFL);
    end_process_on_bus_errors();
    const Nowhere mapping;
    {
      const ReadingMapped over(mapping);
    }
    const volatile char* bytes = mapping.bytes().data();
    (void)bytes[3];
    std::_Exit(0);
  };
  EXPECT_EXIT(read_nothing(), testing::KilledBySignal(SIGSEGV), "");
}

// CR-4: at least 64 readers at a time are told apart.
TEST(BusErrors, SixtyFourReadersAtATimeHaveTheirOwnSlot) {
  const std::string path = scratch_file("many");
  const auto disk = make_posix_disk();
  write_file(*disk, path, Bytes(kPage, 'x'));
  const auto read_in_the_crowd = [&] {
    end_process_on_bus_errors();
    const Nowhere others;
    std::vector<std::unique_ptr<ReadingMapped>> held;
    for (int i = 0; i < 63; ++i) held.push_back(std::make_unique<ReadingMapped>(others));
    const auto mapping = disk->map(path);
    std::filesystem::resize_file(path, 0);
    const ReadingMapped reading(**mapping);
    const volatile char* bytes = (*mapping)->bytes().data();
    (void)bytes[9];
    std::_Exit(0);
  };
  EXPECT_EXIT(read_in_the_crowd(), testing::ExitedWithCode(1), "/many at byte 9:");
}

}  // namespace
}  // namespace queen::disk

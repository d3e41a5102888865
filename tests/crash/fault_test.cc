// A call of the disk fails once: the node goes on or stops, and whatever it answered is there when it is
// opened again; what it refused is not.
#include <execinfo.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <set>

#include "long_run.h"
#include "workload.h"

namespace queen::crash {
namespace {

using disk::RamOp;

struct Fault {
  RamOp op = RamOp::pwrite;
  Errc code = Errc::unavailable;
  int sys_errno = EIO;
  bool half_written = false;
};

const std::vector<RamOp> kOperations{RamOp::open,   RamOp::pread,       RamOp::pwrite,     RamOp::sync,
                                     RamOp::size,   RamOp::truncate,    RamOp::list,       RamOp::make_dirs,
                                     RamOp::rename, RamOp::remove_file, RamOp::remove_dir, RamOp::sync_dir};

std::vector<Fault> errors() {
  std::vector<Fault> faults;
  for (const RamOp op : kOperations) faults.push_back({op, Errc::unavailable, EIO});
  return faults;
}
std::vector<Fault> full_volumes() {
  std::vector<Fault> faults;
  for (const RamOp op : {RamOp::open, RamOp::pwrite, RamOp::make_dirs, RamOp::rename, RamOp::truncate})
    faults.push_back({op, Errc::full, ENOSPC});
  return faults;
}
std::vector<Fault> short_writes() {
  return {{RamOp::pwrite, Errc::unavailable, EIO, true}, {RamOp::pwrite, Errc::full, ENOSPC, true}};
}

// The directory that a node is given is there.
void make_directory(disk::RamDisk& disk) {
  ASSERT_TRUE(disk.make_dirs("/data"));
  ASSERT_TRUE(disk.sync_dir("/"));
}
void run_script(Workload& work) {
  if (work.start()) work.run_every_kind();
}

// The calls of each operation that the script makes, each by the way through the program that leads to it.
using CallPaths = std::map<RamOp, std::vector<std::uint64_t>>;
CallPaths call_paths(const Shape& shape) {
  CallPaths paths;
  disk::RamDisk disk;
  make_directory(disk);
  Workload work(disk, shape.options, 3);
  disk.on_call([&](RamOp op) {
    std::array<void*, 48> frames{};
    const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
    paths[op].push_back(xxh3_64({reinterpret_cast<const char*>(frames.data()),  // addresses only
                                 static_cast<std::size_t>(depth) * sizeof(void*)}));
  });
  run_script(work);
  return paths;
}

enum class Calls : bool {
  of_every_path,  // the first call and the last one that each way through the program leads to
  all,
};

// Which calls fail, counted from the start of the script.
std::set<std::uint64_t> chosen(const std::vector<std::uint64_t>& paths, Calls calls) {
  std::set<std::uint64_t> numbers;
  std::map<std::uint64_t, std::uint64_t> last;
  for (std::uint64_t nth = 1; nth <= paths.size(); ++nth) {
    const auto [known, first] = last.insert_or_assign(paths[nth - 1], nth);
    if (first || calls == Calls::all) numbers.insert(nth);
  }
  for (const auto& [path, nth] : last) numbers.insert(nth);
  return numbers;
}

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

void fail_once(const Shape& shape, const Fault& fault, std::uint64_t nth) {
  disk::RamDisk disk;
  make_directory(disk);
  Workload work(disk, shape.options, 3);
  work.reads = Reads::may_fail;
  if (fault.half_written) {
    disk.fail_half_written(nth, fault.code, fault.sys_errno);
  } else {
    disk.fail(fault.op, nth, fault.code, fault.sys_errno);
  }
  run_script(work);
  EXPECT_EQ(disk.failures_left(), 0U);
  EXPECT_EQ(work.wrong(), "");
  work.node().kill();
  for (int variant = 0; variant < 3; ++variant)
    if (!testing::Test::HasFailure()) reopen_and_check(disk, shape.options, work, variant);
}

// Returns how many calls failed.
std::uint64_t fail_each(const std::vector<Fault>& faults, Calls calls) {
  std::uint64_t failed = 0;
  for (const Shape& shape : shapes()) {
    CallPaths paths = call_paths(shape);
    for (const Fault& fault : faults) {
      for (const std::uint64_t nth : chosen(paths[fault.op], calls)) {
        ++failed;
        fail_once(shape, fault, nth);
        if (!testing::Test::HasFailure()) continue;
        ADD_FAILURE() << shape.name << ": call " << nth << " of operation " << static_cast<int>(fault.op)
                      << (fault.half_written ? ", half written" : "");
        return failed;
      }
    }
  }
  return failed;
}

// DUR-10, GC-9: no operation is left out.
TEST(Faults, AnyCallThatFailsOnceLosesNothingThatWasAnswered) {
  const std::uint64_t failed = fail_each(errors(), Calls::of_every_path);
  std::printf("calls that failed: %llu\n", static_cast<unsigned long long>(failed));
  EXPECT_GT(failed, 1'000u);
}

TEST(Faults, AFullVolumeRefusesAndNothingRefusedExists) {
  const std::uint64_t failed = fail_each(full_volumes(), Calls::of_every_path);
  std::printf("calls on a full volume: %llu\n", static_cast<unsigned long long>(failed));
  EXPECT_GT(failed, 500u);
}

TEST(Faults, AWriteThatEndsHalfWayLeavesNothingThatWasRefused) {
  const std::uint64_t failed = fail_each(short_writes(), Calls::of_every_path);
  std::printf("writes that ended half way: %llu\n", static_cast<unsigned long long>(failed));
  EXPECT_GT(failed, 300u);
}

// What is sampled above is all that a node does with a disk.
TEST(Faults, TheScriptUsesEveryOperation) {
  std::map<RamOp, std::size_t> ways;
  std::size_t calls = 0;
  for (const Shape& shape : shapes()) {
    for (const auto& [op, paths] : call_paths(shape)) {
      ways[op] += std::set<std::uint64_t>(paths.begin(), paths.end()).size();
      calls += paths.size();
    }
  }
  std::size_t sum = 0;
  for (const RamOp op : kOperations) {
    EXPECT_GT(ways[op], 0U) << static_cast<int>(op);
    sum += ways[op];
  }
  std::printf("%zu calls of the disk by %zu ways through the program\n", calls, sum);
  EXPECT_GT(sum, 500U);
}

class EveryCall : public testing::Test {
 public:
  void TestBody() override {
    std::uint64_t failed = 0;
    for (const auto& faults : {errors(), full_volumes(), short_writes()})
      if (!HasFailure()) failed += fail_each(faults, Calls::all);
    std::printf("calls that failed: %llu\n", static_cast<unsigned long long>(failed));
  }
};

// The last write before the volume is full is a short one. Space comes back, as it does when retention frees
// some.
TEST(Faults, AVolumeThatIsFullAtAnyByteRefusesAndGoesOnOnceThereIsRoom) {
  std::uint64_t refused = 0;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    for (std::uint64_t room = 0; room < 30'000; room += 691) {
      SCOPED_TRACE(room);
      disk::RamDisk disk;
      make_directory(disk);
      Workload work(disk, shape.options, 3);
      disk.set_free_bytes(room);
      run_script(work);
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

void register_every_call() {
  testing::RegisterTest("Faults", "EveryCallOfEveryOperation", nullptr, nullptr, __FILE__, __LINE__,
                        []() -> testing::Test* { return new EveryCall; });
}

}  // namespace queen::crash

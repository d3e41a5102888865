#include "app/heap_trim.h"

#include <gtest/gtest.h>

namespace queen::app {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;

struct Heap {
  std::uint64_t resident = 100 * kMiB;
  std::uint64_t after_trim = 100 * kMiB;
  int trims = 0;
  HeapTrim trim{[this] { return resident; },
                [this] {
                  ++trims;
                  resident = after_trim;
                }};
};

TEST(HeapTrim, WaitsForTheGrowthToEnd) {
  Heap heap;
  EXPECT_FALSE(heap.trim.tick());
  heap.resident = 150 * kMiB;
  EXPECT_FALSE(heap.trim.tick());  // growing
  heap.after_trim = 120 * kMiB;
  EXPECT_TRUE(heap.trim.tick());  // it stands still
  EXPECT_FALSE(heap.trim.tick());
  EXPECT_EQ(heap.trims, 1);
}

TEST(HeapTrim, DoesNotWaitForEver) {
  Heap heap;
  heap.trim.tick();
  heap.after_trim = 180 * kMiB;
  heap.resident = 190 * kMiB;  // above a quarter and 64 MiB more
  EXPECT_TRUE(heap.trim.tick());
}

TEST(HeapTrim, LeavesAHeapAloneThatHardlyGrew) {
  Heap heap;
  heap.trim.tick();
  heap.resident = 110 * kMiB;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(heap.trim.tick());
}

TEST(HeapTrim, CountsFromWhatIsLeftWhenMemoryWentByItself) {
  Heap heap;
  heap.trim.tick();
  heap.resident = 50 * kMiB;
  heap.trim.tick();
  heap.resident = 80 * kMiB;
  EXPECT_FALSE(heap.trim.tick());
  EXPECT_TRUE(heap.trim.tick());
}

TEST(HeapTrim, KnowsTheProcess) {
  EXPECT_GT(resident_anonymous_bytes(), 1000u);
}

}  // namespace
}  // namespace queen::app

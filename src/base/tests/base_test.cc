#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "base/bytes.h"
#include "base/executor.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/task.h"

namespace queen {
namespace {

TEST(ByteReader, StopsAtTheFirstFieldThatDoesNotFit) {
  Bytes bytes;
  append_le<std::uint32_t>(bytes, 5);
  append_sized16(bytes, "ab");
  ByteReader reader(bytes);
  EXPECT_EQ(reader.le<std::uint32_t>(), 5U);
  EXPECT_EQ(reader.sized16(), "ab");
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(reader.le<std::uint64_t>(), 0U);
  EXPECT_FALSE(reader.ok());
}

TEST(Bytes, BigEndianKeysSortAsNumbers) {
  Bytes low;
  Bytes high;
  append_be<std::uint64_t>(low, 255);
  append_be<std::uint64_t>(high, 256);
  EXPECT_LT(low, high);
  EXPECT_EQ(load_be<std::uint64_t>(high.data()), 256U);
}

TEST(Hash, StreamEqualsOneShot) {
  Xxh3Stream stream;
  stream.update("hello ");
  stream.update("world");
  EXPECT_EQ(stream.digest(), xxh3_64("hello world"));
  EXPECT_EQ(xxh3_64(""), 0x2D06800538D394C2ULL);  // XXH3 specification, empty input, seed 0
}

TEST(Uuid, RoundTripsAndCarriesVersionSevenAndTime) {
  SeededRandom random(7);
  const Uuid id = make_uuid_v7(1'794'042'291'004'417, random);
  EXPECT_EQ(Uuid::parse(id.str()), id);
  EXPECT_EQ(id.str()[14], '7');
  const Uuid later = make_uuid_v7(1'794'042'291'005'417, random);
  EXPECT_LT(id, later);
  EXPECT_FALSE(Uuid::parse("not-a-uuid"));
}

TEST(ThreadExecutor, RunUntilLooksAgainAfterEachPieceOfWork) {
  SystemClock clock;
  ThreadExecutor executor("test", clock);
  std::mutex held_by_done;
  int pieces = 0;
  // `done` takes a lock under which others post, which must not end in a deadlock.
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      const std::lock_guard lock(held_by_done);
      executor.post([&] {
        const std::lock_guard in_piece(held_by_done);
        ++pieces;
      });
    }
  });
  executor.run_until([&] {
    const std::lock_guard lock(held_by_done);
    return pieces == 100;
  });
  other.join();
  EXPECT_EQ(pieces, 100);
  executor.run_until([] { return true; });
}

TEST(ManualExecutor, RunUntilMovesTheClockFromTimerToTimer) {
  ManualClock clock;
  ManualExecutor executor(clock);
  const std::int64_t start = clock.mono_us();
  int fired = 0;
  executor.post_at(start + 500, [&] { ++fired; });
  executor.post_at(start + 900, [&] { ++fired; });
  executor.run_until([&] { return fired == 1; });
  EXPECT_EQ(clock.mono_us(), start + 500);
  executor.stop();
  EXPECT_TRUE(executor.idle());
}

TEST(ThreadExecutor, RunsWorkInOrderAndTimersWhenDue) {
  SystemClock clock;
  ThreadExecutor executor("test", clock);
  std::mutex mutex;
  std::condition_variable done;
  std::vector<int> order;
  const auto add = [&](int n) {
    std::lock_guard lock(mutex);
    order.push_back(n);
    done.notify_one();
  };
  executor.post_after(2000, [&] { add(3); });
  executor.post([&] { add(1); });
  executor.post([&] { add(2); });
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return order.size() == 3; });
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

Task<int> twice(Executor& executor, int value) {
  co_await sleep_for(executor, 1000);
  co_return value * 2;
}

Task<void> add_up(Executor& executor, int& out) {
  const int first = co_await twice(executor, 4);
  const int second = co_await callback_result<int>(executor, [](auto done) { done(5); });
  out = first + second;
}

TEST(Task, ResumesOnTheExecutorInVirtualTime) {
  ManualClock clock;
  ManualExecutor executor(clock);
  int out = 0;
  bool done = false;
  spawn(executor, add_up(executor, out), [&] { done = true; });
  executor.run_ready();
  EXPECT_FALSE(done);
  executor.run_for(1000);
  EXPECT_TRUE(done);
  EXPECT_EQ(out, 13);
}

Task<void> wait_on(Signal& signal, int& state) {
  state = co_await signal.wait_for(1'000'000) ? 1 : 2;
}

TEST(Signal, WakesWaitersOnceByEitherWay) {
  ManualClock clock;
  ManualExecutor executor(clock);
  Signal signal(executor);
  int set = 0;
  int timed_out = 0;
  spawn(executor, wait_on(signal, timed_out));
  executor.run_for(1'000'000);
  EXPECT_EQ(timed_out, 2);
  spawn(executor, wait_on(signal, set));
  executor.run_ready();
  signal.set();
  executor.run_for(2'000'000);
  EXPECT_EQ(set, 1);
}

}  // namespace
}  // namespace queen

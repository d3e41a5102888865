#include "broker/log_clock.h"

#include <gtest/gtest.h>

namespace queen::broker {
namespace {

using Follow = LogClock::Follow;
constexpr std::int64_t kHourUs = 3'600'000'000;

// HD-27
TEST(LogClock, GoesOnAtRealSpeedWhenTheWallClockGoesBack) {
  ManualClock clock;
  LogClock log(clock, Follow::monotonic);
  const std::int64_t before = log.now_us();
  clock.jump_wall(-kHourUs);
  clock.advance(5000);
  EXPECT_EQ(log.now_us(), before + 5000);
  EXPECT_EQ(log.now_us(), before + 5001);
}

// HD-27: the lead is a figure.
TEST(LogClock, TellsHowFarItIsAheadOfTheWallClock) {
  ManualClock clock;
  LogClock log(clock, Follow::monotonic);
  EXPECT_EQ(log.lead_us(), 0);
  log.now_us();
  EXPECT_EQ(log.lead_us(), 0);
  clock.jump_wall(-kHourUs);
  EXPECT_EQ(log.lead_us(), kHourUs);
  clock.advance(1'000'000);
  EXPECT_EQ(log.lead_us(), kHourUs);
  clock.jump_wall(2 * kHourUs);
  EXPECT_EQ(log.lead_us(), 0);
}

TEST(LogClock, AStampThatWasAppliedCountsAsLeadToo) {
  ManualClock clock;
  LogClock log(clock, Follow::monotonic);
  log.raise(clock.wall_us() + kHourUs);
  EXPECT_EQ(log.lead_us(), kHourUs);
  EXPECT_GT(log.now_us(), clock.wall_us() + kHourUs);
}

// QUEEN_RAFT_CLOCK=wall
TEST(LogClock, FollowingTheWallClockStandsNearlyStillUntilItCatchesUp) {
  ManualClock clock;
  LogClock log(clock, Follow::wall);
  const std::int64_t before = log.now_us();
  clock.jump_wall(-kHourUs);
  clock.advance(5000);
  EXPECT_EQ(log.now_us(), before + 1);
  EXPECT_EQ(log.lead_us(), kHourUs - 5000 + 1);
  clock.jump_wall(2 * kHourUs);
  EXPECT_EQ(log.now_us(), clock.wall_us());
}

}  // namespace
}  // namespace queen::broker

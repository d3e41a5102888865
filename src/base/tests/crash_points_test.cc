#include "base/crash_points.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

namespace queen {
namespace {

struct Rig {
  std::vector<std::string> fired;
  CrashPoints points{[this](std::string_view point) { fired.emplace_back(point); }};
};

TEST(CrashPoints, FireOnTheirNthTimeOnly) {
  Rig rig;
  ASSERT_TRUE(rig.points.arm("log.appended:2, seg.rolled"));
  rig.points.reach(CrashPoint::log_appended);
  rig.points.reach(CrashPoint::log_flushed);
  EXPECT_TRUE(rig.fired.empty());
  rig.points.reach(CrashPoint::log_appended);
  EXPECT_EQ(rig.fired, std::vector<std::string>{"log.appended"});
  rig.points.reach(CrashPoint::log_appended);
  rig.points.reach(CrashPoint::seg_rolled);
  EXPECT_EQ(rig.fired, (std::vector<std::string>{"log.appended", "seg.rolled"}));
}

TEST(CrashPoints, EveryPointCanBeArmedByItsName) {
  for (std::size_t i = 0; i < kCrashPoints; ++i) {
    Rig rig;
    const auto point = static_cast<CrashPoint>(i);
    ASSERT_TRUE(rig.points.arm(name_of(point))) << name_of(point);
    rig.points.reach(point);
    EXPECT_EQ(rig.fired, std::vector<std::string>{std::string(name_of(point))});
  }
}

// BR-20: the text lists all points.
TEST(CrashPoints, AnUnknownPointIsRefusedWithTheListOfAll) {
  for (const char* list :
       {"log.apended", "log.appended:0", "log.appended:x", "log.appended,,", ":1", "a:1:2"}) {
    Rig rig;
    const auto armed = rig.points.arm(list);
    ASSERT_FALSE(armed) << list;
    for (std::size_t i = 0; i < kCrashPoints; ++i)
      EXPECT_NE(armed.error().what.find(name_of(static_cast<CrashPoint>(i))), std::string::npos) << list;
  }
}

TEST(CrashPointsDeathTest, TheProcessSaysSoAndIsKilled) {
  EXPECT_EXIT(kill_this_process("log.appended"), testing::KilledBySignal(SIGKILL),
              "fault: crash point log.appended fired");
}

}  // namespace
}  // namespace queen

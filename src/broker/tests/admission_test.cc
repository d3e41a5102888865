#include "broker/admission.h"

#include <gtest/gtest.h>

#include <vector>

namespace queen::broker {
namespace {

struct Rig {
  explicit Rig(std::uint64_t bytes_max)
      : admission({bytes_max, 15'000'000}, timers, random, Logger(null_log(), "rsm")) {}
  void enter(int name, std::uint64_t bytes) {
    admission.enter(bytes, [this, name](std::optional<Admission::Permit> permit) {
      (permit ? admitted : refused).push_back(name);
      if (permit) permits.push_back(std::move(*permit));
    });
  }

  // Whoever is let in by this adds to `permits` meanwhile.
  void give_back() { const auto given = std::exchange(permits, {}); }

  ManualClock clock;
  ManualExecutor timers{clock};
  SeededRandom random{7};
  std::vector<int> admitted, refused;
  std::vector<Admission::Permit> permits;
  Admission admission;
};

TEST(Admission, AdmitsAtOnceWhatFits) {
  Rig rig(100);
  rig.enter(1, 60);
  rig.enter(2, 40);
  EXPECT_EQ(rig.admitted, (std::vector<int>{1, 2}));
  EXPECT_EQ(rig.admission.figures().held_bytes, 100U);
}

// storage.md 24: first come, first served; a small one does not overtake a large one.
TEST(Admission, LetsInThoseWhoWaitInTheOrderTheyCame) {
  Rig rig(100);
  rig.enter(1, 60);
  rig.enter(2, 50);
  rig.enter(3, 10);
  EXPECT_EQ(rig.admitted, std::vector<int>{1});
  rig.give_back();
  EXPECT_EQ(rig.admitted, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(rig.admission.figures().waited, 2U);
}

TEST(Admission, RefusesAfterTheHoldAQuarterMoreOrLess) {
  Rig rig(100);
  rig.enter(0, 100);
  for (int name = 1; name <= 50; ++name) rig.enter(name, 10);
  rig.timers.run_for(11'000'000);
  EXPECT_TRUE(rig.refused.empty());
  rig.timers.run_for(2'000'000);
  EXPECT_FALSE(rig.refused.empty());
  EXPECT_LT(rig.refused.size(), 50U);
  rig.timers.run_for(6'000'000);
  EXPECT_EQ(rig.refused.size(), 50U);
  EXPECT_EQ(rig.admission.figures().refused, 50U);
  EXPECT_EQ(rig.admission.figures().waiting, 0U);
}

// BP-2
TEST(Admission, ACommandLargerThanTheBudgetGoesWhenNothingElseHoldsAnyOfIt) {
  Rig rig(100);
  rig.enter(1, 10);
  rig.enter(2, 1000);
  EXPECT_EQ(rig.admitted, std::vector<int>{1});
  rig.give_back();
  EXPECT_EQ(rig.admitted, (std::vector<int>{1, 2}));
  rig.enter(3, 1);
  EXPECT_EQ(rig.admitted, (std::vector<int>{1, 2}));
}

TEST(Admission, WhoeverStandsBehindOneThatGaveUpIsLetIn) {
  Rig rig(100);
  rig.enter(1, 60);
  rig.enter(2, 90);
  rig.timers.run_for(10'000'000);
  rig.enter(3, 30);
  rig.timers.run_for(9'000'000);
  EXPECT_EQ(rig.refused, std::vector<int>{2});
  EXPECT_EQ(rig.admitted, (std::vector<int>{1, 3}));
}

TEST(Admission, OfNoBudgetIsOff) {
  Rig rig(0);
  for (int name = 0; name < 3; ++name) rig.enter(name, 1ULL << 40);
  EXPECT_EQ(rig.admitted.size(), 3U);
}

TEST(Admission, ClosingRefusesWhoeverWaits) {
  Rig rig(100);
  rig.enter(1, 100);
  rig.enter(2, 1);
  rig.admission.close();
  rig.enter(3, 1);
  EXPECT_EQ(rig.refused, (std::vector<int>{2, 3}));
  rig.give_back();  // may outlive the budget's end
  EXPECT_EQ(rig.admission.figures().held_bytes, 0U);
}

}  // namespace
}  // namespace queen::broker

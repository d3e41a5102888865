#include "base/planted_bugs.h"

#include <gtest/gtest.h>

#include <set>

namespace queen {
namespace {

TEST(PlantedBugs, EachHasANameOfItsOwnByWhichItIsFound) {
  std::set<std::string_view> names;
  for (const PlantedBug bug : kAllPlantedBugs) {
    EXPECT_TRUE(names.insert(name_of(bug)).second) << name_of(bug);
    EXPECT_EQ(planted_bug_named(name_of(bug)), bug);
  }
  EXPECT_EQ(names.size(), kPlantedBugs);
  EXPECT_FALSE(planted_bug_named("no_bug"));
}

#ifdef QUEEN_PLANTED_BUGS
TEST(PlantedBugs, AreThereOneAtATimeAndOnlyWhenPlanted) {
  for (const PlantedBug bug : kAllPlantedBugs) EXPECT_FALSE(planted(bug)) << name_of(bug);
  for (const PlantedBug bug : kAllPlantedBugs) {
    plant(bug);
    for (const PlantedBug other : kAllPlantedBugs) EXPECT_EQ(planted(other), other == bug);
  }
  plant(std::nullopt);
  for (const PlantedBug bug : kAllPlantedBugs) EXPECT_FALSE(planted(bug)) << name_of(bug);
}
#else
TEST(PlantedBugs, AreNotInAnOrdinaryBuild) {
  constexpr bool any = [] {
    for (const PlantedBug bug : kAllPlantedBugs)
      if (planted(bug)) return true;
    return false;
  }();
  static_assert(!any);
  EXPECT_FALSE(any);
}
#endif

}  // namespace
}  // namespace queen

// Random histories against the contract: leases, cursors, dedup, dead letters, order per partition, with
// restarts in between (issue: the property test of the message plane). QUEEN_HISTORIES sets how many,
// QUEEN_HISTORY_SEED where they start.
#include "history.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <string>

namespace rc {

template <>
struct Arbitrary<queen::history::Step> {
  static Gen<queen::history::Step> arbitrary() {
    using queen::history::Step;
    const auto small = [] { return gen::inRange(0, 64); };
    // Pushes, pops and acks are what most of a history is made of.
    const auto kind = gen::weightedElement<int>(
        {{6, 0}, {8, 1}, {9, 2}, {5, 3}, {2, 4}, {2, 5}, {1, 6}, {1, 7}, {1, 8}, {1, 9}});
    return gen::build<Step>(gen::set(&Step::kind, kind), gen::set(&Step::a, small()),
                            gen::set(&Step::b, small()), gen::set(&Step::c, small()),
                            gen::set(&Step::d, small()));
  }
};

}  // namespace rc

namespace queen::history {

std::ostream& operator<<(std::ostream& out, const Step& step) {
  return out << to_string(step);
}

namespace {

TEST(Histories, NothingIsAnsweredThatTheContractDoesNotAllow) {
  const bool held = rc::check("every answer of a random history is one that the contract allows", [] {
    const auto steps = *rc::gen::container<std::vector<Step>>(rc::gen::arbitrary<Step>());
    History history;
    const std::string wrong = history.run(steps);
    if (!wrong.empty()) RC_FAIL(wrong);
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace queen::history

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* histories = std::getenv("QUEEN_HISTORIES");
  const char* seed = std::getenv("QUEEN_HISTORY_SEED");
  const std::string parameters =
      fmt::format("max_success={} max_size=60 seed={}", histories != nullptr ? histories : "10000",
                  seed != nullptr ? seed : "1");
  setenv("RC_PARAMS", parameters.c_str(), 0);
  return RUN_ALL_TESTS();
}

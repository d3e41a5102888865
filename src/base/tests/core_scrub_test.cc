// Secrets that a core file must not hold.
#include "base/core_scrub.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace queen {
namespace {

// Made at run time, so that the program's own text does not hold it.
std::string made_secret(char first) {
  std::string secret;
  for (int i = 0; i < 40; ++i) secret.push_back(static_cast<char>(first + (i * 7) % 26));
  return secret;
}

TEST(CoreScrub, OverwritesEveryCopyAndNothingElse) {
  const std::string secret = made_secret('a');
  std::string kept(secret);
  kept[39] = '!';  // one byte away from being it
  auto copy = std::make_unique<std::string>("before " + secret + " after");
  // Across the edges of the windows in which memory is read.
  std::vector<std::string> many(500, std::string(1'000, '.') + secret);
  keep_out_of_core(secret);
  EXPECT_GE(scrub_secrets(), 502U);
  EXPECT_EQ(*copy, "before " + std::string(40, 'x') + " after");
  EXPECT_EQ(secret, std::string(40, 'x'));
  for (const std::string& one : many) ASSERT_EQ(one, std::string(1'000, '.') + std::string(40, 'x'));
  EXPECT_EQ(kept[39], '!');
  EXPECT_NE(kept.substr(0, 39), std::string(39, 'x'));
  EXPECT_EQ(scrub_secrets(), 0U) << "the table of secrets is itself no copy";
}

// What is left of a string in a freed block begins behind the allocator's own words.
TEST(CoreScrub, OverwritesTheTailOfAFreedCopy) {
  const std::string secret = made_secret('A');
  std::string tail = std::string(16, '\1') + secret.substr(16);
  keep_out_of_core(secret);
  EXPECT_GE(scrub_secrets(), 1U);
  EXPECT_EQ(tail, std::string(16, '\1') + std::string(24, 'x'));
}

TEST(CoreScrub, IgnoresWhatIsTooShortToBeFoundSafely) {
  std::string text = "abcdefg";
  keep_out_of_core(text);
  scrub_secrets();
  EXPECT_EQ(text, "abcdefg");
}

}  // namespace
}  // namespace queen

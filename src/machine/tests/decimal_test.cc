// The numbers of incr (api-state.md KV-8), against integers of any size.
#include "machine/decimal.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <boost/multiprecision/cpp_int.hpp>
#include <cstdlib>

namespace queen::machine {
namespace {

using Big = boost::multiprecision::cpp_int;

const std::string kLargest = "170141183460469231731687303715884105727";  // 2^127 - 1
const std::string kSmallest = "-170141183460469231731687303715884105728";

std::string sum(const std::string& a, const std::string& b) {
  const auto left = Decimal::parse(a);
  const auto right = Decimal::parse(b);
  if (!left || !right) return "no number";
  const auto out = Decimal::sum(*left, *right);
  return out ? out->text() : "too large";
}
std::string read(const std::string& json) {
  const auto out = Decimal::parse(json);
  return out ? (out->exact() ? "" : "~") + out->text() : "no number";
}

TEST(Decimal, HasOneTextPerNumber) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"0", "0"},
      {"-0", "0"},
      {"-0.0e5", "0"},
      {"0e999999999999999999", "0"},
      {"7", "7"},
      {"-7", "-7"},
      {"2.50", "2.5"},
      {"100", "100"},
      {"1e3", "1000"},
      {"1E+3", "1000"},
      {"1e-3", "0.001"},
      {"-12.5e-1", "-1.25"},
      {"0.000", "0"},
      {"0.10", "0.1"},
      {"1.0", "1"},
      {"120e-1", "12"},
      {kLargest, kLargest},
      {kSmallest, kSmallest},
      {"1e38", "1" + std::string(38, '0')},
      {"1e-38", "0." + std::string(37, '0') + "1"}};
  for (const auto& [json, text] : rows) EXPECT_EQ(read(json), text) << json;
}

TEST(Decimal, IsADoubleBeyondItsRange) {
  EXPECT_EQ(read("1e39"), "~1e+39");
  EXPECT_EQ(read("1e-39"), "~1e-39");
  EXPECT_EQ(read("2" + std::string(38, '1')), "~2.1111111111111113e+38");
  EXPECT_EQ(read("1.7976931348623157e308"), "~1.7976931348623157e+308");
  EXPECT_EQ(read("1e-400"), "0");
  EXPECT_EQ(read("-1e-99999999999999999999999"), "0");
  EXPECT_EQ(read("0." + std::string(50'000, '0') + "1e50001"), "1");
}

// What the shortest text of a double says is what will be read of it once it is stored.
TEST(Decimal, IsExactAgainWhereTheTextOfTheDoubleIs) {
  EXPECT_EQ(read("170141183460469231731687303715884105728"), "17014118346046923" + std::string(22, '0'));
  EXPECT_EQ(read("0." + std::string(60, '3')), "0.3333333333333333");
}

TEST(Decimal, RefusesWhatIsNoJsonNumber) {
  for (const char* text :
       {"",    "-",        "+1",   "01",   "1.",    ".5",  "1e", "1e+",   "1 ",    " 1",  "0x1",   "1_0",
        "NaN", "Infinity", "null", "true", "\"1\"", "[1]", "{}", "1.5.2", "1e5.0", "--1", "1e400", "-1e309"})
    EXPECT_EQ(read(text), "no number") << text;
}

TEST(Decimal, AddsExactly) {
  EXPECT_EQ(sum("0.1", "0.2"), "0.3");
  EXPECT_EQ(sum("9007199254740993", "1"), "9007199254740994");
  EXPECT_EQ(sum("1.25", "-1.25"), "0");
  EXPECT_EQ(sum("99.99", "0.01"), "100");
  EXPECT_EQ(sum("0." + std::string(37, '0') + "1", "1"), "1." + std::string(37, '0') + "1");
  EXPECT_EQ(sum("170141183460469231731687303715884105726", "1"), kLargest);
  EXPECT_EQ(sum(kSmallest, kLargest), "-1");
  // The product that lines the two up is too large, their sum is not.
  EXPECT_EQ(sum("17014118346046923173168730371588410573", "-0.3"),
            "17014118346046923173168730371588410572.7");
}

TEST(Decimal, AddsAsDoublesBeyondItsRange) {
  EXPECT_EQ(sum(kLargest, kLargest), "3.402823669209385e+38");
  EXPECT_EQ(sum("1e38", "0.5"), "1" + std::string(38, '0'));
  EXPECT_EQ(sum("1e300", "1"), "1e+300");
  EXPECT_EQ(sum("1e300", "-1e300"), "0");
  EXPECT_EQ(sum("1e308", "1e308"), "too large");
  EXPECT_EQ(sum("-1.7976931348623157e308", "-1e300"), "too large");
}

struct Number {
  Big digits;
  int scale = 0;
};
Big power(int exponent) {
  return boost::multiprecision::pow(Big(10), static_cast<unsigned>(exponent));
}
std::string text_of(Number number) {
  for (; number.scale > 0 && number.digits % 10 == 0; --number.scale) number.digits /= 10;
  std::string digits = Big(abs(number.digits)).str();
  const auto scale = static_cast<std::size_t>(number.scale);
  if (digits.size() <= scale) digits.insert(0, scale - digits.size() + 1, '0');
  if (scale > 0) digits.insert(digits.size() - scale, ".");
  return (number.digits < 0 ? "-" : "") + digits;
}
bool fits(Number number) {
  for (; number.scale > 0 && number.digits % 10 == 0; --number.scale) number.digits /= 10;
  return number.scale <= 38 && number.digits <= Big(kLargest) && number.digits >= Big(kSmallest);
}

// Numbers of all sizes, those at the ends of the range among them.
rc::Gen<Number> numbers() {
  return rc::gen::exec([] {
    Number out;
    out.scale = *rc::gen::inRange(0, 39);
    if (*rc::gen::inRange(0, 3) == 0) {
      out.digits = *rc::gen::element(Big(kLargest), Big(kSmallest), Big(1), Big(-1));
      out.digits -= out.digits > 1    ? *rc::gen::inRange(0, 20)
                    : out.digits < -1 ? -*rc::gen::inRange(0, 20)
                                      : 0;
      return out;
    }
    const int length = *rc::gen::inRange(1, 39);
    for (int i = 0; i < length; ++i) out.digits = out.digits * 10 + *rc::gen::inRange(0, 10);
    if (*rc::gen::arbitrary<bool>()) out.digits = -out.digits;
    return out;
  });
}

RC_GTEST_PROP(DecimalModel, SumsAndComparesAsIntegersDo, ()) {
  const Number a = *numbers();
  const Number b = *numbers();
  const auto left = Decimal::parse(text_of(a));
  const auto right = Decimal::parse(text_of(b));
  RC_ASSERT(left && right && left->exact() && right->exact());
  RC_ASSERT(left->text() == text_of(a));
  const int scale = std::max(a.scale, b.scale);
  const Big x = a.digits * power(scale - a.scale);
  const Big y = b.digits * power(scale - b.scale);
  RC_ASSERT((Decimal::compare(*left, *right) < 0) == (x < y));
  RC_ASSERT((Decimal::compare(*left, *right) == 0) == (x == y));
  const auto got = Decimal::sum(*left, *right);
  RC_ASSERT(got.has_value());
  const Number exact{x + y, scale};
  if (fits(exact)) {
    RC_ASSERT(got->exact());
    RC_ASSERT(got->text() == text_of(exact));
  } else {
    RC_ASSERT(std::strtod(got->text().c_str(), nullptr) ==
              std::strtod(text_of(a).c_str(), nullptr) + std::strtod(text_of(b).c_str(), nullptr));
  }
  // Either order, and what was written reads back as itself.
  RC_ASSERT(Decimal::sum(*right, *left)->text() == got->text());
  RC_ASSERT(Decimal::parse(got->text())->text() == got->text());
}

TEST(Decimal, ComparesAcrossTheEndOfItsRange) {
  const auto less = [](const std::string& a, const std::string& b) {
    return Decimal::compare(*Decimal::parse(a), *Decimal::parse(b)) < 0;
  };
  EXPECT_TRUE(less("1", "1e50"));
  EXPECT_TRUE(less("-1e50", "-1"));
  EXPECT_FALSE(less("1e50", "1e50"));
  EXPECT_TRUE(less("1e-50", "0.1"));
  EXPECT_TRUE(less("0", "1e-50"));
}

}  // namespace
}  // namespace queen::machine

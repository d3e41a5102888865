#include "machine/decimal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/invariant.h"

namespace queen::machine {
namespace {

constexpr int kScaleMax = 38;
constexpr int kDigitsMax = 39;  // of a 128-bit mantissa
// Exponents are held within this: no request is so long that its digits make up for more.
constexpr std::int64_t kExponentMax = 1'000'000'000'000;

Int128 power_of_ten(int exponent) {
  Int128 out = 1;
  for (int i = 0; i < exponent; ++i) out *= 10;
  return out;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

using Parts = Decimal::Parts;

// Takes the digits at the front of `rest`.
std::string_view take_digits(std::string_view& rest) {
  const auto end = std::find_if_not(rest.begin(), rest.end(), is_digit);
  const auto count = static_cast<std::size_t>(end - rest.begin());
  const std::string_view out = rest.substr(0, count);
  rest.remove_prefix(count);
  return out;
}

bool take_exponent(std::string_view& rest, std::int64_t& exponent) {
  if (rest.empty() || (rest[0] != 'e' && rest[0] != 'E')) return true;
  rest.remove_prefix(1);
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const std::string_view digits = take_digits(rest);
  std::int64_t value = 0;
  for (const char c : digits) value = std::min(value * 10 + (c - '0'), kExponentMax);
  exponent += negative ? -value : value;
  return !digits.empty();
}

std::optional<Parts> take_apart(std::string_view rest) {
  Parts out;
  out.negative = rest.starts_with('-');
  if (out.negative) rest.remove_prefix(1);
  const std::string_view whole = take_digits(rest);
  if (whole.empty() || (whole.size() > 1 && whole[0] == '0')) return std::nullopt;
  out.digits = whole;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    const std::string_view fraction = take_digits(rest);
    if (fraction.empty()) return std::nullopt;
    out.digits += fraction;
    out.exponent = -static_cast<std::int64_t>(fraction.size());
  }
  if (!take_exponent(rest, out.exponent) || !rest.empty()) return std::nullopt;
  while (!out.digits.empty() && out.digits.back() == '0') {
    out.digits.pop_back();
    ++out.exponent;
  }
  out.digits.erase(0, std::min(out.digits.find_first_not_of('0'), out.digits.size()));
  if (out.digits.empty()) out = {};
  return out;
}

// mantissa × 10 + digit, or false when that is too large.
bool shift_in(Int128& mantissa, int digit) {
  return !__builtin_mul_overflow(mantissa, Int128{10}, &mantissa) &&
         !__builtin_add_overflow(mantissa, Int128{digit}, &mantissa);
}

// a × 10^shift + b, or nothing when that is too large. Only the result counts, never what is in between.
std::optional<Int128> shifted_sum(Int128 a, int shift, Int128 b) {
  const Int128 power = power_of_ten(shift);
  Int128 low = b % power;
  Int128 high = b / power;
  if (__builtin_add_overflow(high, a, &high)) return std::nullopt;
  // Both of one sign: then a product that is too large cannot be made up for by what is added.
  if (high > 0 && low < 0) {
    --high;
    low += power;
  } else if (high < 0 && low > 0) {
    ++high;
    low -= power;
  }
  Int128 out = 0;
  if (__builtin_mul_overflow(high, power, &out) || __builtin_add_overflow(out, low, &out))
    return std::nullopt;
  return out;
}

std::string digits_of(Int128 mantissa) {
  __extension__ using Unsigned = unsigned __int128;
  Unsigned rest = mantissa < 0 ? -static_cast<Unsigned>(mantissa) : static_cast<Unsigned>(mantissa);
  std::string out;
  do {
    out += static_cast<char>('0' + static_cast<int>(rest % 10));
    rest /= 10;
  } while (rest != 0);
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

Decimal Decimal::exactly(Int128 mantissa, int scale) {
  for (; scale > 0 && mantissa % 10 == 0; --scale) mantissa /= 10;
  Decimal out;
  out.mantissa_ = mantissa;
  out.scale_ = scale;
  return out;
}

std::optional<Decimal> Decimal::exactly(const Parts& parts) {
  const std::int64_t zeros = std::max<std::int64_t>(parts.exponent, 0);  // that follow the digits
  if (parts.exponent < -kScaleMax || zeros > kDigitsMax) return std::nullopt;
  const auto count = parts.digits.size() + static_cast<std::size_t>(zeros);
  if (count > std::size_t{kDigitsMax}) return std::nullopt;
  Int128 mantissa = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int digit = i < parts.digits.size() ? parts.digits[i] - '0' : 0;
    if (!shift_in(mantissa, parts.negative ? -digit : digit)) return std::nullopt;
  }
  return exactly(mantissa, static_cast<int>(std::max<std::int64_t>(-parts.exponent, 0)));
}

// A double whose shortest text is within the range of exact numbers is that number, as it is once it was
// stored.
std::optional<Decimal> Decimal::nearly(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  Decimal out;
  out.approximate_ = value;
  const auto parts = take_apart(out.text());
  INVARIANT(parts.has_value(), "a double became {}", out.text());
  return exactly(*parts).value_or(out);
}

std::optional<Decimal> Decimal::parse(std::string_view json) {
  const auto parts = take_apart(json);
  if (!parts) return std::nullopt;
  if (auto exact = exactly(*parts)) return exact;
  double value = 0;
  const auto read = std::from_chars(json.data(), json.data() + json.size(), value);
  if (read.ec == std::errc{}) return nearly(value);
  // Out of a double's range: the first digit stands for 10^(exponent + digits - 1).
  const bool tiny = parts->exponent + static_cast<std::int64_t>(parts->digits.size()) <= 0;
  return tiny ? std::optional(Decimal()) : std::nullopt;
}

std::optional<Decimal> Decimal::sum(const Decimal& a, const Decimal& b) {
  if (a.exact() && b.exact()) {
    const Decimal& coarse = a.scale_ <= b.scale_ ? a : b;
    const Decimal& fine = a.scale_ <= b.scale_ ? b : a;
    const auto mantissa = shifted_sum(coarse.mantissa_, fine.scale_ - coarse.scale_, fine.mantissa_);
    if (mantissa) return exactly(*mantissa, fine.scale_);
    if (fine.scale_ > 0 && fine.scale_ == coarse.scale_) {
      // A sum that ends with a zero fits without it.
      const Int128 last = a.mantissa_ % 10 + b.mantissa_ % 10;
      if (last % 10 == 0) return exactly(a.mantissa_ / 10 + b.mantissa_ / 10 + last / 10, fine.scale_ - 1);
    }
  }
  return nearly(a.value() + b.value());
}

std::strong_ordering Decimal::compare(const Decimal& a, const Decimal& b) {
  if (!a.exact() || !b.exact()) {
    const double left = a.value();
    const double right = b.value();
    return left < right   ? std::strong_ordering::less
           : left > right ? std::strong_ordering::greater
                          : std::strong_ordering::equal;
  }
  if (a.scale_ > b.scale_) return 0 <=> compare(b, a);
  Int128 left = 0;
  // Too large to be written with the other's digits: it is further from zero than the other can be.
  if (__builtin_mul_overflow(a.mantissa_, power_of_ten(b.scale_ - a.scale_), &left))
    return a.mantissa_ < 0 ? std::strong_ordering::less : std::strong_ordering::greater;
  return left < b.mantissa_   ? std::strong_ordering::less
         : left > b.mantissa_ ? std::strong_ordering::greater
                              : std::strong_ordering::equal;
}

double Decimal::value() const {
  if (approximate_) return *approximate_;
  const std::string digits = text();
  double out = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  INVARIANT(read.ec == std::errc{}, "{} is no double", digits);
  return out;
}

std::string Decimal::text() const {
  if (approximate_) {
    std::array<char, 32> out{};
    const auto end =
        std::to_chars(out.data(), out.data() + out.size(), *approximate_, std::chars_format::scientific).ptr;
    return {out.data(), static_cast<std::size_t>(end - out.data())};
  }
  std::string digits = digits_of(mantissa_);
  const auto scale = static_cast<std::size_t>(scale_);
  if (digits.size() <= scale) digits.insert(0, scale - digits.size() + 1, '0');
  if (scale > 0) digits.insert(digits.size() - scale, ".");
  return mantissa_ < 0 ? "-" + digits : digits;
}

}  // namespace queen::machine

// The numbers of `incr` (api-state.md KV-8): exact decimals as long as a 128-bit mantissa and 38 fractional
// digits hold them, IEEE doubles beyond that.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace queen::machine {

__extension__ using Int128 = __int128;

// Finite, and in one form: an exact number has no trailing fractional zeros, and a zero no sign.
class Decimal {
 public:
  Decimal() = default;  // 0
  // Nothing when `json` is not the text of a JSON number, or one that is too large for a double. A number too
  // small for one is 0.
  static std::optional<Decimal> parse(std::string_view json);

  // Exact when both are and the sum is within bounds, else as doubles are added. Nothing when the sum is too
  // large for a double.
  static std::optional<Decimal> sum(const Decimal& a, const Decimal& b);
  // Exact when both are, else as doubles compare.
  static std::strong_ordering compare(const Decimal& a, const Decimal& b);

  bool exact() const { return !approximate_; }
  // JSON: plain digits when exact, else the shortest text that reads back as the same double.
  std::string text() const;

  // A number's text taken apart: ±digits × 10^exponent, without zeros at either end of the digits.
  struct Parts {
    bool negative = false;
    std::string digits;  // empty for zero
    std::int64_t exponent = 0;
  };

 private:
  static Decimal exactly(Int128 mantissa, int scale);
  static std::optional<Decimal> exactly(const Parts& parts);
  static std::optional<Decimal> nearly(double value);
  double value() const;

  Int128 mantissa_ = 0;
  int scale_ = 0;  // fractional digits, 0..38
  std::optional<double> approximate_;
};

}  // namespace queen::machine

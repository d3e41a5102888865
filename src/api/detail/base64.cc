#include "api/detail/base64.h"

#include <array>
#include <cstdint>

namespace queen::api {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint32_t kNoDigit = 64;

constexpr auto kDigits = [] {
  std::array<std::uint8_t, 256> out{};
  out.fill(kNoDigit);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i)
    out[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  return out;
}();

}  // namespace

std::optional<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  text.remove_suffix(padding);
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0, have = 0;
  for (const char c : text) {
    const std::uint32_t digit = kDigits[static_cast<unsigned char>(c)];
    if (digit == kNoDigit) return std::nullopt;
    bits = (bits << 6 | digit) & 0xFFFF;
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out.push_back(static_cast<char>(bits >> have & 0xFF));
  }
  // What is left of the last digit stands for no byte.
  if ((bits & ((1U << have) - 1)) != 0) return std::nullopt;
  return out;
}

}  // namespace queen::api

#include "base/ids.h"

#include <sys/random.h>

#include <cstdlib>
#include <cstring>

namespace queen {
namespace {

constexpr char kHex[] = "0123456789abcdef";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::uint64_t split_mix(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace

void Uuid::append_to(std::string& out) const {
  char text[36];
  std::size_t at = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text[at++] = '-';
    text[at++] = kHex[bytes[i] >> 4];
    text[at++] = kHex[bytes[i] & 15];
  }
  out.append(text, sizeof text);
}

std::string Uuid::str() const {
  std::string out;
  append_to(out);
  return out;
}

std::optional<Uuid> Uuid::parse(std::string_view text) {
  if (text.size() != 36) return std::nullopt;
  Uuid out;
  std::size_t nibble = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (text[i] != '-') return std::nullopt;
      continue;
    }
    const int value = hex_value(text[i]);
    if (value < 0) return std::nullopt;
    auto& byte = out.bytes[nibble / 2];
    byte = static_cast<std::uint8_t>(nibble % 2 == 0 ? value << 4 : byte | value);
    ++nibble;
  }
  return out;
}

std::uint64_t SystemRandom::next() {
  // Per thread, so that request threads never contend for a generator.
  thread_local std::uint64_t state = [] {
    std::uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) std::abort();
    return seed;
  }();
  return split_mix(state);
}

std::uint64_t SeededRandom::next() {
  return split_mix(state_);
}

Uuid make_uuid_v7(std::int64_t wall_us, Random& random) {
  Uuid out;
  const auto ms = static_cast<std::uint64_t>(wall_us / 1000);
  for (int i = 0; i < 6; ++i)
    out.bytes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(ms >> (8 * (5 - i)));
  const std::uint64_t high = random.next();
  const std::uint64_t low = random.next();
  std::memcpy(&out.bytes[6], &high, 2);
  std::memcpy(&out.bytes[8], &low, 8);
  out.bytes[6] = static_cast<std::uint8_t>((out.bytes[6] & 0x0F) | 0x70);
  out.bytes[8] = static_cast<std::uint8_t>((out.bytes[8] & 0x3F) | 0x80);
  return out;
}

}  // namespace queen

#include "store/damage.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/text.h"

namespace queen::store {
namespace {

constexpr std::uint64_t kChecksumSeed = 0x517565656E4B5331;
constexpr std::size_t kShownBytesMax = 96;

const std::array<std::uint64_t, kKeyspaceCount>& keyspace_seeds() {
  static const auto seeds = [] {
    std::array<std::uint64_t, kKeyspaceCount> out{};
    for (std::size_t i = 0; i < kKeyspaceCount; ++i) out[i] = xxh3_64(kKeyspaceNames[i], kChecksumSeed);
    return out;
  }();
  return seeds;
}

}  // namespace

std::uint64_t row_checksum(Keyspace keyspace, BytesView key, BytesView value) {
  return xxh3_64(value, xxh3_64(key, keyspace_seeds()[static_cast<std::size_t>(keyspace)]));
}

std::string describe_key(BytesView key) {
  const BytesView shown = key.substr(0, kShownBytesMax);
  std::string printable;
  for (const char c : shown) printable.push_back(c >= 0x20 && c < 0x7F ? c : '.');
  return fmt::format("{}{} (\"{}\")", hex_lower(shown), shown.size() < key.size() ? "..." : "", printable);
}

Error row_damage(Keyspace keyspace, BytesView key, std::string_view what) {
  return {Errc::corrupt,
          fmt::format("store keyspace {}, key {}: {}", name_of(keyspace), describe_key(key), what)};
}

std::optional<RowPlace> table_behind(Keyspace keyspace) {
  const auto next = static_cast<std::size_t>(keyspace) + 1;
  if (next == kKeyspaceCount) return std::nullopt;
  return RowPlace{static_cast<Keyspace>(next), {}};
}

}  // namespace queen::store

// Identifiers. Numbers that mean different things are different types.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace queen {

template <class Tag>
struct Id {
  std::uint64_t value{};
  auto operator<=>(const Id&) const = default;
};

using EntryIndex = Id<struct EntryIndexTag>;  // of an entry in the replicated log, gapless from 1; 0 = none
using LogId = Id<struct LogIdTag>;            // of a queue log; 0 = the system log
using Pid = Id<struct PidTag>;                // of a partition, assigned once, never reused

inline constexpr LogId kSystemLog{0};

struct Uuid {
  std::array<std::uint8_t, 16> bytes{};
  auto operator<=>(const Uuid&) const = default;
  // Lower-case, hyphenated, 36 characters.
  std::string str() const;
  void append_to(std::string& out) const;
  std::string_view view() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
  // Accepts the 36-character hyphenated form in any case; nothing else.
  static std::optional<Uuid> parse(std::string_view text);
};

inline constexpr std::string_view kDefaultTenant = "00000000-0000-0000-0000-000000000001";

// Randomness is passed in, so that one seed replays a run. Implementations are thread-safe unless they say
// not.
class Random {
 public:
  virtual ~Random() = default;
  virtual std::uint64_t next() = 0;
};

// getrandom(2)-seeded, one generator per calling thread inside. Thread-safe.
class SystemRandom final : public Random {
 public:
  std::uint64_t next() override;
};

// SplitMix64 of a seed. Not thread-safe.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() override;

 private:
  std::uint64_t state_;
};

// RFC 9562 version 7: 48 bits of milliseconds, then random bits. `wall_us` is µs since the epoch.
Uuid make_uuid_v7(std::int64_t wall_us, Random& random);

}  // namespace queen

template <class Tag>
struct std::hash<queen::Id<Tag>> {
  std::size_t operator()(const queen::Id<Tag>& id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value);
  }
};

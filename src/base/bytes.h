// Explicit loads and stores, and a reader that cannot run over the end. Bytes are held in std::string
// (owned) and std::string_view (borrowed): chars are bytes here, never text of a locale.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace queen {

using Bytes = std::string;
using BytesView = std::string_view;

template <class T>
T load_le(const char* from) {
  static_assert(std::is_integral_v<T>);
  using U = std::make_unsigned_t<T>;
  U value = 0;
  std::memcpy(&value, from, sizeof value);
  if constexpr (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) {
    U swapped = 0;
    for (std::size_t i = 0; i < sizeof(U); ++i)
      swapped = static_cast<U>((swapped << 8) | ((value >> (8 * i)) & 0xFF));
    value = swapped;
  }
  return static_cast<T>(value);
}

template <class T>
void store_le(char* to, T value) {
  static_assert(std::is_integral_v<T>);
  const auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (std::size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<char>((bits >> (8 * i)) & 0xFF);
}

template <class T>
void append_le(Bytes& to, T value) {
  char bytes[sizeof(T)];
  store_le(bytes, value);
  to.append(bytes, sizeof bytes);
}

// Big-endian unsigned, for keys whose byte order is numeric order.
template <class T>
void append_be(Bytes& to, T value) {
  static_assert(std::is_unsigned_v<T>);
  for (std::size_t i = sizeof(T); i-- > 0;) to.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
}

template <class T>
T load_be(const char* from) {
  static_assert(std::is_unsigned_v<T>);
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>((value << 8) | static_cast<unsigned char>(from[i]));
  return value;
}

// Reads fields off the front of borrowed bytes. After the first field that does not fit, every further
// read gives zero or empty and ok() is false: decode everything, then check once.
class ByteReader {
 public:
  explicit ByteReader(BytesView bytes) : rest_(bytes) {}

  template <class T>
  T le() {
    const BytesView raw = take(sizeof(T));
    return raw.size() == sizeof(T) ? load_le<T>(raw.data()) : T{};
  }
  template <class T>
  T be() {
    const BytesView raw = take(sizeof(T));
    return raw.size() == sizeof(T) ? load_be<T>(raw.data()) : T{};
  }
  // A byte that must be 0 or 1.
  bool boolean() {
    const auto raw = le<std::uint8_t>();
    if (raw > 1) ok_ = false;
    return raw == 1;
  }
  // The next `size` bytes, borrowed from the input.
  BytesView take(std::size_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const BytesView out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return out;
  }
  // u32 length, then that many bytes.
  BytesView sized32() { return take(le<std::uint32_t>()); }
  // u16 length, then that many bytes.
  BytesView sized16() { return take(le<std::uint16_t>()); }
  template <std::size_t N>
  std::array<std::uint8_t, N> array() {
    std::array<std::uint8_t, N> out{};
    const BytesView raw = take(N);
    if (raw.size() == N) std::memcpy(out.data(), raw.data(), N);
    return out;
  }

  void fail() { ok_ = false; }
  bool ok() const { return ok_; }
  // All fields fitted and nothing is left over.
  bool done() const { return ok_ && rest_.empty(); }
  std::size_t left() const { return rest_.size(); }
  BytesView rest() const { return rest_; }

 private:
  BytesView rest_;
  bool ok_ = true;
};

inline void append_sized32(Bytes& to, BytesView value) {
  append_le(to, static_cast<std::uint32_t>(value.size()));
  to.append(value);
}
inline void append_sized16(Bytes& to, BytesView value) {
  append_le(to, static_cast<std::uint16_t>(value.size()));
  to.append(value);
}

}  // namespace queen

// The primitive encodings of rows (storage.md 6.1): fixed-width little-endian integers, bool one byte 0/1,
// string u32 length and bytes, optional one byte 0/1 and the value, list u32 count and items. One list of
// fields per row drives both directions, so that they cannot disagree.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/ids.h"

namespace queen::store::detail {

class RowWriter {
 public:
  explicit RowWriter(std::uint8_t version) { bytes_.push_back(static_cast<char>(version)); }

  template <class... T>
  void fields(const T&... values) {
    (put(values), ...);
  }
  Bytes bytes() { return std::move(bytes_); }

 private:
  void put(bool value) { bytes_.push_back(value ? '\1' : '\0'); }
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  void put(T value) {
    append_le(bytes_, value);
  }
  void put(const std::string& value) { append_sized32(bytes_, value); }
  void put(const Uuid& value) { bytes_.append(value.view()); }
  void put(const Hash128& value) { bytes_.append(value.view()); }
  void put(Pid value) { append_le(bytes_, value.value); }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class T>
  void put(const std::vector<T>& values) {
    append_le(bytes_, static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) put(value);
  }
  Bytes bytes_;
};

class RowReader {
 public:
  explicit RowReader(BytesView bytes) : reader_(bytes), version_(reader_.le<std::uint8_t>()) {}

  std::uint8_t version() const { return version_; }
  template <class... T>
  void fields(T&... values) {
    (take(values), ...);
  }
  void fail() { reader_.fail(); }
  bool done() const { return reader_.done(); }

 private:
  void take(bool& value) { value = reader_.boolean(); }
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  void take(T& value) {
    value = reader_.le<T>();
  }
  void take(std::string& value) { value.assign(reader_.sized32()); }
  void take(Uuid& value) { value.bytes = reader_.array<16>(); }
  void take(Hash128& value) { value.canonical = reader_.array<16>(); }
  void take(Pid& value) { value.value = reader_.le<std::uint64_t>(); }
  template <class T>
  void take(std::optional<T>& value) {
    value.reset();
    if (reader_.boolean()) take(value.emplace());
  }
  // One by one: what is read bounds what is allocated.
  void take(std::vector<std::string>& values) {
    const std::size_t count = reader_.le<std::uint32_t>();
    values.clear();
    for (std::size_t i = 0; i < count && reader_.ok(); ++i) take(values.emplace_back());
  }
  // Items are at least as large as they are in memory, so a hostile count is refused before it is allocated.
  template <class T>
  void take(std::vector<T>& values) {
    const std::size_t count = reader_.le<std::uint32_t>();
    values.clear();
    if (count > reader_.left() / sizeof(T)) {
      reader_.fail();
      return;
    }
    values.resize(count);
    for (T& value : values) take(value);
  }
  ByteReader reader_;
  std::uint8_t version_;
};

}  // namespace queen::store::detail

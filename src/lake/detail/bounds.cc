#include "lake/detail/bounds.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace queen::lake {
namespace {

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// The first kBoundBytesMax bytes less the part of a character at their end. `value` is longer.
BytesView cut(BytesView value) {
  std::size_t size = kBoundBytesMax;
  while (size > 0 && continues(value[size])) --size;
  return value.substr(0, size);
}

std::uint32_t code_point(BytesView character) {
  const auto lead = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return lead;
  std::uint32_t code = lead & (0x7FU >> character.size());
  for (const char byte : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(byte) & 0x3FU);
  return code;
}

void append_character(std::string& to, std::uint32_t code, std::size_t size) {
  if (size == 1) {
    to.push_back(static_cast<char>(code));
    return;
  }
  const std::uint32_t lead = 0xF00U >> size & 0xFFU;  // as many ones in front as there are bytes
  to.push_back(static_cast<char>(lead | code >> (6 * (size - 1))));
  for (std::size_t i = size - 1; i-- > 0;) to.push_back(static_cast<char>(0x80 | (code >> (6 * i) & 0x3F)));
}

// The code point behind `code` when it takes as many bytes, otherwise 0.
std::uint32_t successor(std::uint32_t code) {
  constexpr std::uint32_t kLastOfSize[] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
  constexpr std::uint32_t kBeforeSurrogates = 0xD7FF;
  constexpr std::uint32_t kBehindSurrogates = 0xE000;
  if (std::find(std::begin(kLastOfSize), std::end(kLastOfSize), code) != std::end(kLastOfSize)) return 0;
  return code == kBeforeSurrogates ? kBehindSurrogates : code + 1;
}

}  // namespace

void TextBounds::Prefix::assign(BytesView value) {
  size = value.size();
  std::memcpy(bytes.data(), value.data(), size);
}

void TextBounds::see(BytesView value) {
  const BytesView prefix = value.substr(0, kBoundBytesMax + 1);
  if (!seen_ || prefix < min_.view()) min_.assign(prefix);
  if (!seen_ || prefix > max_.view()) max_.assign(prefix);
  seen_ = true;
}

Bound TextBounds::min() const {
  Bound bound;
  if (!seen_) return bound;
  bound.exact = min_.size <= kBoundBytesMax;
  bound.value = std::string(bound.exact ? min_.view() : cut(min_.view()));
  return bound;
}

Bound TextBounds::max() const {
  Bound bound;
  if (!seen_) return bound;
  bound.exact = max_.size <= kBoundBytesMax;
  if (bound.exact) {
    bound.value = std::string(max_.view());
    return bound;
  }
  BytesView kept = cut(max_.view());
  if (!is_utf8(kept)) return bound;
  while (!kept.empty()) {
    std::size_t at = kept.size() - 1;
    while (continues(kept[at])) --at;
    const BytesView last = kept.substr(at);
    const std::uint32_t raised = successor(code_point(last));
    kept.remove_suffix(last.size());
    if (raised == 0) continue;
    bound.value = std::string(kept);
    append_character(*bound.value, raised, last.size());
    return bound;
  }
  return bound;
}

void Int64Bounds::see(std::int64_t value) {
  min_ = seen_ ? std::min(min_, value) : value;
  max_ = seen_ ? std::max(max_, value) : value;
  seen_ = true;
}

Bound Int64Bounds::of(std::int64_t value) const {
  Bound bound;
  if (!seen_) return bound;
  bound.value.emplace();
  append_le(*bound.value, value);
  return bound;
}

}  // namespace queen::lake

#include "store/detail/key_order.h"

#include <algorithm>

#include "store/keyspace.h"

namespace queen::store::detail {

std::size_t common_prefix(BytesView a, BytesView b) {
  const auto ends = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(ends.first - a.begin());
}

std::optional<Bytes> above_prefix(BytesView prefix) {
  Bytes out(prefix);
  while (!out.empty() && out.back() == '\xFF') out.pop_back();
  if (out.empty()) return std::nullopt;
  out.back() = static_cast<char>(static_cast<unsigned char>(out.back()) + 1);
  return out;
}

Bytes separator(BytesView low, BytesView high) {
  return Bytes(high.substr(0, common_prefix(low, high) + 1));
}

Bytes key_below(BytesView key) {
  Bytes out(key);
  if (out.back() == '\0') {
    out.pop_back();
    return out;
  }
  out.back() = static_cast<char>(static_cast<unsigned char>(out.back()) - 1);
  out.resize(kKeyBytesMax, '\xFF');
  return out;
}

}  // namespace queen::store::detail

// What a sealed payload looks like at rest (api-state.md EN-3):
// `{"encrypted":"<base64>","iv":"<base64 of 16 bytes>","authTag":"<base64 of 16 bytes>"}`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace queen::auth {

using SealedIv = std::array<std::uint8_t, 16>;
using SealedTag = std::array<std::uint8_t, 16>;

struct Envelope {
  Bytes ciphertext;
  SealedIv iv{};
  SealedTag tag{};
};

// Compact JSON, members in that order.
Bytes write_envelope(const Envelope& envelope);
// Any JSON object that has those three string members, in any order and among others, whose base64 and
// lengths are right. Nothing for every other text. Cheap for texts that are none.
std::optional<Envelope> read_envelope(BytesView text);

}  // namespace queen::auth

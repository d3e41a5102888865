// The bytes of one effect: docs/formats/entry.md. effects.cc frames them.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "machine/effects.h"

namespace queen::machine::detail {

enum class PayloadLength : bool { left_out, written };

// Kind, version, length, body.
void append_effect(Bytes& out, const Effect& effect, PayloadLength length);

// The catalogue that brought this kind and version (EN-8); nothing when this build does not know them.
std::optional<std::uint32_t> catalogue_of(std::uint16_t kind, std::uint16_t version);
std::uint32_t catalogue_of(const Effect& effect);
// The number of its kind (storage.md 6.4).
std::uint16_t kind_of(const Effect& effect);

// Takes a body whose kind and version are known; the reader fails when it is not exactly one.
Effect take_effect(ByteReader& reader, std::uint16_t kind, std::uint16_t version);
Uuid take_uuid(ByteReader& reader);
Pid take_pid(ByteReader& reader);

inline constexpr std::uint16_t kKindAppend = 7;

}  // namespace queen::machine::detail

#include "lake/detail/delta_binary.h"

#include <algorithm>
#include <array>
#include <bit>

#include "lake/detail/bit_packing.h"
#include "lake/detail/varint.h"

namespace queen::lake {
namespace {

constexpr std::size_t kBlockDeltas = 128;
constexpr std::size_t kMiniblocks = 4;
constexpr std::size_t kMiniblockDeltas = kBlockDeltas / kMiniblocks;
static_assert(kMiniblockDeltas % 8 == 0);  // so that a miniblock ends at a byte, whatever its width

using Deltas = std::array<std::uint64_t, kBlockDeltas>;

// Deltas wrap around: with them any run of 64-bit integers has an encoding.
std::uint64_t delta(std::int64_t from, std::int64_t to) {
  return static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
}

void append_block(Bytes& to, Deltas& deltas, std::size_t count) {
  std::int64_t least = static_cast<std::int64_t>(deltas[0]);
  for (std::size_t i = 1; i < count; ++i) least = std::min(least, static_cast<std::int64_t>(deltas[i]));
  append_varint(to, zigzag(static_cast<std::uint64_t>(least)));
  std::array<unsigned, kMiniblocks> widths{};
  for (std::size_t i = 0; i < count; ++i) {
    deltas[i] -= static_cast<std::uint64_t>(least);
    unsigned& width = widths[i / kMiniblockDeltas];
    width = std::max(width, static_cast<unsigned>(std::bit_width(deltas[i])));
  }
  std::fill(deltas.begin() + static_cast<std::ptrdiff_t>(count), deltas.end(), 0);
  for (const unsigned width : widths) to.push_back(static_cast<char>(width));
  for (std::size_t i = 0; i < kMiniblocks && i * kMiniblockDeltas < count; ++i)
    append_packed(to, std::span(deltas).subspan(i * kMiniblockDeltas, kMiniblockDeltas), widths[i]);
}

Error damaged() {
  return {Errc::corrupt, "a page of packed deltas is damaged"};
}

// One block's deltas, above the least of which they are counted. Nothing when the bytes do not hold it.
bool read_block(ByteReader& from, std::size_t count, std::span<std::uint64_t> deltas) {
  const std::uint64_t least = unzigzag(read_varint(from));
  const BytesView widths = from.take(kMiniblocks);
  if (!from.ok()) return false;
  for (std::size_t i = 0; i < kMiniblocks && i * kMiniblockDeltas < count; ++i) {
    const unsigned width = static_cast<unsigned char>(widths[i]);
    if (width > 64) return false;
    const BytesView packed = from.take(kMiniblockDeltas * width / 8);
    if (!from.ok()) return false;
    unpack(packed, width, deltas.subspan(i * kMiniblockDeltas, kMiniblockDeltas));
  }
  for (std::size_t i = 0; i < count; ++i) deltas[i] += least;
  return true;
}

}  // namespace

void append_delta_binary(Bytes& to, std::span<const std::int64_t> values) {
  append_varint(to, kBlockDeltas);
  append_varint(to, kMiniblocks);
  append_varint(to, values.size());
  append_varint(to, zigzag(static_cast<std::uint64_t>(values.front())));
  Deltas deltas{};
  for (std::size_t at = 1; at < values.size(); at += kBlockDeltas) {
    const std::size_t count = std::min(kBlockDeltas, values.size() - at);
    for (std::size_t i = 0; i < count; ++i) deltas[i] = delta(values[at + i - 1], values[at + i]);
    append_block(to, deltas, count);
  }
}

Result<std::vector<std::int64_t>> read_delta_binary(BytesView bytes, std::uint32_t count) {
  ByteReader from(bytes);
  const bool shape = read_varint(from) == kBlockDeltas && read_varint(from) == kMiniblocks;
  if (!shape || count == 0 || read_varint(from) != count) return damaged();
  std::vector<std::int64_t> values;
  values.reserve(count);
  std::uint64_t value = unzigzag(read_varint(from));
  values.push_back(static_cast<std::int64_t>(value));
  Deltas deltas{};
  while (values.size() < count) {
    const std::size_t block = std::min<std::size_t>(kBlockDeltas, count - values.size());
    if (!read_block(from, block, deltas)) return damaged();
    for (std::size_t i = 0; i < block; ++i) {
      value += deltas[i];
      values.push_back(static_cast<std::int64_t>(value));
    }
  }
  if (!from.done()) return damaged();
  return values;
}

}  // namespace queen::lake

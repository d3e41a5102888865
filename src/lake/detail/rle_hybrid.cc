#include "lake/detail/rle_hybrid.h"

#include <algorithm>
#include <bit>

#include "lake/detail/bit_packing.h"
#include "lake/detail/varint.h"

namespace queen::lake {
namespace {

constexpr std::size_t kGroup = 8;

std::size_t bytes_of(unsigned width) {
  return (width + 7) / 8;
}

void append_run(Bytes& to, const Run& run, unsigned width) {
  append_varint(to, std::uint64_t{run.count} << 1);
  for (std::size_t i = 0; i < bytes_of(width); ++i) to.push_back(static_cast<char>(run.value >> (8 * i)));
}

void append_groups(Bytes& to, std::vector<std::uint64_t>& values, unsigned width) {
  if (values.empty()) return;
  values.resize((values.size() + kGroup - 1) / kGroup * kGroup);
  append_varint(to, (values.size() / kGroup) << 1 | 1);
  append_packed(to, values, width);
  values.clear();
}

Error damaged() {
  return {Errc::corrupt, "a page of runs is damaged"};
}

// A run of equal values, as far as it is wanted.
bool read_run(ByteReader& from, std::uint64_t count, unsigned width, std::uint32_t wanted,
              std::vector<std::uint32_t>& values) {
  const BytesView raw = from.take(bytes_of(width));
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < raw.size(); ++i)
    value |= std::uint64_t{static_cast<unsigned char>(raw[i])} << (8 * i);
  if (!from.ok() || count == 0 || count > wanted || value >> width != 0) return false;
  values.insert(values.end(), count, static_cast<std::uint32_t>(value));
  return true;
}

// Packed groups: the last one may be filled up past what is wanted.
bool read_groups(ByteReader& from, std::uint64_t groups, unsigned width, std::uint32_t wanted,
                 std::vector<std::uint32_t>& values) {
  if (groups == 0 || groups > (std::uint64_t{wanted} + kGroup - 1) / kGroup) return false;
  for (; groups > 0; --groups) {
    std::uint64_t group[kGroup];
    const BytesView packed = from.take(width);  // kGroup values of `width` bits are `width` bytes
    if (!from.ok()) return false;
    unpack(packed, width, group);
    const std::size_t take = std::min<std::size_t>(kGroup, wanted);
    for (std::size_t i = 0; i < take; ++i) values.push_back(static_cast<std::uint32_t>(group[i]));
    wanted -= static_cast<std::uint32_t>(take);
  }
  return true;
}

}  // namespace

unsigned width_of(std::uint32_t value_max) {
  return std::max(1U, static_cast<unsigned>(std::bit_width(value_max)));
}

void append_hybrid(Bytes& to, std::span<const Run> runs, unsigned width) {
  std::vector<std::uint64_t> packed;
  for (Run run : runs) {
    const std::size_t gap = (kGroup - packed.size() % kGroup) % kGroup;
    const std::size_t given = std::min<std::size_t>(gap, run.count);
    packed.insert(packed.end(), given, run.value);
    run.count -= static_cast<std::uint32_t>(given);
    if (run.count >= kGroup) {
      append_groups(to, packed, width);
      append_run(to, run, width);
    } else {
      packed.insert(packed.end(), run.count, run.value);
    }
  }
  append_groups(to, packed, width);
}

Result<std::vector<std::uint32_t>> read_hybrid(BytesView bytes, unsigned width, std::uint32_t count) {
  ByteReader from(bytes);
  std::vector<std::uint32_t> values;
  values.reserve(count);
  while (values.size() < count) {
    const std::uint64_t header = read_varint(from);
    if (!from.ok()) return damaged();
    const auto wanted = static_cast<std::uint32_t>(count - values.size());
    const bool read = (header & 1) == 0 ? read_run(from, header >> 1, width, wanted, values)
                                        : read_groups(from, header >> 1, width, wanted, values);
    if (!read) return damaged();
  }
  if (!from.done()) return damaged();
  return values;
}

}  // namespace queen::lake

// The bytes of an entry: docs/formats/entry.md. One codec for the log, for apply and, without the payload
// lengths, for the digest.
#include "machine/effects.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "machine/detail/effect_codec.h"

namespace queen::machine {
namespace {

using namespace detail;

constexpr std::uint16_t kFormat = 1;
constexpr std::size_t kBodyBytesMax = 256ULL << 20;
constexpr std::size_t kFrameBytes = 4 + 8;
constexpr std::size_t kCommandBytes = 16 + 4 + 4 + 2 + 2 + 4;
constexpr std::size_t kEffectHeadBytes = 2 + 2 + 4;

Error broken(std::string_view what) {
  return {Errc::corrupt, fmt::format("entry: {}", what)};
}

// The lowest catalogue that has all effects of the entry.
std::uint32_t catalogue_of(const Entry& entry) {
  std::uint32_t catalogue = 1;
  for (const Effect& effect : entry.effects) catalogue = std::max(catalogue, detail::catalogue_of(effect));
  return catalogue;
}

std::size_t expected_bytes(const Entry& entry) {
  std::size_t bytes = 64 + entry.commands.size() * kCommandBytes + entry.effects.size() * 192;
  for (const Effect& effect : entry.effects)
    if (const auto* append = std::get_if<Append>(&effect)) bytes += append->hashes.size();
  return bytes;
}

void append_body(Bytes& out, const Entry& entry, PayloadLength length) {
  append_le(out, kFormat);
  append_le(out, catalogue_of(entry));
  append_le(out, entry.now_us);
  append_le(out, entry.pid_base);
  append_le(out, entry.kv_version_base);
  append_le(out, static_cast<std::uint32_t>(entry.commands.size()));
  for (const EntryCommand& command : entry.commands) {
    out.append(command.request_id.view());
    append_le(out, command.first_effect);
    append_le(out, command.effect_count);
    out.append(2 + 2 + 4, '\0');  // outcome: tag none, version 0, no bytes
  }
  append_le(out, static_cast<std::uint32_t>(entry.effects.size()));
  for (const Effect& effect : entry.effects) append_effect(out, effect, length);
}

struct EffectBytes {
  std::uint16_t kind = 0, version = 0;
  BytesView body;
};

// Takes an effect's head off the reader. Errors as decode_entry.
Result<EffectBytes> take_effect_bytes(ByteReader& reader, std::uint32_t catalogue) {
  EffectBytes effect;
  effect.kind = reader.le<std::uint16_t>();
  effect.version = reader.le<std::uint16_t>();
  effect.body = reader.sized32();
  if (!reader.ok()) return broken("an effect runs over the end");
  const auto needed = detail::catalogue_of(effect.kind, effect.version);
  if (!needed)
    return Error{Errc::invalid, fmt::format("entry: effect kind {} version {} is not known to this build",
                                            effect.kind, effect.version)};
  if (*needed > catalogue) return broken("the catalogue is older than its effects");
  return effect;
}

// Checks the frame and gives the body.
Result<BytesView> body_of(BytesView bytes) {
  ByteReader reader(bytes);
  const auto length = reader.le<std::uint32_t>();
  const auto check = reader.le<std::uint64_t>();
  const BytesView body = reader.take(length);
  if (!reader.done() || length > kBodyBytesMax) return broken("the frame does not fit its bytes");
  if (xxh3_64(body) != check) return broken("the checksum does not match");
  return body;
}

struct Head {
  std::uint32_t catalogue = 0;
  std::uint32_t effects = 0;  // how many follow
};
// Reads everything before the effects; leaves the reader at the first effect.
Result<Head> take_head(ByteReader& reader, Entry& entry) {
  const auto format = reader.le<std::uint16_t>();
  if (reader.ok() && format != kFormat)
    return Error{Errc::invalid, fmt::format("entry: format {} is not known to this build", format)};
  const auto kinds = reader.le<std::uint32_t>();
  if (reader.ok() && kinds > kKindsVersion)
    return Error{Errc::invalid, fmt::format("entry: catalogue {} is above {}, the highest of this build",
                                            kinds, kKindsVersion)};
  if (kinds == 0) return broken("the catalogue is older than its effects");
  entry.now_us = reader.le<std::int64_t>();
  entry.pid_base = reader.le<std::uint64_t>();
  entry.kv_version_base = reader.le<std::uint64_t>();
  const auto commands = reader.le<std::uint32_t>();
  if (commands > reader.left() / kCommandBytes) return broken("more commands than bytes");
  entry.commands.reserve(commands);
  for (std::uint32_t i = 0; i < commands; ++i) {
    EntryCommand command{take_uuid(reader), reader.le<std::uint32_t>(), reader.le<std::uint32_t>()};
    const auto tag = reader.le<std::uint16_t>();
    const auto version = reader.le<std::uint16_t>();
    const auto length = reader.le<std::uint32_t>();
    if (tag != 0)
      return Error{Errc::invalid, fmt::format("entry: outcome tag {} is not known to this build", tag)};
    if (version != 0 || length != 0) return broken("an outcome of no kind has a version or bytes");
    entry.commands.push_back(command);
  }
  const auto effects = reader.le<std::uint32_t>();
  if (!reader.ok() || effects > reader.left() / kEffectHeadBytes) return broken("more effects than bytes");
  return Head{kinds, effects};
}

}  // namespace

Bytes encode_entry(const Entry& entry) {
  Bytes out;
  out.reserve(expected_bytes(entry));
  out.resize(kFrameBytes);
  append_body(out, entry, PayloadLength::written);
  const BytesView body = BytesView(out).substr(kFrameBytes);
  store_le(out.data(), static_cast<std::uint32_t>(body.size()));
  store_le(out.data() + 4, xxh3_64(body));
  return out;
}

Result<Entry> decode_entry(BytesView bytes) {
  const auto body = body_of(bytes);
  if (!body) return body.error();
  ByteReader reader(*body);
  Entry entry;
  const auto head = take_head(reader, entry);
  if (!head) return head.error();
  // An effect is far larger in memory than its smallest encoding, so the vector grows with what was really
  // read.
  for (std::uint32_t i = 0; i < head->effects; ++i) {
    const auto effect = take_effect_bytes(reader, head->catalogue);
    if (!effect) return effect.error();
    ByteReader fields(effect->body);
    entry.effects.push_back(take_effect(fields, effect->kind, effect->version));
    if (!fields.done()) return broken(fmt::format("effect {} of kind {} does not decode", i, effect->kind));
  }
  if (!reader.done()) return broken("bytes are left over");
  return entry;
}

Result<std::vector<AppendRef>> appends_of(BytesView bytes) {
  const auto body = body_of(bytes);
  if (!body) return body.error();
  ByteReader reader(*body);
  Entry before;
  const auto head = take_head(reader, before);
  if (!head) return head.error();
  std::vector<AppendRef> out;
  for (std::uint32_t i = 0; i < head->effects; ++i) {
    const auto effect = take_effect_bytes(reader, head->catalogue);
    if (!effect) return effect.error();
    if (effect->kind != kKindAppend) continue;
    ByteReader fields(effect->body);
    AppendRef ref;
    ref.pid = take_pid(fields);
    fields.le<std::uint16_t>();
    ref.base_offset = fields.le<std::uint64_t>();
    if (!fields.ok()) return broken(fmt::format("effect {} of kind {} does not decode", i, effect->kind));
    out.push_back(ref);
  }
  if (!reader.done()) return broken("bytes are left over");
  return out;
}

std::string entry_digest(const Entry& entry) {
  Bytes body;
  body.reserve(expected_bytes(entry));
  append_body(body, entry, PayloadLength::left_out);
  return fmt::format("{:016x}", xxh3_64(body));
}

}  // namespace queen::machine

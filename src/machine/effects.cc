// The bytes of an entry: docs/formats/entry.md. One codec for the log, for apply and, without the payload
// lengths, for the digest.
#include "machine/effects.h"

#include <fmt/format.h>

#include <array>
#include <type_traits>
#include <utility>

#include "base/hash.h"

namespace queen::machine {
namespace {

constexpr std::uint16_t kFormat = 1;
constexpr std::size_t kBodyBytesMax = 256ULL << 20;
constexpr std::size_t kFrameBytes = 4 + 8;
constexpr std::size_t kCommandBytes = 16 + 4 + 4 + 2 + 2 + 4;
constexpr std::size_t kEffectHeadBytes = 2 + 2 + 4;

enum class PayloadLength : bool { left_out, written };

// Effect ids of the catalogue, in the order of the alternatives of `Effect`. Permanent.
constexpr std::array<std::uint16_t, 9> kKinds = {0, 1, 3, 5, 7, 8, 10, 13, 14};
static_assert(kKinds.size() == std::variant_size_v<Effect>);
constexpr std::uint16_t kKindPartitionCreate = 5;
constexpr std::uint16_t kKindAppend = 7;
constexpr std::uint16_t kKindCursorSet = 8;

Error broken(std::string_view what) {
  return {Errc::corrupt, fmt::format("entry: {}", what)};
}

void append_optional(Bytes& out, const std::optional<std::int64_t>& value) {
  out.push_back(value ? '\1' : '\0');
  if (value) append_le(out, *value);
}
void append_optional(Bytes& out, const std::optional<Uuid>& value) {
  out.push_back(value ? '\1' : '\0');
  if (value) out.append(value->view());
}

struct BodyWriter {
  Bytes& out;
  PayloadLength length;

  void operator()(const Noop&) const {}
  void operator()(const QueueUpsert& effect) const {
    names({effect.tenant, effect.queue});
    append_sized32(out, effect.row.encode());
  }
  void operator()(const GroupUpsert& effect) const {
    names({effect.tenant, effect.queue, effect.group});
    append_sized32(out, effect.row.encode());
  }
  void operator()(const PartitionCreate& effect) const {
    append_le(out, effect.pid.value);
    out.append(effect.uuid.view());
    names({effect.tenant, effect.queue, effect.partition});
    append_le(out, effect.created_at);
  }
  void operator()(const Append& effect) const {
    append_le(out, effect.pid.value);
    append_le(out, effect.bucket);
    append_le(out, effect.base_offset);
    append_le(out, effect.count);
    append_le(out, effect.created_at);
    out.append(effect.hashes);
    if (length == PayloadLength::written) append_le(out, effect.payload_bytes);
  }
  void operator()(const CursorSet& effect) const {
    append_le(out, effect.pid.value);
    names({effect.group});
    append_sized32(out, effect.row.encode());
    append_le(out, effect.failed_delta);
  }
  void operator()(const DlqInsert& effect) const {
    out.append(effect.dlq_id.view());
    names({effect.tenant, effect.queue});
    append_le(out, effect.row.pid.value);
    names({effect.row.group});
    append_le(out, effect.row.offset);
    append_optional(out, effect.row.message_id);
    names({effect.row.transaction_id, effect.row.payload, effect.row.error});
    append_le(out, effect.row.retry_count);
    append_le(out, effect.row.failed_at);
  }
  void operator()(const KvPut& effect) const {
    names({effect.tenant, effect.ns, effect.key, effect.row.value});
    append_le(out, effect.row.version);
    append_optional(out, effect.row.expires_at);
    append_le(out, effect.row.created);
    append_le(out, effect.row.updated);
  }
  void operator()(const KvDelete& effect) const { names({effect.tenant, effect.ns, effect.key}); }

 private:
  void names(std::initializer_list<std::string_view> values) const {
    for (const std::string_view value : values) append_sized32(out, value);
  }
};

std::uint16_t version_of(const Effect& effect) {
  const auto* cursor = std::get_if<CursorSet>(&effect);
  return cursor != nullptr ? cursor->row.version() : std::uint16_t{1};
}

void append_effect(Bytes& out, const Effect& effect, PayloadLength length) {
  append_le(out, kKinds[effect.index()]);
  append_le(out, version_of(effect));
  const std::size_t length_at = out.size();
  append_le(out, std::uint32_t{0});
  std::visit(BodyWriter{out, length}, effect);
  store_le(out.data() + length_at, static_cast<std::uint32_t>(out.size() - length_at - 4));
}

std::size_t expected_bytes(const Entry& entry) {
  std::size_t bytes = 64 + entry.commands.size() * kCommandBytes + entry.effects.size() * 192;
  for (const Effect& effect : entry.effects)
    if (const auto* append = std::get_if<Append>(&effect)) bytes += append->hashes.size();
  return bytes;
}

void append_body(Bytes& out, const Entry& entry, PayloadLength length) {
  append_le(out, kFormat);
  append_le(out, kKindsVersion);
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

std::string take_name(ByteReader& reader) {
  return std::string(reader.sized32());
}
Uuid take_uuid(ByteReader& reader) {
  return {reader.array<16>()};
}
Pid take_pid(ByteReader& reader) {
  return Pid{reader.le<std::uint64_t>()};
}

template <class Row>
Row take_row(ByteReader& reader) {
  auto row = Row::decode(reader.sized32());
  if (row) return std::move(*row);
  reader.fail();
  return {};
}

Append take_append(ByteReader& reader) {
  Append effect;
  effect.pid = take_pid(reader);
  effect.bucket = reader.le<std::uint16_t>();
  effect.base_offset = reader.le<std::uint64_t>();
  effect.count = reader.le<std::uint32_t>();
  effect.created_at = reader.le<std::int64_t>();
  effect.hashes = Bytes(reader.take(std::size_t{effect.count} * 16));
  effect.payload_bytes = reader.le<std::uint32_t>();
  return effect;
}

CursorSet take_cursor(ByteReader& reader, std::uint16_t version) {
  CursorSet effect;
  effect.pid = take_pid(reader);
  effect.group = take_name(reader);
  effect.row = take_row<store::CursorRow>(reader);
  if (effect.row.version() != version) reader.fail();
  effect.failed_delta = reader.le<std::uint32_t>();
  return effect;
}

DlqInsert take_dlq(ByteReader& reader) {
  DlqInsert effect;
  effect.dlq_id = take_uuid(reader);
  effect.tenant = take_name(reader);
  effect.queue = take_name(reader);
  effect.row.pid = take_pid(reader);
  effect.row.group = take_name(reader);
  effect.row.offset = reader.le<std::int64_t>();
  if (reader.boolean()) effect.row.message_id = take_uuid(reader);
  effect.row.transaction_id = take_name(reader);
  effect.row.payload = take_name(reader);
  effect.row.error = take_name(reader);
  effect.row.retry_count = reader.le<std::uint32_t>();
  effect.row.failed_at = reader.le<std::int64_t>();
  return effect;
}

KvPut take_kv_put(ByteReader& reader) {
  KvPut effect;
  effect.tenant = take_name(reader);
  effect.ns = take_name(reader);
  effect.key = take_name(reader);
  effect.row.value = take_name(reader);
  effect.row.version = reader.le<std::uint64_t>();
  if (reader.boolean()) effect.row.expires_at = reader.le<std::int64_t>();
  effect.row.created = reader.le<std::int64_t>();
  effect.row.updated = reader.le<std::int64_t>();
  return effect;
}

// Braced initialisers are evaluated from left to right, so fields are read in the order of the format.
Effect take_effect(ByteReader& reader, std::uint16_t kind, std::uint16_t version) {
  switch (kind) {
    case 1: {
      QueueUpsert effect{take_name(reader), take_name(reader), {}};
      effect.row = take_row<store::QueueRow>(reader);
      return effect;
    }
    case 3: {
      GroupUpsert effect{take_name(reader), take_name(reader), take_name(reader), {}};
      effect.row = take_row<store::GroupRow>(reader);
      return effect;
    }
    case kKindPartitionCreate: {
      PartitionCreate effect{take_pid(reader),  take_uuid(reader), take_name(reader),
                             take_name(reader), take_name(reader), 0};
      effect.created_at = reader.le<std::int64_t>();
      return effect;
    }
    case kKindAppend:
      return take_append(reader);
    case kKindCursorSet:
      return take_cursor(reader, version);
    case 10:
      return take_dlq(reader);
    case 13:
      return take_kv_put(reader);
    case 14:
      return KvDelete{take_name(reader), take_name(reader), take_name(reader)};
    default:
      return Noop{};
  }
}

bool known(std::uint16_t kind, std::uint16_t version) {
  for (const std::uint16_t known_kind : kKinds)
    if (kind == known_kind) return version >= 1 && version <= (kind == kKindCursorSet ? 3 : 1);
  return false;
}

struct EffectBytes {
  std::uint16_t kind = 0, version = 0;
  BytesView body;
};

// Takes an effect's head off the reader. Errors as decode_entry.
Result<EffectBytes> take_effect_bytes(ByteReader& reader) {
  EffectBytes effect;
  effect.kind = reader.le<std::uint16_t>();
  effect.version = reader.le<std::uint16_t>();
  effect.body = reader.sized32();
  if (!reader.ok()) return broken("an effect runs over the end");
  if (!known(effect.kind, effect.version))
    return Error{Errc::invalid, fmt::format("entry: effect kind {} version {} is not known to this build",
                                            effect.kind, effect.version)};
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

// Reads everything before the effects; leaves the reader at the first effect and gives their number.
Result<std::uint32_t> take_head(ByteReader& reader, Entry& entry) {
  const auto format = reader.le<std::uint16_t>();
  if (reader.ok() && format != kFormat)
    return Error{Errc::invalid, fmt::format("entry: format {} is not known to this build", format)};
  const auto kinds = reader.le<std::uint32_t>();
  if (reader.ok() && kinds > kKindsVersion)
    return Error{Errc::invalid, fmt::format("entry: catalogue {} is above {}, the highest of this build",
                                            kinds, kKindsVersion)};
  if (kinds < kKindsVersion) return broken("the catalogue is older than its effects");
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
  return effects;
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
  const auto count = take_head(reader, entry);
  if (!count) return count.error();
  // An effect is far larger in memory than its smallest encoding, so the vector grows with what was really
  // read.
  for (std::uint32_t i = 0; i < *count; ++i) {
    const auto effect = take_effect_bytes(reader);
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
  Entry head;
  const auto count = take_head(reader, head);
  if (!count) return count.error();
  std::vector<AppendRef> out;
  for (std::uint32_t i = 0; i < *count; ++i) {
    const auto effect = take_effect_bytes(reader);
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

std::uint16_t kind_of(const Effect& effect) {
  return kKinds[effect.index()];
}

std::string entry_digest(const Entry& entry) {
  Bytes body;
  body.reserve(expected_bytes(entry));
  append_body(body, entry, PayloadLength::left_out);
  return fmt::format("{:016x}", xxh3_64(body));
}

}  // namespace queen::machine

#include "machine/detail/effect_codec.h"

#include <array>
#include <utility>

namespace queen::machine::detail {
namespace {

constexpr char kScopeQueue = '\0';  // the only scope of garbage that this catalogue writes

// Effects of the catalogue, in the order of the alternatives of `Effect`. Kinds are permanent; a kind's
// versions are written by its row (a cursor, a queue) or are one.
struct Kind {
  std::uint16_t kind = 0;
  std::uint16_t versions_from = 1, versions_to = 1;
  std::uint32_t catalogue = 1;
  std::uint32_t catalogue_of_last = 0;  // of its newest version, where that came later

  std::uint32_t catalogue_of(std::uint16_t version) const {
    return catalogue_of_last != 0 && version == versions_to ? catalogue_of_last : catalogue;
  }
};
constexpr std::array<Kind, 29> kKinds = {{{0},
                                          {1, 1, 2, 1, 3},
                                          {2, 1, 1, 2},
                                          {3},
                                          {4, 1, 1, 2},
                                          {5},
                                          {6, 1, 1, 2},
                                          {kKindAppend},
                                          {8, 1, 4, 1, 3},
                                          {9, 1, 1, 2},
                                          {10},
                                          {11, 1, 1, 2},
                                          {12, 2, 2, 2},
                                          {13},
                                          {14},
                                          {27, 1, 1, 2},
                                          {28, 1, 1, 2},
                                          {21, 1, 1, 3},
                                          {22, 1, 1, 3},
                                          {15, 1, 1, 4},
                                          {16, 1, 1, 4},
                                          {17, 1, 1, 4},
                                          {18, 1, 1, 4},
                                          {19, 1, 1, 4},
                                          {20, 1, 1, 4},
                                          {23, 1, 1, 4},
                                          {24, 1, 1, 4},
                                          {25, 1, 1, 4},
                                          {26, 1, 1, 4}}};
static_assert(kKinds.size() == std::variant_size_v<Effect>);

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
  void operator()(const QueueDelete& effect) const { names({effect.tenant, effect.queue}); }
  void operator()(const GroupDelete& effect) const { names({effect.tenant, effect.queue, effect.group}); }
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
  void operator()(const PartitionDelete& effect) const { append_le(out, effect.pid.value); }
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
  void operator()(const CursorDelete& effect) const {
    append_le(out, effect.pid.value);
    names({effect.group});
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
  void operator()(const DlqDelete& effect) const {
    names({effect.tenant, effect.queue});
    out.append(effect.dlq_id.view());
  }
  void operator()(const Watermark& effect) const {
    append_le(out, effect.pid.value);
    append_le(out, effect.log_start);
    append_le(out, effect.txns_start);
    append_le(out, effect.rows_start);
    append_le(out, effect.retained_bytes);
    append_optional(out, effect.oldest_live_at);
    append_le(out, effect.dead_letters_max);
  }
  void operator()(const KvPut& effect) const {
    names({effect.tenant, effect.ns, effect.key, effect.row.value});
    append_le(out, effect.row.version);
    append_optional(out, effect.row.expires_at);
    append_le(out, effect.row.created);
    append_le(out, effect.row.updated);
  }
  void operator()(const KvDelete& effect) const { names({effect.tenant, effect.ns, effect.key}); }
  void operator()(const GarbageAdd& effect) const {
    out.push_back(kScopeQueue);
    out.append(effect.queue_uuid.view());
    append_le(out, effect.deleted_at);
    pids(effect.pids);
  }
  void operator()(const DeleteChunk& effect) const {
    out.push_back(kScopeQueue);
    append_le(out, effect.limit);
    pids(effect.pids);
  }
  void operator()(const TraceAppend& effect) const {
    names({effect.tenant});
    out.push_back(effect.pid ? '\1' : '\0');
    if (effect.pid) append_le(out, effect.pid->value);
    names({effect.transaction_id});
    append_sized32(out, effect.row.encode());
  }
  void operator()(const TraceExpire& effect) const {
    append_le(out, effect.cutoff);
    append_le(out, effect.limit);
  }
  void operator()(const TimerUpsert& effect) const {
    names({effect.tenant, effect.queue, effect.key});
    append_sized32(out, effect.row.encode());
  }
  void operator()(const TimerDelete& effect) const { names({effect.tenant, effect.queue, effect.key}); }
  void operator()(const TimerBackoff& effect) const {
    names({effect.tenant, effect.queue, effect.key});
    append_le(out, effect.visible_at);
    append_le(out, effect.attempts);
    names({effect.last_error});
    append_le(out, effect.updated_at);
  }
  void operator()(const StreamsQueryUpsert& effect) const {
    names({effect.tenant});
    out.append(effect.id.view());
    append_sized32(out, effect.row.encode());
  }
  void operator()(const StreamsStatePut& effect) const {
    state_of(effect.id, effect.pid, effect.key);
    append_sized32(out, effect.row.encode());
  }
  void operator()(const StreamsStateDelete& effect) const { state_of(effect.id, effect.pid, effect.key); }
  void operator()(const FlagSet& effect) const {
    names({effect.name});
    out.push_back(effect.value ? '\1' : '\0');
    if (effect.value) names({*effect.value});
  }
  void operator()(const QuotaSet& effect) const {
    out.push_back(static_cast<char>(effect.kind));
    names({effect.tenant});
    out.push_back(effect.row ? '\1' : '\0');
    if (effect.row) append_sized32(out, effect.row->encode());
  }
  void operator()(const EphemeralConfigSet& effect) const {
    names({effect.tenant, effect.queue});
    append_sized32(out, effect.row.encode());
  }
  void operator()(const EphemeralConfigDelete& effect) const { names({effect.tenant, effect.queue}); }

 private:
  void state_of(const Uuid& id, Pid pid, std::string_view key) const {
    out.append(id.view());
    append_le(out, pid.value);
    names({key});
  }
  void pids(const std::vector<Pid>& values) const {
    append_le(out, static_cast<std::uint32_t>(values.size()));
    for (const Pid pid : values) append_le(out, pid.value);
  }
  void names(std::initializer_list<std::string_view> values) const {
    for (const std::string_view value : values) append_sized32(out, value);
  }
};

std::uint16_t version_of(const Effect& effect) {
  if (const auto* cursor = std::get_if<CursorSet>(&effect)) return cursor->row.version();
  if (const auto* queue = std::get_if<QueueUpsert>(&effect)) return queue->row.version();
  return kKinds[effect.index()].versions_from;
}

std::string take_name(ByteReader& reader) {
  return std::string(reader.sized32());
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

Watermark take_watermark(ByteReader& reader) {
  Watermark effect;
  effect.pid = take_pid(reader);
  effect.log_start = reader.le<std::int64_t>();
  effect.txns_start = reader.le<std::int64_t>();
  effect.rows_start = reader.le<std::int64_t>();
  effect.retained_bytes = reader.le<std::uint64_t>();
  if (reader.boolean()) effect.oldest_live_at = reader.le<std::int64_t>();
  effect.dead_letters_max = reader.le<std::uint32_t>();
  return effect;
}

void take_scope(ByteReader& reader) {
  if (reader.le<char>() != kScopeQueue) reader.fail();
}

std::vector<Pid> take_pids(ByteReader& reader) {
  const std::size_t count = reader.le<std::uint32_t>();
  std::vector<Pid> pids;
  if (count > reader.left() / sizeof(std::uint64_t)) {
    reader.fail();
    return pids;
  }
  pids.reserve(count);
  for (std::size_t i = 0; i < count; ++i) pids.push_back(take_pid(reader));
  return pids;
}

GarbageAdd take_garbage(ByteReader& reader) {
  take_scope(reader);
  GarbageAdd effect{take_uuid(reader), reader.le<std::int64_t>(), {}};
  effect.pids = take_pids(reader);
  return effect;
}

DeleteChunk take_chunk(ByteReader& reader) {
  take_scope(reader);
  DeleteChunk effect{reader.le<std::uint32_t>(), {}};
  effect.pids = take_pids(reader);
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

TraceAppend take_trace(ByteReader& reader) {
  TraceAppend effect;
  effect.tenant = take_name(reader);
  if (reader.boolean()) effect.pid = take_pid(reader);
  effect.transaction_id = take_name(reader);
  effect.row = take_row<store::TraceRow>(reader);
  return effect;
}

TimerBackoff take_backoff(ByteReader& reader) {
  TimerBackoff effect{take_name(reader), take_name(reader), take_name(reader), 0, 0, {}, 0};
  effect.visible_at = reader.le<std::int64_t>();
  effect.attempts = reader.le<std::uint32_t>();
  effect.last_error = take_name(reader);
  effect.updated_at = reader.le<std::int64_t>();
  return effect;
}

FlagSet take_flag(ByteReader& reader) {
  FlagSet effect{take_name(reader), std::nullopt};
  if (reader.boolean()) effect.value = take_name(reader);
  return effect;
}

QuotaSet take_quota(ByteReader& reader) {
  QuotaSet effect;
  const auto kind = reader.le<std::uint8_t>();
  if (kind > static_cast<std::uint8_t>(store::QuotaKind::streams))
    reader.fail();
  else
    effect.kind = static_cast<store::QuotaKind>(kind);
  effect.tenant = take_name(reader);
  if (reader.boolean()) effect.row = take_row<store::QuotaRow>(reader);
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

// Of the kinds that catalogue 4 brought: timers, streams, flags, quotas, in-memory queues.
Effect take_state_effect(ByteReader& reader, std::uint16_t kind) {
  switch (kind) {
    case 15: {
      TimerUpsert effect{take_name(reader), take_name(reader), take_name(reader), {}};
      effect.row = take_row<store::TimerRow>(reader);
      return effect;
    }
    case 16:
      return TimerDelete{take_name(reader), take_name(reader), take_name(reader)};
    case 17:
      return take_backoff(reader);
    case 18: {
      StreamsQueryUpsert effect{take_name(reader), take_uuid(reader), {}};
      effect.row = take_row<store::StreamsQueryRow>(reader);
      return effect;
    }
    case 19: {
      StreamsStatePut effect{take_uuid(reader), take_pid(reader), take_name(reader), {}};
      effect.row = take_row<store::StreamsStateRow>(reader);
      return effect;
    }
    case 20:
      return StreamsStateDelete{take_uuid(reader), take_pid(reader), take_name(reader)};
    case 23:
      return take_flag(reader);
    case 24:
      return take_quota(reader);
    case 25: {
      EphemeralConfigSet effect{take_name(reader), take_name(reader), {}};
      effect.row = take_row<store::EphemeralRow>(reader);
      return effect;
    }
    case 26:
      return EphemeralConfigDelete{take_name(reader), take_name(reader)};
    default:
      return Noop{};
  }
}

}  // namespace

Uuid take_uuid(ByteReader& reader) {
  return {reader.array<16>()};
}
Pid take_pid(ByteReader& reader) {
  return Pid{reader.le<std::uint64_t>()};
}

void append_effect(Bytes& out, const Effect& effect, PayloadLength length) {
  append_le(out, kKinds[effect.index()].kind);
  append_le(out, version_of(effect));
  const std::size_t length_at = out.size();
  append_le(out, std::uint32_t{0});
  std::visit(BodyWriter{out, length}, effect);
  store_le(out.data() + length_at, static_cast<std::uint32_t>(out.size() - length_at - 4));
}

// Braced initialisers are evaluated from left to right, so fields are read in the order of the format.
Effect take_effect(ByteReader& reader, std::uint16_t kind, std::uint16_t version) {
  switch (kind) {
    case 1: {
      QueueUpsert effect{take_name(reader), take_name(reader), {}};
      effect.row = take_row<store::QueueRow>(reader);
      if (effect.row.version() != version) reader.fail();
      return effect;
    }
    case 2:
      return QueueDelete{take_name(reader), take_name(reader)};
    case 4:
      return GroupDelete{take_name(reader), take_name(reader), take_name(reader)};
    case 6:
      return PartitionDelete{take_pid(reader)};
    case 9:
      return CursorDelete{take_pid(reader), take_name(reader)};
    case 11: {
      DlqDelete effect{take_name(reader), take_name(reader), {}};
      effect.dlq_id = take_uuid(reader);
      return effect;
    }
    case 12:
      return take_watermark(reader);
    case 27:
      return take_garbage(reader);
    case 28:
      return take_chunk(reader);
    case 21:
      return take_trace(reader);
    case 22:
      return TraceExpire{reader.le<std::int64_t>(), reader.le<std::uint32_t>()};
    case 3: {
      GroupUpsert effect{take_name(reader), take_name(reader), take_name(reader), {}};
      effect.row = take_row<store::GroupRow>(reader);
      return effect;
    }
    case 5: {
      PartitionCreate effect{take_pid(reader),  take_uuid(reader), take_name(reader),
                             take_name(reader), take_name(reader), 0};
      effect.created_at = reader.le<std::int64_t>();
      return effect;
    }
    case kKindAppend:
      return take_append(reader);
    case 8:
      return take_cursor(reader, version);
    case 10:
      return take_dlq(reader);
    case 13:
      return take_kv_put(reader);
    case 14:
      return KvDelete{take_name(reader), take_name(reader), take_name(reader)};
    case 0:
      return Noop{};
    default:
      return take_state_effect(reader, kind);
  }
}

std::optional<std::uint32_t> catalogue_of(std::uint16_t kind, std::uint16_t version) {
  for (const Kind& known : kKinds)
    if (known.kind == kind && version >= known.versions_from && version <= known.versions_to)
      return known.catalogue_of(version);
  return std::nullopt;
}
std::uint16_t kind_of(const Effect& effect) {
  return kKinds[effect.index()].kind;
}

std::uint32_t catalogue_of(const Effect& effect) {
  return kKinds[effect.index()].catalogue_of(version_of(effect));
}

}  // namespace queen::machine::detail

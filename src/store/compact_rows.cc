// The rows that there are many of, of partitions and timers, in as few bytes as they need: memory grows with
// them (LIM-2).
#include <fmt/format.h>

#include "base/invariant.h"
#include "store/detail/varint.h"
#include "store/rows.h"

namespace queen::store {
namespace {

using namespace detail;

constexpr char kVersion = '\2';

// How a partition's tenant is written.
enum class TenantAs : std::uint8_t { nothing = 0, uuid = 1, text = 2 };  // nothing: the default tenant
constexpr std::uint8_t kTenantMask = 3;
constexpr std::uint8_t kOldestLiveBit = 4;
constexpr std::uint8_t kFlagsMax = kTenantMask | kOldestLiveBit;

// What a timer has beside the usual: a partition of its own, and so on. `kTimerUuid`: the transactionId is a
// UUID and written as one.
constexpr std::uint8_t kTimerNamed = 1, kTimerVisible = 2, kTimerRaw = 4, kTimerEncrypted = 8;
constexpr std::uint8_t kTimerRefused = 16, kTimerSubject = 32, kTimerUuid = 64;
constexpr std::uint8_t kTimerFlags = 127;
constexpr std::string_view kUsualPartition = "Default";

Error broken(std::string_view row) {
  return {Errc::corrupt, fmt::format("a row of the store does not decode as {}", row)};
}

bool take_version(ByteReader& reader) {
  return reader.le<std::uint8_t>() == static_cast<std::uint8_t>(kVersion);
}

// The UUID whose spelling `text` is.
std::optional<Uuid> uuid_of(std::string_view text) {
  auto uuid = Uuid::parse(text);
  if (uuid && uuid->str() != text) uuid.reset();
  return uuid;
}

struct Tenant {
  TenantAs as = TenantAs::text;
  Uuid uuid;
};
Tenant tenant_of(std::string_view text) {
  if (text == kDefaultTenant) return {TenantAs::nothing, {}};
  const auto uuid = uuid_of(text);
  if (!uuid) return {};
  return {TenantAs::uuid, *uuid};
}

std::string take_tenant(ByteReader& reader, std::uint8_t as) {
  switch (static_cast<TenantAs>(as)) {
    case TenantAs::nothing:
      return std::string(kDefaultTenant);
    case TenantAs::uuid:
      return Uuid{reader.array<16>()}.str();
    case TenantAs::text:
      return std::string(take_short(reader));
  }
  reader.fail();
  return {};
}

}  // namespace

Bytes PartitionRow::encode() const {
  const Tenant owner = tenant_of(tenant);
  Bytes out;
  out.reserve(64 + tenant.size() + queue.size() + partition.size());
  out.push_back(kVersion);
  out.push_back(
      static_cast<char>(static_cast<std::uint8_t>(owner.as) | (oldest_live_at ? kOldestLiveBit : 0)));
  out.append(uuid.view());
  if (owner.as == TenantAs::uuid) out.append(owner.uuid.view());
  if (owner.as == TenantAs::text) append_short(out, tenant);
  append_short(out, queue);
  append_short(out, partition);
  append_distance(out, last_offset, -1);
  append_distance(out, log_start, 0);
  append_distance(out, txns_start, log_start);
  append_distance(out, rows_start, txns_start);
  append_le(out, created_at);
  append_distance(out, last_write_at, created_at);
  append_distance(out, last_created_at, last_write_at);
  if (oldest_live_at) append_distance(out, *oldest_live_at, last_write_at);
  return out;
}

Result<PartitionRow> PartitionRow::decode(BytesView bytes) {
  ByteReader reader(bytes);
  if (!take_version(reader)) return broken("partition");
  const auto flags = reader.le<std::uint8_t>();
  if (flags > kFlagsMax) return broken("partition");
  const auto as = static_cast<std::uint8_t>(flags & kTenantMask);
  PartitionRow row;
  row.uuid.bytes = reader.array<16>();
  row.tenant = take_tenant(reader, as);
  row.queue.assign(take_short(reader));
  row.partition.assign(take_short(reader));
  row.last_offset = take_distance(reader, -1);
  row.log_start = take_distance(reader, 0);
  row.txns_start = take_distance(reader, row.log_start);
  row.rows_start = take_distance(reader, row.txns_start);
  row.created_at = reader.le<std::int64_t>();
  row.last_write_at = take_distance(reader, row.created_at);
  row.last_created_at = take_distance(reader, row.last_write_at);
  if ((flags & kOldestLiveBit) != 0) row.oldest_live_at = take_distance(reader, row.last_write_at);
  // A tenant has one spelling: as text only what is no UUID, as UUID only what is not the default tenant.
  if (!reader.done() || tenant_of(row.tenant).as != static_cast<TenantAs>(as)) return broken("partition");
  return row;
}

Bytes encode_append_row(std::int64_t end, std::int64_t created_at, BytesView hashes,
                        std::optional<std::uint32_t> retained_bytes) {
  INVARIANT(hashes.size() % 16 == 0, "hashes of {} bytes", hashes.size());
  Bytes out;
  out.reserve(28 + hashes.size());
  out.push_back(kVersion);
  append_varint(out, static_cast<std::uint64_t>(end));
  append_le(out, created_at);
  append_varint(out, hashes.size() / 16);
  out.append(hashes);
  append_varint(out, retained_bytes ? std::uint64_t{*retained_bytes} + 1 : 0);
  return out;
}
Bytes AppendRow::encode() const {
  static_assert(sizeof(Hash128) == 16);
  const BytesView raw(reinterpret_cast<const char*>(hashes.data()), hashes.size() * sizeof(Hash128));
  return encode_append_row(end, created_at, raw, retained_bytes);
}
Result<AppendRow> AppendRow::decode(BytesView bytes) {
  const auto view = AppendRowView::decode(bytes);
  if (!view) return view.error();
  AppendRow row{view->end, view->created_at, {}, view->retained_bytes};
  row.hashes.reserve(view->count());
  for (std::size_t i = 0; i < view->count(); ++i) row.hashes.push_back(view->hash(i));
  return row;
}

Hash128 AppendRowView::hash(std::size_t index) const {
  INVARIANT(index < count(), "hash {} of {}", index, count());
  Hash128 out;
  std::memcpy(out.canonical.data(), hashes.data() + index * 16, 16);
  return out;
}
std::optional<std::size_t> AppendRowView::find(const Hash128& wanted) const {
  for (std::size_t at = 0; at < hashes.size(); at += 16)
    if (std::memcmp(hashes.data() + at, wanted.canonical.data(), 16) == 0) return at / 16;
  return std::nullopt;
}
Result<AppendRowView> AppendRowView::decode(BytesView bytes) {
  ByteReader reader(bytes);
  const bool known = take_version(reader);
  AppendRowView row;
  row.end = static_cast<std::int64_t>(take_varint(reader));
  row.created_at = reader.le<std::int64_t>();
  const std::uint64_t count = take_varint(reader);
  if (count > reader.left() / 16) reader.fail();
  row.hashes = reader.take(count * 16);
  const std::uint64_t retained = take_varint(reader);
  if (retained != 0) row.retained_bytes = static_cast<std::uint32_t>(retained - 1);
  if (!known || !reader.done() || row.end < 0 || retained > std::uint64_t{1} << 32)
    return broken("append row");
  return row;
}

Bytes TimerRow::encode() const {
  const auto uuid = uuid_of(transaction_id);
  const bool refused = attempts != 0 || last_error.has_value();
  const auto flag = [](bool is, std::uint8_t bit) { return is ? int{bit} : 0; };
  const int flags = flag(partition != kUsualPartition, kTimerNamed) |
                    flag(visible_at.has_value(), kTimerVisible) | flag(raw, kTimerRaw) |
                    flag(encrypted, kTimerEncrypted) | flag(refused, kTimerRefused) |
                    flag(producer_sub.has_value(), kTimerSubject) | flag(uuid.has_value(), kTimerUuid);
  Bytes out;
  out.reserve(96 + partition.size() + transaction_id.size() + payload.size());
  out.push_back(kVersion);
  out.push_back(static_cast<char>(flags));
  append_le(out, deliver_at);
  append_distance(out, created, deliver_at);
  append_distance(out, updated, created);
  out.append(message_id.view());
  if (uuid) out.append(uuid->view());
  if (!uuid) append_short(out, transaction_id);
  if (partition != kUsualPartition) append_short(out, partition);
  if (visible_at) append_distance(out, *visible_at, deliver_at);
  if (refused) {
    append_varint(out, attempts);
    append_varint(out, last_error ? last_error->size() + 1 : 0);
    out.append(last_error.value_or(std::string()));
  }
  if (producer_sub) append_short(out, *producer_sub);
  append_short(out, payload);
  return out;
}

Result<TimerRow> TimerRow::decode(BytesView bytes) {
  ByteReader reader(bytes);
  const bool known = take_version(reader);
  const auto flags = reader.le<std::uint8_t>();
  TimerRow row;
  row.deliver_at = reader.le<std::int64_t>();
  row.created = take_distance(reader, row.deliver_at);
  row.updated = take_distance(reader, row.created);
  row.message_id.bytes = reader.array<16>();
  if ((flags & kTimerUuid) != 0) row.transaction_id = Uuid{reader.array<16>()}.str();
  if ((flags & kTimerUuid) == 0) row.transaction_id.assign(take_short(reader));
  row.partition.assign((flags & kTimerNamed) != 0 ? take_short(reader) : kUsualPartition);
  if ((flags & kTimerVisible) != 0) row.visible_at = take_distance(reader, row.deliver_at);
  std::uint64_t attempts = 0, error = 0;
  if ((flags & kTimerRefused) != 0) {
    attempts = take_varint(reader);
    error = take_varint(reader);
    if (error != 0) row.last_error = std::string(reader.take(error - 1));
  }
  if ((flags & kTimerSubject) != 0) row.producer_sub = std::string(take_short(reader));
  row.attempts = static_cast<std::uint32_t>(attempts);
  row.raw = (flags & kTimerRaw) != 0;
  row.encrypted = (flags & kTimerEncrypted) != 0;
  row.payload.assign(take_short(reader));
  // Everything has one spelling.
  const bool one_spelling = ((flags & kTimerNamed) != 0) == (row.partition != kUsualPartition) &&
                            ((flags & kTimerUuid) != 0) == uuid_of(row.transaction_id).has_value() &&
                            ((flags & kTimerRefused) != 0) == (attempts != 0 || error != 0) &&
                            attempts <= UINT32_MAX;
  if (!known || !reader.done() || flags > kTimerFlags || !one_spelling) return broken("timer");
  return row;
}

Bytes encode_i64_row(std::int64_t value) {
  Bytes out(1, kVersion);
  append_varint(out, fold(value));
  return out;
}
Result<std::int64_t> decode_i64_row(BytesView bytes) {
  ByteReader reader(bytes);
  const bool known = take_version(reader);
  const std::int64_t value = unfold(take_varint(reader));
  if (!known || !reader.done()) return broken("a number");
  return value;
}
Bytes encode_pid_row(Pid pid) {
  Bytes out(1, kVersion);
  append_varint(out, pid.value);
  return out;
}
Result<Pid> decode_pid_row(BytesView bytes) {
  ByteReader reader(bytes);
  const bool known = take_version(reader);
  const Pid pid{take_varint(reader)};
  if (!known || !reader.done()) return broken("a pid");
  return pid;
}

}  // namespace queen::store

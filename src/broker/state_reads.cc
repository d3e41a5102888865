#include "broker/state_reads.h"

#include "base/invariant.h"
#include "broker/store_steps.h"

namespace queen::broker {
namespace {

using store::Keyspace;

template <class Row>
std::optional<Row> read(const store::Store& store, Keyspace keyspace, const Bytes& key) {
  const auto gate = store.read_gate();
  const auto bytes = store.get(keyspace, key);
  if (!bytes) return std::nullopt;
  auto row = Row::decode(*bytes);
  INVARIANT(row.has_value(), "a row of {} does not decode", store::name_of(keyspace));
  return std::move(*row);
}

}  // namespace

bool StateReads::encrypts(std::string_view tenant, std::string_view queue) const {
  const auto row = read<store::QueueRow>(store_, Keyspace::queues, store::queue_key(tenant, queue));
  return row && row->encryption_enabled;
}

std::optional<Bytes> StateReads::flag(std::string_view name) const {
  const auto gate = store_.read_gate();
  const auto bytes = store_.get(Keyspace::flags, store::flag_key(name));
  if (!bytes) return std::nullopt;
  auto value = store::decode_bytes_row(*bytes);
  INVARIANT(value.has_value(), "the flag {} does not decode", name);
  return std::move(*value);
}

std::optional<store::QuotaRow> StateReads::quota(store::QuotaKind kind, std::string_view tenant) const {
  return read<store::QuotaRow>(store_, Keyspace::quotas, store::quota_key(kind, tenant));
}

std::vector<std::pair<std::string, store::QuotaRow>> StateReads::quotas(store::QuotaKind kind) const {
  std::vector<std::pair<std::string, store::QuotaRow>> out;
  Bytes prefix;
  prefix += static_cast<char>(kind);
  each_row(store_, Keyspace::quotas, prefix, [&](BytesView key, BytesView value) {
    store::KeyReader reader(key);
    reader.u8();
    std::string tenant = reader.name();
    INVARIANT(reader.done(), "a key of quotas does not parse");
    out.emplace_back(std::move(tenant), decode_row<store::QuotaRow>(value));
    return true;
  });
  return out;
}

std::optional<store::EphemeralRow> StateReads::ephemeral(std::string_view tenant,
                                                         std::string_view queue) const {
  return read<store::EphemeralRow>(store_, Keyspace::eph_config, store::eph_config_key(tenant, queue));
}

std::vector<std::pair<std::string, store::EphemeralRow>> StateReads::ephemerals(
    std::string_view tenant) const {
  std::vector<std::pair<std::string, store::EphemeralRow>> out;
  const auto gate = store_.read_gate();
  store_.scan(Keyspace::eph_config, store::eph_config_prefix(tenant), {},
              [&](BytesView key, BytesView value) {
                auto name = store::parse_eph_config_key(key);
                auto row = store::EphemeralRow::decode(value);
                INVARIANT(name && row, "a row of eph_config does not decode");
                out.emplace_back(std::move(name->queue), std::move(*row));
                return true;
              });
  return out;
}

}  // namespace queen::broker

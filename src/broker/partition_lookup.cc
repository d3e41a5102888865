#include "broker/partition_lookup.h"

#include <charconv>

#include "broker/store_steps.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

using store::Keyspace;

std::optional<Pid> by_number(const store::Store& store, const std::string& tenant, Pid pid) {
  const auto gate = store.read_gate();
  const auto bytes = store.get(Keyspace::partitions, store::partition_key(pid));
  if (!bytes) return std::nullopt;
  return decode_row<store::PartitionRow>(*bytes).tenant == tenant ? std::optional(pid) : std::nullopt;
}

std::optional<Pid> by_uuid(const store::Store& store, const std::string& tenant, const Uuid& uuid) {
  std::optional<Pid> found;
  each_row(store, Keyspace::partitions, {}, [&](BytesView key, BytesView value) {
    // Most rows are passed over without being decoded.
    if (value.find(uuid.view()) == BytesView::npos) return true;
    const auto row = decode_row<store::PartitionRow>(value);
    if (row.uuid != uuid || row.tenant != tenant) return true;
    found = store::parse_partition_key(key);
    return false;
  });
  return found;
}

}  // namespace

std::optional<Pid> find_partition(const store::Store& store, const std::string& tenant,
                                  std::string_view text) {
  if (const auto uuid = Uuid::parse(text)) return by_uuid(store, tenant, *uuid);
  Pid pid;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid.value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return by_number(store, tenant, pid);
}

}  // namespace queen::broker

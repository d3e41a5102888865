#include "store/detail/stored_value.h"

#include "store/checkpoint_file.h"
#include "store/keys.h"
#include "store/store.h"

namespace queen::store::detail {

namespace {
constexpr std::size_t kChecksumBytes = 8;
}

Result<Stored> verified(Keyspace keyspace, BytesView key, BytesView stored) {
  if (stored.size() < kChecksumBytes) return row_damage(keyspace, key, "value is shorter than its checksum");
  const BytesView value = stored.substr(0, stored.size() - kChecksumBytes);
  const auto checksum = load_le<std::uint64_t>(stored.data() + value.size());
  if (row_checksum(keyspace, key, value) != checksum)
    return row_damage(keyspace, key, "checksum does not match");
  return Stored{value, checksum};
}

bool is_of_file(Keyspace keyspace, BytesView key) {
  return keyspace == Keyspace::meta && (key == kMetaStoreFormat || key.starts_with(kMetaRowsPrefix));
}

Status KeyOrder::next(Keyspace keyspace, BytesView key) {
  if (key.empty() || key.size() > kKeyBytesMax)
    return row_damage(keyspace, key, "key length is impossible");
  if (key <= before_) return row_damage(keyspace, key, "keys are out of order");
  before_.assign(key);
  return {};
}

}  // namespace queen::store::detail

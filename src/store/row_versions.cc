#include "store/row_versions.h"

#include <fmt/format.h>

#include <bitset>

#include "store/damage.h"
#include "store/detail/lmdb_checkpoint.h"
#include "store/row_check.h"

namespace queen::store {
namespace {

// `meta` values, and rows of tables that only say that a key is there, have no version byte.
bool has_version(Keyspace keyspace, BytesView value) {
  return keyspace != Keyspace::meta && !value.empty();
}

Error of_another_version(const std::string& path, Keyspace keyspace, BytesView key, BytesView value,
                         const Error& why) {
  return row_damage(
      keyspace, key,
      fmt::format("the row has version {}, which this build (store_format {}) does not read ({}): {} was "
                  "written by another version of Queen: {}",
                  static_cast<unsigned char>(value.front()), detail::kStoreFormat, why.what, path,
                  detail::kOtherVersionRepair));
}

}  // namespace

Status check_row_versions(const Store& store, const std::string& path) {
  Status status;
  for (std::size_t i = 0; i < kKeyspaceCount && status; ++i) {
    const auto keyspace = static_cast<Keyspace>(i);
    std::bitset<256> seen;
    store.scan(keyspace, {}, {}, [&](BytesView key, BytesView value) {
      if (!has_version(keyspace, value)) return true;
      const auto version = static_cast<unsigned char>(value.front());
      if (seen.test(version)) return true;
      seen.set(version);
      const auto fits = check_row(keyspace, key, value);
      if (!fits) status = of_another_version(path, keyspace, key, value, fits.error());
      return fits.has_value();
    });
  }
  return status;
}

}  // namespace queen::store

#include "store/detail/lmdb.h"

#include <fmt/format.h>

#include <cerrno>

namespace queen::store::detail {
namespace {

constexpr std::uint64_t kMapRoundBytes = 64 << 10;
constexpr unsigned kTablesMax = 64;
constexpr unsigned kReadersMax = 1024;

Errc code_of(int code) {
  switch (code) {
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
      return Errc::full;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_PANIC:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
      return Errc::corrupt;
    default:
      return Errc::unavailable;
  }
}

}  // namespace

Error lmdb_error(int code, std::string_view doing, const std::string& path) {
  std::string what = fmt::format("{} {}: {}", doing, path, mdb_strerror(code));
  if (code == MDB_MAP_FULL) what += " (the next open makes it larger)";
  return {code_of(code), std::move(what), code > 0 ? code : 0};
}

Result<Env> open_env(const std::string& directory, std::uint64_t map_bytes) {
  const std::string path = directory + "/data.mdb";
  MDB_env* raw = nullptr;
  if (const int code = mdb_env_create(&raw); code != 0) return lmdb_error(code, "opening", path);
  Env env(raw);
  int code = mdb_env_set_mapsize(raw, map_bytes);
  if (code == 0) code = mdb_env_set_maxdbs(raw, kTablesMax);
  if (code == 0) code = mdb_env_set_maxreaders(raw, kReadersMax);
  // Every commit syncs data before the meta page that names it. MDB_NOTLS: transactions move between threads.
  if (code == 0) code = mdb_env_open(raw, directory.c_str(), MDB_NOTLS, 0640);
  if (code == 0) return env;
  return Error{Errc::corrupt, fmt::format("{} cannot be opened: {}", path, mdb_strerror(code)),
               code > 0 ? code : 0};
}

std::uint64_t rounded_map(std::uint64_t bytes) {
  return (bytes + kMapRoundBytes - 1) / kMapRoundBytes * kMapRoundBytes;
}

}  // namespace queen::store::detail

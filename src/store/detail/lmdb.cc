#include "store/detail/lmdb.h"

#include <fmt/format.h>

#include <cerrno>

namespace queen::store::detail {
namespace {

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
  if (code == MDB_MAP_FULL) what += " (the map is full; the next open makes it larger)";
  return {code_of(code), std::move(what), code > 0 ? code : 0};
}

}  // namespace queen::store::detail

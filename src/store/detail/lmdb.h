// LMDB handles that close themselves, and its error codes as ours.
#pragma once

#include <lmdb.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace queen::store::detail {

struct EnvCloser {
  void operator()(MDB_env* env) const { mdb_env_close(env); }
};
using Env = std::unique_ptr<MDB_env, EnvCloser>;
struct TxnAborter {
  void operator()(MDB_txn* txn) const { mdb_txn_abort(txn); }
};
using Txn = std::unique_ptr<MDB_txn, TxnAborter>;
struct CursorCloser {
  void operator()(MDB_cursor* cursor) const { mdb_cursor_close(cursor); }
};
using Cursor = std::unique_ptr<MDB_cursor, CursorCloser>;

inline MDB_val to_val(BytesView bytes) {
  return {bytes.size(), const_cast<char*>(bytes.data())};
}
inline BytesView to_view(const MDB_val& value) {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

// full: no room in the map or on the volume; corrupt: LMDB found its own structure wrong; unavailable: the
// rest.
Error lmdb_error(int code, std::string_view doing, const std::string& path);

// Opens `directory`/data.mdb with full sync; makes it when it is not there. Errors: corrupt (LMDB cannot use
// it: names path and cause).
Result<Env> open_env(const std::string& directory, std::uint64_t map_bytes);
// A map size that LMDB takes as it is.
std::uint64_t rounded_map(std::uint64_t bytes);

}  // namespace queen::store::detail

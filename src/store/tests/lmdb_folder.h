// A checkpoint file in a directory of its own, and ways to change it that no code of ours has.
#pragma once

#include <gtest/gtest.h>
#include <lmdb.h>

#include <filesystem>
#include <memory>
#include <string>

#include "store/checkpoint_file.h"
#include "store/detail/lmdb_checkpoint.h"

namespace queen::store {

// A directory that goes away with the test.
class LmdbFolder {
 public:
  LmdbFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "queen-store-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~LmdbFolder() { std::filesystem::remove_all(path_); }
  LmdbFolder(const LmdbFolder&) = delete;
  LmdbFolder& operator=(const LmdbFolder&) = delete;
  std::string store() const { return path_ + "/store"; }
  std::string file() const { return path_ + "/store/data.mdb"; }

 private:
  std::string path_;
};

inline Result<std::unique_ptr<CheckpointFile>> open_small(const LmdbFolder& folder) {
  return detail::open_lmdb(folder.store(), {std::uint64_t{256} << 20, true}, {null_log(), "store"});
}

// Changes a table through LMDB itself.
template <class Change>
void change_table(const LmdbFolder& folder, const char* table, Change change) {
  MDB_env* env = nullptr;
  ASSERT_EQ(mdb_env_create(&env), 0);
  mdb_env_set_maxdbs(env, 64);
  mdb_env_set_mapsize(env, 256 << 20);
  ASSERT_EQ(mdb_env_open(env, folder.store().c_str(), 0, 0640), 0);
  MDB_txn* txn = nullptr;
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
  MDB_dbi dbi = 0;
  ASSERT_EQ(mdb_dbi_open(txn, table, MDB_CREATE, &dbi), 0);
  change(txn, dbi);
  ASSERT_EQ(mdb_txn_commit(txn), 0);
  mdb_env_close(env);
}
inline MDB_val val(const Bytes& bytes) {
  return {bytes.size(), const_cast<char*>(bytes.data())};
}
inline Bytes raw_get(MDB_txn* txn, MDB_dbi dbi, const Bytes& key) {
  MDB_val name = val(key);
  MDB_val out{};
  EXPECT_EQ(mdb_get(txn, dbi, &name, &out), 0);
  return {static_cast<const char*>(out.mv_data), out.mv_size};
}
inline void raw_put(MDB_txn* txn, MDB_dbi dbi, const Bytes& key, const Bytes& stored) {
  MDB_val name = val(key);
  MDB_val value = val(stored);
  EXPECT_EQ(mdb_put(txn, dbi, &name, &value, 0), 0);
}

}  // namespace queen::store

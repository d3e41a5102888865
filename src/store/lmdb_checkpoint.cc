// Reading and writing of the checkpoint file. Every value lies there with its checksum behind it.
#include "store/detail/lmdb_checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/invariant.h"
#include "store/detail/lmdb.h"
#include "store/detail/lmdb_check.h"
#include "store/detail/stored_value.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::store {
namespace {

using detail::Cursor;
using detail::Env;
using detail::is_of_file;
using detail::lmdb_error;
using detail::to_val;
using detail::to_view;
using detail::Txn;
using detail::verified;

constexpr std::uint64_t kMapBytesMin = std::uint64_t{1} << 30;
constexpr std::size_t kChecksumBytes = 8;
// LMDB keeps the memory of every page that a transaction changed for the next one, and what was read through
// the map stays mapped. Above this the file is closed and opened again, which gives both back.
constexpr std::uint64_t kKeptPagesMax = 8192;
constexpr int kGrowTriesMax = 8;

class LmdbCheckpoint final : public CheckpointFile {
 public:
  LmdbCheckpoint(Env env, std::string directory, detail::MapRule rule, bool fresh, Logger log)
      : env_(std::move(env)),
        directory_(std::move(directory)),
        path_(directory_ + "/data.mdb"),
        rule_(rule),
        fresh_(fresh),
        log_(std::move(log)) {
    note_usage();
  }

  Status load(Store& store) override;
  Status write(const Cut& cut) override;
  Result<Verified> verify(const RowPlace& from, std::size_t rows_max) override;
  bool fresh() const override { return fresh_; }
  Usage usage() const override { return {used_bytes_.load(), map_bytes_.load()}; }

 private:
  Error error(int code, std::string_view doing) const {
    map_full_ = code == MDB_MAP_FULL;
    return lmdb_error(code, doing, path_);
  }
  Result<Txn> begin(unsigned flags);
  // Nothing when the table has never been written.
  Result<std::optional<MDB_dbi>> table(MDB_txn* txn, Keyspace keyspace) const;
  Result<std::optional<std::uint64_t>> meta_number(MDB_txn* txn, BytesView key) const;
  Status check_format(MDB_txn* txn) const;
  Result<std::uint64_t> load_all(Store& store);
  Result<std::uint64_t> load_table(MDB_txn* txn, Keyspace keyspace, Store& store) const;
  Result<Bytes> verify_rows(MDB_txn* txn, MDB_dbi dbi, const RowPlace& from, std::size_t rows_max,
                            std::size_t& rows) const;
  Status check_count(MDB_txn* txn, Keyspace keyspace, std::uint64_t found) const;

  Status write_table(MDB_txn* txn, Keyspace keyspace, const std::vector<CutRow>& rows) const;
  Status write_row(MDB_txn* txn, MDB_dbi dbi, Keyspace keyspace, const CutRow& row) const;
  Status put_meta_number(MDB_txn* txn, BytesView key, std::uint64_t value) const;
  Result<std::uint64_t> entries(MDB_txn* txn, MDB_dbi dbi) const;
  Status write_all(const Cut& cut);
  Status reopen();
  void give_back(std::uint64_t rows);
  std::uint64_t bytes_needed(const Cut& cut) const;
  bool grow_map(std::uint64_t need);
  void note_usage();

  Env env_;
  std::string directory_;
  std::string path_;
  detail::MapRule rule_;
  bool fresh_;
  bool nearly_full_ = false;       // said already
  mutable bool map_full_ = false;  // that was the last error of LMDB
  Logger log_;
  std::uint64_t transaction_ = 0;  // the last one in the file
  std::uint64_t page_bytes_ = 4096;
  std::uint64_t verified_ = 0;  // rows, since the file was opened or a walk ended
  std::atomic<std::uint64_t> used_bytes_{0};
  std::atomic<std::uint64_t> map_bytes_{0};
};

Result<Txn> LmdbCheckpoint::begin(unsigned flags) {
  if (!env_) {
    if (auto opened = reopen(); !opened) return opened.error();
  }
  MDB_txn* txn = nullptr;
  if (const int code = mdb_txn_begin(env_.get(), nullptr, flags, &txn); code != 0)
    return error(code, "beginning a transaction on");
  return Txn(txn);
}

Result<std::optional<MDB_dbi>> LmdbCheckpoint::table(MDB_txn* txn, Keyspace keyspace) const {
  MDB_dbi dbi = 0;
  const int code = mdb_dbi_open(txn, std::string(name_of(keyspace)).c_str(), 0, &dbi);
  if (code == MDB_NOTFOUND) return std::optional<MDB_dbi>();
  if (code != 0) return error(code, fmt::format("opening table {} of", name_of(keyspace)));
  return std::optional<MDB_dbi>(dbi);
}

Result<std::optional<std::uint64_t>> LmdbCheckpoint::meta_number(MDB_txn* txn, BytesView key) const {
  const auto meta = table(txn, Keyspace::meta);
  if (!meta) return meta.error();
  if (!*meta) return std::optional<std::uint64_t>();
  MDB_val name = to_val(key);
  MDB_val stored{};
  const int code = mdb_get(txn, **meta, &name, &stored);
  if (code == MDB_NOTFOUND) return std::optional<std::uint64_t>();
  if (code != 0) return error(code, "reading");
  const auto row = verified(Keyspace::meta, key, to_view(stored));
  if (!row) return row.error();
  const auto number = decode_meta_u64(row->value);
  if (!number) return row_damage(Keyspace::meta, key, "value is not a number of 8 bytes");
  return std::optional<std::uint64_t>(*number);
}

Status LmdbCheckpoint::check_format(MDB_txn* txn) const {
  const auto format = meta_number(txn, kMetaStoreFormat);
  if (!format) return format.error();
  if (*format && **format == detail::kStoreFormat) return {};
  if (*format)
    return Error{Errc::corrupt, fmt::format("{} has store_format {}; this build supports {}: {}", path_,
                                            **format, detail::kStoreFormat, detail::kOtherVersionRepair)};
  MDB_stat facts{};
  for (std::size_t i = 0; i < kKeyspaceCount; ++i) {
    const auto dbi = table(txn, static_cast<Keyspace>(i));
    if (!dbi) return dbi.error();
    if (!*dbi) continue;
    if (const int code = mdb_stat(txn, **dbi, &facts); code != 0) return error(code, "reading");
    if (facts.ms_entries != 0)
      return Error{Errc::corrupt,
                   fmt::format("{} has rows in {} and no store_format (found none; this build "
                               "supports {}): {}",
                               path_, kKeyspaceNames[i], detail::kStoreFormat, detail::kOtherVersionRepair)};
  }
  return {};
}

Result<std::uint64_t> LmdbCheckpoint::load_table(MDB_txn* txn, Keyspace keyspace, Store& store) const {
  const auto dbi = table(txn, keyspace);
  if (!dbi) return dbi.error();
  if (!*dbi) return 0;
  MDB_cursor* raw = nullptr;
  if (const int code = mdb_cursor_open(txn, **dbi, &raw); code != 0) return error(code, "reading");
  const Cursor cursor(raw);
  MDB_val key{};
  MDB_val stored{};
  detail::KeyOrder order;
  std::uint64_t rows = 0;
  int code = mdb_cursor_get(raw, &key, &stored, MDB_FIRST);
  for (; code == 0; code = mdb_cursor_get(raw, &key, &stored, MDB_NEXT)) {
    const BytesView name = to_view(key);
    if (auto ordered = order.next(keyspace, name); !ordered) return std::move(ordered).error();
    const auto row = verified(keyspace, name, to_view(stored));
    if (!row) return row.error();
    if (is_of_file(keyspace, name)) continue;
    store.load(keyspace, name, row->value, row->checksum);
    ++rows;
  }
  if (code != MDB_NOTFOUND) return error(code, "reading");
  return rows;
}

Status LmdbCheckpoint::check_count(MDB_txn* txn, Keyspace keyspace, std::uint64_t found) const {
  const Bytes key = meta_rows(keyspace);
  const auto recorded = meta_number(txn, key);
  if (!recorded) return recorded.error();
  if (recorded->value_or(0) == found) return {};
  return row_damage(Keyspace::meta, key,
                    fmt::format("table {} should have {} rows and has {}", name_of(keyspace),
                                recorded->value_or(0), found));
}

Result<std::uint64_t> LmdbCheckpoint::load_all(Store& store) {
  const auto txn = begin(MDB_RDONLY);
  if (!txn) return txn.error();
  if (auto format = check_format(txn->get()); !format) return format.error();
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < kKeyspaceCount; ++i) {
    const auto keyspace = static_cast<Keyspace>(i);
    const auto rows = load_table(txn->get(), keyspace, store);
    if (!rows) return rows.error();
    if (auto counted = check_count(txn->get(), keyspace, *rows); !counted) return counted.error();
    out += *rows;
  }
  return out;
}

Status LmdbCheckpoint::load(Store& store) {
  const auto rows = load_all(store);
  if (!rows) return rows.error();
  give_back(*rows);
  return {};
}

// A new transaction each time: a long one would keep pages from being used again (CP-5).
Result<Verified> LmdbCheckpoint::verify(const RowPlace& from, std::size_t rows_max) {
  const auto txn = begin(MDB_RDONLY);
  if (!txn) return txn.error();
  Verified out;
  out.next = table_behind(from.keyspace);
  const auto dbi = table(txn->get(), from.keyspace);
  if (!dbi) return dbi.error();
  if (*dbi) {
    const auto more = verify_rows(txn->get(), **dbi, from, rows_max, out.rows);
    if (!more) return more.error();
    if (!more->empty()) out.next = RowPlace{from.keyspace, *more};
  }
  verified_ += out.rows;
  if (out.next) return out;
  give_back(std::exchange(verified_, 0));
  return out;
}

// The last key when there may be more rows.
Result<Bytes> LmdbCheckpoint::verify_rows(MDB_txn* txn, MDB_dbi dbi, const RowPlace& from,
                                          std::size_t rows_max, std::size_t& rows) const {
  MDB_cursor* raw = nullptr;
  if (const int code = mdb_cursor_open(txn, dbi, &raw); code != 0) return error(code, "reading");
  const Cursor cursor(raw);
  MDB_val key = to_val(from.after);
  MDB_val stored{};
  Bytes before = from.after;
  int code = mdb_cursor_get(raw, &key, &stored, before.empty() ? MDB_FIRST : MDB_SET_RANGE);
  if (code == 0 && to_view(key) == before) code = mdb_cursor_get(raw, &key, &stored, MDB_NEXT);
  for (; code == 0; code = mdb_cursor_get(raw, &key, &stored, MDB_NEXT)) {
    const BytesView name = to_view(key);
    if (name <= before) return row_damage(from.keyspace, name, "keys are out of order");
    const auto row = verified(from.keyspace, name, to_view(stored));
    if (!row) return row.error();
    before.assign(name);
    if (++rows == rows_max) return before;
  }
  if (code != MDB_NOTFOUND) return error(code, "reading");
  return Bytes();
}

Result<std::uint64_t> LmdbCheckpoint::entries(MDB_txn* txn, MDB_dbi dbi) const {
  MDB_stat facts{};
  if (const int code = mdb_stat(txn, dbi, &facts); code != 0) return error(code, "reading");
  return facts.ms_entries;
}

Status LmdbCheckpoint::write_row(MDB_txn* txn, MDB_dbi dbi, Keyspace keyspace, const CutRow& row) const {
  MDB_val key = to_val(row.key);
  if (!row.value) {
    const int code = mdb_del(txn, dbi, &key, nullptr);
    if (code != 0 && code != MDB_NOTFOUND) return error(code, "deleting from");
    return {};
  }
  if (row_checksum(keyspace, row.key, *row.value) != row.checksum)
    return row_damage(keyspace, row.key, "checksum does not match in memory");
  MDB_val stored{row.value->size() + kChecksumBytes, nullptr};
  if (const int code = mdb_put(txn, dbi, &key, &stored, MDB_RESERVE); code != 0)
    return error(code, "writing to");
  char* into = static_cast<char*>(stored.mv_data);
  std::memcpy(into, row.value->data(), row.value->size());
  store_le(into + row.value->size(), row.checksum);
  return {};
}

Status LmdbCheckpoint::put_meta_number(MDB_txn* txn, BytesView key, std::uint64_t value) const {
  const auto meta = table(txn, Keyspace::meta);
  if (!meta) return meta.error();
  INVARIANT(meta->has_value(), "table meta is gone from {}", path_);
  CutRow row{Bytes(key), encode_meta_u64(value), 0};
  row.checksum = row_checksum(Keyspace::meta, key, *row.value);
  return write_row(txn, **meta, Keyspace::meta, row);
}

// The recorded count moves by what this transaction adds or removes. Taking LMDB's own count instead would
// bless a row that had been lost before.
Status LmdbCheckpoint::write_table(MDB_txn* txn, Keyspace keyspace, const std::vector<CutRow>& rows) const {
  MDB_dbi dbi = 0;
  const std::string name(name_of(keyspace));
  if (const int code = mdb_dbi_open(txn, name.c_str(), MDB_CREATE, &dbi); code != 0)
    return error(code, fmt::format("making table {} of", name));
  const auto before = entries(txn, dbi);
  if (!before) return before.error();
  for (const CutRow& row : rows) {
    INVARIANT(!is_of_file(keyspace, row.key), "row {} belongs to the file", describe_key(row.key));
    if (auto written = write_row(txn, dbi, keyspace, row); !written) return written;
  }
  const auto after = entries(txn, dbi);
  if (!after) return after.error();
  const auto recorded = meta_number(txn, meta_rows(keyspace));
  if (!recorded) return recorded.error();
  return put_meta_number(txn, meta_rows(keyspace), recorded->value_or(0) + *after - *before);
}

bool volume_is_tight(const std::string& directory) {
  constexpr std::uint64_t kTightBytes = 4ULL << 20;
  struct statvfs use{};
  return ::statvfs(directory.c_str(), &use) == 0 && std::uint64_t{use.f_bavail} * use.f_frsize < kTightBytes;
}

Status LmdbCheckpoint::write_all(const Cut& cut) {
  auto txn = begin(0);
  if (!txn) return txn.error();
  // Table meta comes first: the counts of the others are written into it.
  static_assert(static_cast<std::size_t>(Keyspace::meta) == 0);
  for (std::size_t i = 0; i < kKeyspaceCount; ++i) {
    if (i != 0 && cut.rows[i].empty()) continue;
    if (auto written = write_table(txn->get(), static_cast<Keyspace>(i), cut.rows[i]); !written)
      return written;
  }
  if (auto put = put_meta_number(txn->get(), kMetaStoreFormat, detail::kStoreFormat); !put) return put;
  const bool tight = volume_is_tight(directory_);
  const int code = mdb_txn_commit(txn->release());
  if (code == 0) return {};
  // LMDB calls a short write EIO, and a short write is how a volume that fills up shows first.
  if (code == EIO && (tight || volume_is_tight(directory_))) return error(ENOSPC, "committing to");
  return error(code, "committing to");
}

Status LmdbCheckpoint::write(const Cut& cut) {
  grow_map(bytes_needed(cut));
  Status written = write_all(cut);
  for (int tries = 0; !written && map_full_ && tries < kGrowTriesMax; ++tries) {
    if (!rule_.grows || !grow_map(map_bytes_.load() * 2)) break;
    written = write_all(cut);
  }
  if (!written) return written;
  fresh_ = false;
  note_usage();
  give_back(cut.count());
  return {};
}

// After a transaction that changed or read so many rows. The file is opened again by the next one.
void LmdbCheckpoint::give_back(std::uint64_t rows) {
  if (std::min(rows, used_bytes_.load() / page_bytes_) > kKeptPagesMax) env_.reset();
}

// Only the file that was closed: opening makes one that is not there, and in a new one, or an older one, the
// next cut would look like a whole checkpoint (HD-29). Errors: busy (no descriptors), unavailable.
Status LmdbCheckpoint::reopen() {
  const auto there = checkpoint_exists(directory_);
  if (!there) return there.error();
  if (!*there) return Error{Errc::unavailable, fmt::format("{} has gone or is empty", path_)};
  auto env = detail::open_env(directory_, map_bytes_.load());
  if (!env) {
    const int cause = env.error().sys_errno;
    const bool passes = cause == EMFILE || cause == ENFILE;
    return Error{passes ? Errc::busy : Errc::unavailable, env.error().what, cause};
  }
  MDB_envinfo info{};
  mdb_env_info(env->get(), &info);
  if (info.me_last_txnid != transaction_)
    return Error{Errc::unavailable, fmt::format("{} is another file: its transaction is {}, not {}", path_,
                                                info.me_last_txnid, transaction_)};
  env_ = std::move(*env);
  return {};
}

// Every page may be copied once, and rows put in order leave pages half full.
std::uint64_t LmdbCheckpoint::bytes_needed(const Cut& cut) const {
  constexpr std::uint64_t kRowBytes = 32;
  std::uint64_t need = 2 * used_bytes_.load();
  for (const auto& table : cut.rows)
    for (const CutRow& row : table)
      need += 3 * (row.key.size() + (row.value ? row.value->size() : 0) + kRowBytes);
  return need;
}

// No transaction is open here, which is what LMDB asks for. False when the map could not grow, which is no
// error yet: it may suffice.
bool LmdbCheckpoint::grow_map(std::uint64_t need) {
  if (!rule_.grows || need <= map_bytes_.load()) return true;
  const std::uint64_t bytes = detail::rounded_map(need * 2);
  if (!env_) {
    map_bytes_ = bytes;
    return true;
  }
  const int code = mdb_env_set_mapsize(env_.get(), bytes);
  if (code == 0)
    log_.info("store_map_grown", {{"path", path_}, {"map_bytes", bytes}});
  else
    log_.warn("store_map_cannot_grow", {{"path", path_}, {"bytes", bytes}, {"error", mdb_strerror(code)}});
  note_usage();
  return code == 0;
}

void LmdbCheckpoint::note_usage() {
  MDB_envinfo info{};
  MDB_stat facts{};
  mdb_env_info(env_.get(), &info);
  mdb_env_stat(env_.get(), &facts);
  const std::uint64_t used = (info.me_last_pgno + 1) * facts.ms_psize;
  transaction_ = info.me_last_txnid;
  page_bytes_ = facts.ms_psize;
  used_bytes_ = used;
  map_bytes_ = info.me_mapsize;
  const bool nearly_full = usage().nearly_full();
  if (nearly_full && !nearly_full_)
    log_.warn("store_map_nearly_full",
              {{"path", path_}, {"used_bytes", used}, {"map_bytes", info.me_mapsize}});
  nearly_full_ = nearly_full;
}

Status sync_directory(const std::string& directory) {
  const auto failed = [&] {
    return Error{Errc::unavailable, fmt::format("syncing directory {}: {}", directory, std::strerror(errno)),
                 errno};
  };
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return failed();
  const int code = ::fsync(fd);
  Status out;
  if (code != 0) out = failed();
  ::close(fd);
  return out;
}

}  // namespace

namespace detail {

Result<std::unique_ptr<CheckpointFile>> open_lmdb(const std::string& directory, MapRule rule, Logger log) {
  if (::mkdir(directory.c_str(), 0750) != 0 && errno != EEXIST)
    return Error{Errc::unavailable, fmt::format("making {}: {}", directory, std::strerror(errno)), errno};
  const std::string path = directory + "/data.mdb";
  const auto there = checkpoint_exists(directory);
  if (!there) return there.error();
  LmdbFacts facts;
  if (*there) {
    auto checked = check_lmdb_file(path);
    if (!checked) return checked.error();
    facts = *checked;
  }
  const std::uint64_t used = (facts.last_page + 1) * facts.page_bytes;
  if (rule.grows && used > rule.bytes / 2) rule.bytes = std::max(rule.bytes, used * 4);
  rule.bytes = rounded_map(rule.bytes);

  auto env = open_env(directory, rule.bytes);
  if (!env) return std::move(env).error();
  // LMDB syncs the file but not the directory that names it.
  if (auto synced = sync_directory(directory); !*there && !synced) return synced.error();
  const bool fresh = facts.transaction == 0;
  return std::unique_ptr<CheckpointFile>(
      std::make_unique<LmdbCheckpoint>(std::move(*env), directory, rule, fresh, std::move(log)));
}

}  // namespace detail

Result<bool> checkpoint_exists(const std::string& directory) {
  struct stat facts{};
  const std::string path = directory + "/data.mdb";
  if (::stat(path.c_str(), &facts) == 0) return facts.st_size > 0;
  if (errno == ENOENT) return false;
  return Error{Errc::unavailable, fmt::format("looking at {}: {}", path, std::strerror(errno)), errno};
}

Result<std::unique_ptr<CheckpointFile>> open_lmdb_checkpoint(const std::string& directory,
                                                             std::uint64_t map_bytes, Logger log) {
  detail::MapRule rule;
  if (map_bytes != 0) rule.bytes = std::max(map_bytes, kMapBytesMin);
  return detail::open_lmdb(directory, rule, std::move(log));
}

}  // namespace queen::store

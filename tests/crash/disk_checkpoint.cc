// Bytes: magic, then rows (u8 table, u32 key bytes, u32 value bytes, u64 row checksum, key, value), then
// xxh3_64 of all before it. Little-endian; read by the process that wrote them only.
#include "disk_checkpoint.h"

#include <cstring>
#include <map>

#include "base/hash.h"
#include "store/damage.h"

namespace queen::crash {
namespace {

using store::Cut;
using store::CutRow;
using store::Keyspace;
using store::kKeyspaceCount;

constexpr BytesView kMagic = "QNCKPT1\n";
constexpr std::uint64_t kBytesMax = 1ULL << 30;
constexpr std::size_t kPieces = 3;  // writes per file

template <class T>
void put(Bytes& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}
template <class T>
bool take(BytesView& from, T& value) {
  if (from.size() < sizeof value) return false;
  std::memcpy(&value, from.data(), sizeof value);
  from.remove_prefix(sizeof value);
  return true;
}

Error damaged(const std::string& path, std::string_view how) {
  return {Errc::corrupt, path + ": " + std::string(how) + "; restore a backup of the directory"};
}

using Tables = std::array<std::map<Bytes, CutRow>, kKeyspaceCount>;

Bytes encode(const Tables& tables) {
  Bytes out{kMagic};
  for (std::size_t table = 0; table < kKeyspaceCount; ++table) {
    for (const auto& [key, row] : tables[table]) {
      put(out, static_cast<std::uint8_t>(table));
      put(out, static_cast<std::uint32_t>(key.size()));
      put(out, static_cast<std::uint32_t>(row.value->size()));
      put(out, row.checksum);
      out += key;
      out += *row.value;
    }
  }
  put(out, xxh3_64(out));
  return out;
}

Result<Tables> decode(const std::string& path, BytesView bytes) {
  if (bytes.size() < kMagic.size() + 8 || !bytes.starts_with(kMagic)) return damaged(path, "no checkpoint");
  BytesView rest = bytes.substr(bytes.size() - 8);
  std::uint64_t sum = 0;
  take(rest, sum);
  rest = bytes.substr(0, bytes.size() - 8);
  if (xxh3_64(rest) != sum) return damaged(path, "checksum does not match");
  rest.remove_prefix(kMagic.size());
  Tables tables;
  while (!rest.empty()) {
    std::uint8_t table = 0;
    std::uint32_t key_bytes = 0, value_bytes = 0;
    CutRow row;
    if (!take(rest, table) || !take(rest, key_bytes) || !take(rest, value_bytes) || !take(rest, row.checksum))
      return damaged(path, "a row is cut");
    if (table >= kKeyspaceCount || rest.size() < std::size_t{key_bytes} + value_bytes)
      return damaged(path, "a row is cut");
    row.key = rest.substr(0, key_bytes);
    row.value = Bytes(rest.substr(key_bytes, value_bytes));
    rest.remove_prefix(std::size_t{key_bytes} + value_bytes);
    const auto keyspace = static_cast<Keyspace>(table);
    if (store::row_checksum(keyspace, row.key, *row.value) != row.checksum)
      return store::row_damage(keyspace, row.key, "checksum does not match");
    auto& rows = tables[table];
    if (!rows.empty() && rows.rbegin()->first >= row.key) return damaged(path, "keys do not ascend");
    rows.emplace_hint(rows.end(), row.key, row);
  }
  return tables;
}

class DiskCheckpoint final : public store::CheckpointFile {
 public:
  DiskCheckpoint(disk::Disk& disk, std::string directory)
      : disk_(disk), directory_(std::move(directory)), path_(directory_ + "/checkpoint") {}

  Status read() {
    const auto there = disk_.exists(path_);
    if (!there) return there.error();
    if (!*there) return {};
    const auto bytes = disk::read_file(disk_, path_, kBytesMax);
    if (!bytes) return bytes.error();
    auto tables = decode(path_, *bytes);
    if (!tables) return tables.error();
    tables_ = std::move(*tables);
    fresh_ = false;
    return {};
  }

  Status load(store::Store& store) override {
    for (std::size_t i = 0; i < kKeyspaceCount; ++i)
      for (const auto& [key, row] : tables_[i])
        store.load(static_cast<Keyspace>(i), key, *row.value, row.checksum);
    return {};
  }

  Status write(const Cut& cut) override {
    Tables next = tables_;
    for (std::size_t i = 0; i < kKeyspaceCount; ++i) {
      for (const CutRow& row : cut.rows[i]) {
        if (row.value) {
          next[i].insert_or_assign(row.key, row);
        } else {
          next[i].erase(row.key);
        }
      }
    }
    if (auto done = replace(encode(next)); !done) return done;
    tables_ = std::move(next);
    fresh_ = false;
    return {};
  }
  // All of it at once: the file has one checksum besides those of its rows.
  Result<store::Verified> verify(const store::RowPlace&, std::size_t) override {
    if (fresh_) return store::Verified{};
    const auto bytes = disk::read_file(disk_, path_, kBytesMax);
    if (!bytes) return bytes.error();
    const auto tables = decode(path_, *bytes);
    if (!tables) return tables.error();
    store::Verified verified;
    for (const auto& table : *tables) verified.rows += table.size();
    return verified;
  }
  bool fresh() const override { return fresh_; }
  Usage usage() const override { return {}; }

 private:
  Status replace(const Bytes& bytes) {
    const std::string temporary = path_ + ".new";
    auto file = disk_.open(temporary, disk::Open::create);
    if (!file) return file.error();
    if (auto done = (*file)->truncate(0); !done) return done;
    const std::size_t piece = bytes.size() / kPieces + 1;
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      if (auto done = (*file)->pwrite(at, BytesView(bytes).substr(at, piece)); !done) return done;
    if (auto done = (*file)->sync(); !done) return done;
    if (auto done = disk_.rename(temporary, path_); !done) return done;
    return disk_.sync_dir(directory_);
  }

  disk::Disk& disk_;
  const std::string directory_, path_;
  Tables tables_;
  bool fresh_ = true;
};

}  // namespace

Result<bool> DiskCheckpoints::exists(const std::string& directory) {
  return disk_.exists(directory + "/checkpoint");
}

Result<std::unique_ptr<store::CheckpointFile>> DiskCheckpoints::open(const std::string& directory) {
  auto file = std::make_unique<DiskCheckpoint>(disk_, directory);
  if (auto done = file->read(); !done) return done.error();
  return std::unique_ptr<store::CheckpointFile>(std::move(file));
}

}  // namespace queen::crash

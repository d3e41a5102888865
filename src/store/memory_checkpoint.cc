// The checkpoint file of tests that need none: rows in a map.
#include <map>

#include "store/checkpoint_file.h"

namespace queen::store {
namespace {

class MemoryCheckpoint final : public CheckpointFile {
 public:
  Status load(Store& store) override {
    for (std::size_t i = 0; i < kKeyspaceCount; ++i)
      for (const auto& [key, row] : tables_[i])
        store.load(static_cast<Keyspace>(i), key, *row.value, row.checksum);
    return {};
  }
  Result<Verified> verify(const RowPlace& from, std::size_t rows_max) override {
    const auto& table = tables_[static_cast<std::size_t>(from.keyspace)];
    Verified out;
    for (auto at = table.upper_bound(from.after); at != table.end(); ++at) {
      if (out.rows++ == rows_max) return Verified{rows_max, RowPlace{from.keyspace, std::prev(at)->first}};
      if (row_checksum(from.keyspace, at->first, *at->second.value) != at->second.checksum)
        return row_damage(from.keyspace, at->first, "checksum does not match");
    }
    out.next = table_behind(from.keyspace);
    return out;
  }
  Status write(const Cut& cut) override {
    for (std::size_t i = 0; i < kKeyspaceCount; ++i) {
      if (auto checked = check(static_cast<Keyspace>(i), cut.rows[i]); !checked) return checked;
    }
    for (std::size_t i = 0; i < kKeyspaceCount; ++i) {
      for (const CutRow& row : cut.rows[i]) {
        if (row.value)
          tables_[i].insert_or_assign(row.key, row);
        else
          tables_[i].erase(row.key);
      }
    }
    fresh_ = false;
    return {};
  }
  bool fresh() const override { return fresh_; }
  Usage usage() const override { return {}; }

 private:
  static Status check(Keyspace keyspace, const std::vector<CutRow>& rows) {
    for (const CutRow& row : rows) {
      if (!row.value || row_checksum(keyspace, row.key, *row.value) == row.checksum) continue;
      return row_damage(keyspace, row.key, "checksum does not match in memory");
    }
    return {};
  }
  std::array<std::map<Bytes, CutRow>, kKeyspaceCount> tables_;
  bool fresh_ = true;
};

}  // namespace

std::unique_ptr<CheckpointFile> make_memory_checkpoint() {
  return std::make_unique<MemoryCheckpoint>();
}

}  // namespace queen::store
